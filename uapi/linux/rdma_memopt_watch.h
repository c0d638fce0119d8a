/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * rdma_memopt: watches, which say when memory behind an address is gone.  Include
 * <linux/rdma_memopt.h>, which says what holds for every command.
 *
 * A watch has slots.  A slot has a generation, a number in a page the program
 * maps read-only, and may have a range of the program's own addresses.  The
 * generation of the slot rises before the kernel takes pages of the range away:
 * by munmap(), mmap() over it, mremap(), madvise(MADV_DONTNEED, MADV_FREE or
 * MADV_REMOVE), truncation of the file behind it, copy-on-write, exit.  So "is
 * what I registered for this address still what is there?" is one load:
 *
 *	before = load(slot);
 *	mr = ibv_reg_mr(range);
 *	if (load(slot) == before)
 *		it is valid as long as load(slot) == before
 *
 * Pinning may itself move pages and raise the generation, once; try again then.
 * A change of protection raises nothing: it takes no page away.
 *
 * A watch belongs to the memory it was made for.  After fork() the child has no
 * mapping of the generations; every command on the watch from another address
 * space is refused with EPERM.
 */
#ifndef _UAPI_LINUX_RDMA_MEMOPT_WATCH_H
#define _UAPI_LINUX_RDMA_MEMOPT_WATCH_H

#ifndef _UAPI_LINUX_RDMA_MEMOPT_H
#error "include <linux/rdma_memopt.h>"
#endif

/**
 * struct memopt_watch_create - make a watch on the caller's address space
 * @size: sizeof(struct memopt_watch_create)
 * @flags: must be 0
 * @slots: 1 to memopt_query.out_max_watch_slots
 * @out_watch_id: the id, never 0
 * @out_mmap_offset: offset for mmap() of the generations
 * @out_mmap_length: bytes to map: @slots times 8, rounded up to whole pages.
 *	Generation n, a __u64, is at byte 8 * n.
 *
 * The mapping is read-only: mapping it writable, or making it so, is EACCES.
 */
struct memopt_watch_create {
	__u32 size;
	__u32 flags;
	__u32 slots;
	__u32 out_watch_id;
	__aligned_u64 out_mmap_offset;
	__aligned_u64 out_mmap_length;
};

#define MEMOPT_WATCH_CREATE _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_WATCH_CREATE)

/**
 * struct memopt_watch_add - watch a range
 * @size: sizeof(struct memopt_watch_add)
 * @flags: must be 0
 * @watch_id: from WATCH_CREATE
 * @slot: 0 to slots - 1, else EINVAL; EBUSY if it has a range
 * @start: first byte; need not be mapped, nor aligned
 * @length: bytes, more than 0; the range must end in user space
 * @out_generation: of the slot now
 *
 * Several slots may have the same range.
 */
struct memopt_watch_add {
	__u32 size;
	__u32 flags;
	__u32 watch_id;
	__u32 slot;
	__aligned_u64 start;
	__aligned_u64 length;
	__aligned_u64 out_generation;
};

#define MEMOPT_WATCH_ADD _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_WATCH_ADD)

/**
 * struct memopt_watch_del - stop watching a range
 * @size: sizeof(struct memopt_watch_del)
 * @flags: must be 0
 * @watch_id: from WATCH_CREATE
 * @slot: 0 to slots - 1, else EINVAL; ENOENT if it has no range
 * @out_generation: of the slot, raised once more by this command
 *
 * Whoever compares with an older value finds the range invalid.  An event of the
 * slot that was not read yet is dropped.
 */
struct memopt_watch_del {
	__u32 size;
	__u32 flags;
	__u32 watch_id;
	__u32 slot;
	__aligned_u64 out_generation;
};

#define MEMOPT_WATCH_DEL _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_WATCH_DEL)

/**
 * struct memopt_watch_destroy - end a watch and all its ranges
 * @size: sizeof(struct memopt_watch_destroy)
 * @flags: must be 0
 * @watch_id: from WATCH_CREATE
 * @__reserved: must be 0
 *
 * A mapping of the generations stays; its numbers rise once more and then no
 * longer change.
 */
struct memopt_watch_destroy {
	__u32 size;
	__u32 flags;
	__u32 watch_id;
	__u32 __reserved;
};

#define MEMOPT_WATCH_DESTROY _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_WATCH_DESTROY)

/* The addresses are no longer mapped, or something else is there now. */
#define MEMOPT_WATCH_EVENT_UNMAP (1U << 0)
/* Pages were dropped or replaced; the mapping is still there. */
#define MEMOPT_WATCH_EVENT_CLEAR (1U << 1)

/**
 * struct memopt_watch_event - what read() of the file returns, one or more
 * @watch_id: watch
 * @slot: whose generation rose
 * @events: MEMOPT_WATCH_EVENT_*, all since the slot's last event was read
 * @__reserved: 0
 * @start: first byte of what was taken away, within the slot's range
 * @length: bytes up to the last one taken away since the last event
 *
 * read() with less room than one event is EINVAL; without an event it blocks, or
 * is EAGAIN with O_NONBLOCK.  poll() says EPOLLIN while there is one.  At most
 * one event per slot is kept, so none is ever lost for lack of room.
 */
struct memopt_watch_event {
	__u32 watch_id;
	__u32 slot;
	__u32 events;
	__u32 __reserved;
	__aligned_u64 start;
	__aligned_u64 length;
};

#endif /* _UAPI_LINUX_RDMA_MEMOPT_WATCH_H */
