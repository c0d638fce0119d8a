/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * rdma_memopt: contiguous memory for RDMA, the kernel's contract with programs.
 *
 * Every command takes one struct through ioctl() on /dev/rdma_memopt.  A struct
 * starts with its own size, so both sides can grow it by appending members whose
 * value zero means "as before": a new program on an old module gets E2BIG only
 * if it sets a member the module does not know, and an old program on a new
 * module gets zeros.  Members named out_* are written by the kernel and ignored
 * on input; members named __reserved must be zero.
 *
 * Everything created through a file belongs to that open file, not to the
 * process: a passed or inherited descriptor keeps it alive, the last close ends
 * it.  Mappings, MRs and shares each keep the memory of their buffer alive, so
 * closing in any order is safe.
 *
 * No address of kernel memory, of the I/O bus or of physical memory is ever an
 * output.  An iova is a number the module draws; it means something only
 * together with its rkey.
 *
 * Errors, the same for every command:
 *   ENOTTY      the command number is unknown
 *   EINVAL      size is smaller than the first version of the struct, or a value
 *               is outside its range
 *   E2BIG       a byte beyond the struct the module knows is not zero
 *   EOPNOTSUPP  a flag, a reserved member or an enum value the module does not
 *               know, or something this kernel or device can not do
 *   EFAULT      the struct can not be read or written
 *   ENOENT      no object with that id in this file, or it has another type
 *   ENOMEM      out of kernel memory, or no free run of the wanted length
 *   ENODEV      no region, or no RDMA device, of the wanted kind
 *   EOVERFLOW   offset + length does not fit
 *   ENOSPC      a limit on the number of objects is reached
 *   EDQUOT      a limit on bytes is reached, see memopt_stats; CAP_SYS_RESOURCE
 *               in the initial user namespace lifts it
 * A command that fails has no effect.
 */
#ifndef _UAPI_LINUX_RDMA_MEMOPT_H
#define _UAPI_LINUX_RDMA_MEMOPT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MEMOPT_DEVICE_NAME "rdma_memopt"

/* Raised when a command appears or a behaviour changes; never goes down. */
#define MEMOPT_UAPI_VERSION 1

#define MEMOPT_IOC_MAGIC 0xBC

enum memopt_command {
	MEMOPT_CMD_QUERY = 0x00,
	MEMOPT_CMD_REGION_INFO = 0x01,
	MEMOPT_CMD_BUF_ALLOC = 0x02,
	MEMOPT_CMD_BUF_INFO = 0x03,
	MEMOPT_CMD_BUF_FREE = 0x04,
	MEMOPT_CMD_BUF_EXPORT = 0x05,
	MEMOPT_CMD_MR_REG = 0x06,
	MEMOPT_CMD_MR_INFO = 0x07,
	MEMOPT_CMD_MR_DEREG = 0x08,
	MEMOPT_CMD_SHARE_CREATE = 0x09,
	MEMOPT_CMD_SHARE_INFO = 0x0a,
	MEMOPT_CMD_SHARE_DESTROY = 0x0b,
	MEMOPT_CMD_WATCH_CREATE = 0x0c,
	MEMOPT_CMD_WATCH_ADD = 0x0d,
	MEMOPT_CMD_WATCH_DEL = 0x0e,
	MEMOPT_CMD_STATS = 0x0f,
	MEMOPT_CMD_MR_PART = 0x10,
	MEMOPT_CMD_WATCH_DESTROY = 0x11,
};

/* Kinds of contiguous memory.  ANY and PINNABLE are for BUF_ALLOC only. */
enum memopt_kind {
	/* whatever is there; contig is tried first */
	MEMOPT_KIND_ANY = 0,
	/* from the kernel's contiguous memory area; user space can not pin it */
	MEMOPT_KIND_CMA = 1,
	/* ordinary contiguous pages; user space can pin it */
	MEMOPT_KIND_CONTIG = 2,
	/* any kind that user space can pin (ibv_reg_mr, O_DIRECT, io_uring) */
	MEMOPT_KIND_PINNABLE = 3,
};

#define MEMOPT_NODE_ANY (-1)

/* Largest alignment BUF_ALLOC takes, in bytes. */
#define MEMOPT_MAX_ALIGNMENT (1ULL << 30)

/* Access rights of MRs and shares.  LOCAL_WRITE is a precondition of the two
 * remote rights that change memory, as the verbs specification wants it.
 */
#define MEMOPT_ACCESS_LOCAL_WRITE (1U << 0)
#define MEMOPT_ACCESS_REMOTE_READ (1U << 1)
#define MEMOPT_ACCESS_REMOTE_WRITE (1U << 2)
#define MEMOPT_ACCESS_REMOTE_ATOMIC (1U << 3)

/* Feature bits of QUERY. */
#define MEMOPT_FEATURE_CONTIG (1ULL << 0)	/* a contig region exists */
#define MEMOPT_FEATURE_CMA (1ULL << 1)		/* a cma region exists */
#define MEMOPT_FEATURE_KERNEL_CMA (1ULL << 2)	/* the kernel has CMA built in */
#define MEMOPT_FEATURE_PA_MR (1ULL << 3)	/* MR_* commands work */
#define MEMOPT_FEATURE_SHARE (1ULL << 4)	/* SHARE_* commands work */
#define MEMOPT_FEATURE_IMPLICIT_MMAP (1ULL << 5) /* mmap at offset 0 allocates */
#define MEMOPT_FEATURE_DMABUF (1ULL << 6)	/* BUF_EXPORT works */
#define MEMOPT_FEATURE_WATCH (1ULL << 7)	/* WATCH_* commands work */
#define MEMOPT_FEATURE_MR_SPLIT (1ULL << 8)	/* MEMOPT_MR_F_SPLIT, MR_PART work */
#define MEMOPT_FEATURE_STATS (1ULL << 9)	/* STATS works, bytes are limited */
#define MEMOPT_FEATURE_HUGE_CONTIG (1ULL << 10)	/* contig is mapped by 2 MiB pages */
#define MEMOPT_FEATURE_HUGE_CMA (1ULL << 11)	/* cma is mapped by 2 MiB pages */

/**
 * struct memopt_query - what this module can do
 * @size: sizeof(struct memopt_query)
 * @flags: must be 0
 * @out_features: MEMOPT_FEATURE_*
 * @out_uapi_version: MEMOPT_UAPI_VERSION of the module
 * @out_region_count: valid values of memopt_region_info.index are below this
 * @out_max_objects: buffers, MRs and shares one open file may hold together
 * @out_max_connections: connections one share accepts at a time
 * @out_max_watch_slots: slots one watch may have; 0 without watches
 * @__reserved: must be 0
 */
struct memopt_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 out_features;
	__u32 out_uapi_version;
	__u32 out_region_count;
	__u32 out_max_objects;
	__u32 out_max_connections;
	__u32 out_max_watch_slots;
	__u32 __reserved;
};

#define MEMOPT_QUERY _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_QUERY)

/**
 * struct memopt_region_info - fill state of one region
 * @size: sizeof(struct memopt_region_info)
 * @flags: must be 0
 * @index: 0 to memopt_query.out_region_count - 1, else ENOENT
 * @out_kind: MEMOPT_KIND_CMA or MEMOPT_KIND_CONTIG
 * @out_node: NUMA node of the memory
 * @__reserved: must be 0
 * @out_total: bytes in the region
 * @out_free: bytes ready for allocation, zeroed
 * @out_used: bytes in buffers that exist or are still mapped or registered
 * @out_quarantined: bytes freed, but pinned by somebody, so not reused yet
 * @out_dirty: bytes freed and waiting to be zeroed
 * @out_largest_free: bytes of the longest free run
 * @out_huge: bytes of @out_total that 2 MiB pages of the CPU can map
 * @out_zeroed: bytes zeroed in the background since the module was loaded
 * @out_waited: bytes of buffers that had to wait for zeroing, since then.  An
 *	allocation waits only if nothing clean is long enough.
 * @out_fragmentation: per mille of @out_free outside the longest free run
 * @__reserved2: must be 0
 *
 * total = free + used + quarantined + dirty, at one instant.
 */
struct memopt_region_info {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 out_kind;
	__s32 out_node;
	__u32 __reserved;
	__aligned_u64 out_total;
	__aligned_u64 out_free;
	__aligned_u64 out_used;
	__aligned_u64 out_quarantined;
	__aligned_u64 out_dirty;
	__aligned_u64 out_largest_free;
	__aligned_u64 out_huge;
	__aligned_u64 out_zeroed;
	__aligned_u64 out_waited;
	__u32 out_fragmentation;
	__u32 __reserved2;
};

#define MEMOPT_REGION_INFO _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_REGION_INFO)

/* Mappings of the buffer are inherited by fork(); otherwise they are not. */
#define MEMOPT_BUF_F_INHERIT (1U << 0)

/**
 * struct memopt_buf_alloc - allocate a zeroed, physically contiguous buffer
 * @size: sizeof(struct memopt_buf_alloc)
 * @flags: MEMOPT_BUF_F_*
 * @kind: enum memopt_kind
 * @node: NUMA node, or MEMOPT_NODE_ANY; a node is a demand, not a hint
 * @length: bytes, more than 0; rounded up to whole pages
 * @alignment: of the physical address: 0, or a power of two from the page size
 *	to MEMOPT_MAX_ALIGNMENT.  0 means the largest power of two that is not
 *	above @length, at most 2 MiB and at least a page.
 * @out_buf_id: the id, never 0
 * @out_kind: MEMOPT_KIND_CMA or MEMOPT_KIND_CONTIG
 * @out_node: NUMA node of the memory
 * @out_segments: physically contiguous pieces (1 in this version)
 * @out_length: @length rounded up to whole pages
 * @out_alignment: the alignment obtained: @alignment, or what 0 stood for
 * @out_mmap_offset: offset for mmap(), never 0 and below 2^44
 *
 * ENODEV: no region of that kind on that node.  ENOMEM: such a region exists but
 * has no free run of that length and alignment (see memopt_region_info).
 */
struct memopt_buf_alloc {
	__u32 size;
	__u32 flags;
	__u32 kind;
	__s32 node;
	__aligned_u64 length;
	__aligned_u64 alignment;
	__u32 out_buf_id;
	__u32 out_kind;
	__s32 out_node;
	__u32 out_segments;
	__aligned_u64 out_length;
	__aligned_u64 out_alignment;
	__aligned_u64 out_mmap_offset;
};

#define MEMOPT_BUF_ALLOC _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_BUF_ALLOC)

/* User space can pin the buffer's mapping. */
#define MEMOPT_BUF_STATE_PINNABLE (1U << 0)
/* The buffer was made by mmap() at offset 0. */
#define MEMOPT_BUF_STATE_IMPLICIT (1U << 1)
/* The administrator revoked it: touching a mapping is SIGBUS. */
#define MEMOPT_BUF_STATE_REVOKED (1U << 2)
/* Revoked, but an importer that can not be told still uses it. */
#define MEMOPT_BUF_STATE_REVOKE_PENDING (1U << 3)

/**
 * struct memopt_buf_info - describe a buffer
 * @size: sizeof(struct memopt_buf_info)
 * @flags: must be 0
 * @buf_id: from BUF_ALLOC, or 0 for the file's implicit buffer
 * @out_kind: as in memopt_buf_alloc
 * @out_node: as in memopt_buf_alloc
 * @out_segments: as in memopt_buf_alloc
 * @out_length: as in memopt_buf_alloc
 * @out_alignment: as in memopt_buf_alloc
 * @out_mmap_offset: as in memopt_buf_alloc; 0 for an implicit buffer
 * @out_mapping_size: bytes of the largest CPU page the buffer is mapped with so
 *	far; 0 while nothing of it has been mapped
 * @out_state: MEMOPT_BUF_STATE_*
 * @out_mappings: live memory mappings (VMAs) of the buffer
 */
struct memopt_buf_info {
	__u32 size;
	__u32 flags;
	__u32 buf_id;
	__u32 out_kind;
	__s32 out_node;
	__u32 out_segments;
	__aligned_u64 out_length;
	__aligned_u64 out_alignment;
	__aligned_u64 out_mmap_offset;
	__aligned_u64 out_mapping_size;
	__u32 out_state;
	__u32 out_mappings;
};

#define MEMOPT_BUF_INFO _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_BUF_INFO)

/**
 * struct memopt_buf_free - give up a buffer
 * @size: sizeof(struct memopt_buf_free)
 * @flags: must be 0
 * @buf_id: from BUF_ALLOC
 * @__reserved: must be 0
 *
 * The id is gone at once.  The memory returns when the last mapping, MR and
 * share of it is gone and nobody pins a page of it, and after it was zeroed.
 */
struct memopt_buf_free {
	__u32 size;
	__u32 flags;
	__u32 buf_id;
	__u32 __reserved;
};

#define MEMOPT_BUF_FREE _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_BUF_FREE)

/**
 * struct memopt_buf_export - export a range of a buffer as a dma-buf
 * @size: sizeof(struct memopt_buf_export)
 * @flags: must be 0
 * @buf_id: from BUF_ALLOC
 * @fd_flags: O_CLOEXEC, and O_RDONLY or O_RDWR, of the new descriptor
 * @offset: first byte, a multiple of the page size
 * @length: bytes, a multiple of the page size, more than 0
 * @out_fd: the descriptor
 * @__reserved: must be 0
 *
 * The dma-buf keeps the memory alive, not the buffer's id.  Importers that map
 * it get one physically contiguous piece.
 */
struct memopt_buf_export {
	__u32 size;
	__u32 flags;
	__u32 buf_id;
	__u32 fd_flags;
	__aligned_u64 offset;
	__aligned_u64 length;
	__s32 out_fd;
	__u32 __reserved;
};

#define MEMOPT_BUF_EXPORT _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_BUF_EXPORT)

/**
 * struct memopt_stats - what is charged to the file, its user and its namespace
 * @size: sizeof(struct memopt_stats)
 * @flags: must be 0
 * @out_file_bytes: bytes of buffers charged to this file, from BUF_ALLOC until
 *	the freed memory is clean again
 * @out_file_limit: the most that may be
 * @out_user_bytes: the same for all files opened by the user who opened this one
 * @out_user_limit: the most that may be
 * @out_userns_bytes: the same for the owner of that user's user namespace
 * @out_userns_limit: the most that may be; no limit in the initial namespace
 * @out_buffers: buffers of this file that have an id
 * @out_mrs: MRs of this file
 * @out_shares: shares of this file
 * @out_watches: watches of this file
 *
 * A limit of 2^64 - 1 is none.
 */
struct memopt_stats {
	__u32 size;
	__u32 flags;
	__aligned_u64 out_file_bytes;
	__aligned_u64 out_file_limit;
	__aligned_u64 out_user_bytes;
	__aligned_u64 out_user_limit;
	__aligned_u64 out_userns_bytes;
	__aligned_u64 out_userns_limit;
	__u32 out_buffers;
	__u32 out_mrs;
	__u32 out_shares;
	__u32 out_watches;
};

#define MEMOPT_STATS _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_STATS)

#define MEMOPT_IBDEV_NAME_MAX 64

/* Use several MRs if the range needs more than the device takes in one. */
#define MEMOPT_MR_F_SPLIT (1U << 0)

/**
 * struct memopt_mr_reg - register a range of a buffer by physical address
 * @size: sizeof(struct memopt_mr_reg)
 * @flags: MEMOPT_MR_F_*
 * @buf_id: from BUF_ALLOC
 * @access: MEMOPT_ACCESS_*; 0 allows local reads only
 * @offset: first byte, a multiple of the page size
 * @length: bytes, a multiple of the page size, more than 0
 * @ibdev: name of the RDMA device, zero-terminated
 * @out_mr_id: the id, never 0
 * @out_rkey: remote key, of the first part if there are several
 * @out_iova: address remote peers use for byte 0 of the range
 * @out_entries: translation entries posted to the device, of all parts
 * @out_page_size: bytes each of them covers
 * @out_part_length: bytes of every part but the last, which may be shorter.
 *	Byte n of the range is in part n / @out_part_length; MR_PART tells its key.
 *	@length if there is one part.
 * @out_parts: MRs that make up the range
 * @__reserved: must be 0
 *
 * The MR lives on a protection domain of this file's own: it is bounded to the
 * range, has exactly the rights asked for, and no queue pair of a peer is in
 * that domain.  To let peers in, create a share.
 *
 * EINVAL: a remote right that changes memory without LOCAL_WRITE.
 * EOPNOTSUPP: the device can not register by physical address, or the range
 * needs more entries than the device takes in one MR and MEMOPT_MR_F_SPLIT is
 * not set.
 */
struct memopt_mr_reg {
	__u32 size;
	__u32 flags;
	__u32 buf_id;
	__u32 access;
	__aligned_u64 offset;
	__aligned_u64 length;
	char ibdev[MEMOPT_IBDEV_NAME_MAX];
	__u32 out_mr_id;
	__u32 out_rkey;
	__aligned_u64 out_iova;
	__u32 out_entries;
	__u32 out_page_size;
	__aligned_u64 out_part_length;
	__u32 out_parts;
	__u32 __reserved;
};

#define MEMOPT_MR_REG _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_MR_REG)

/* The device was removed; the key is dead and only MR_DEREG is left to do. */
#define MEMOPT_MR_STATE_DEVICE_GONE (1U << 0)

/**
 * struct memopt_mr_info - describe an MR
 * @size: sizeof(struct memopt_mr_info)
 * @flags: must be 0
 * @mr_id: from MR_REG
 * @out_state: MEMOPT_MR_STATE_*
 * @out_access: rights
 * @out_rkey: remote key
 * @out_iova: address of byte 0 of the range
 * @out_length: bytes
 * @out_entries: translation entries posted to the device.  A driver may expand
 *	them further inside (soft RoCE keeps one per 4 KiB); that is not counted.
 * @out_page_size: bytes each of them covers
 * @out_ibdev: name of the device
 * @out_part_length: as in memopt_mr_reg
 * @out_parts: as in memopt_mr_reg
 * @__reserved: must be 0
 */
struct memopt_mr_info {
	__u32 size;
	__u32 flags;
	__u32 mr_id;
	__u32 out_state;
	__u32 out_access;
	__u32 out_rkey;
	__aligned_u64 out_iova;
	__aligned_u64 out_length;
	__u32 out_entries;
	__u32 out_page_size;
	char out_ibdev[MEMOPT_IBDEV_NAME_MAX];
	__aligned_u64 out_part_length;
	__u32 out_parts;
	__u32 __reserved;
};

#define MEMOPT_MR_INFO _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_MR_INFO)

/**
 * struct memopt_mr_part - describe one of the MRs that make up a range
 * @size: sizeof(struct memopt_mr_part)
 * @flags: must be 0
 * @mr_id: from MR_REG
 * @index: 0 to memopt_mr_reg.out_parts - 1, else EINVAL
 * @out_rkey: remote key
 * @out_entries: translation entries posted to the device
 * @out_iova: address of the part's byte 0: that of the range plus @out_offset
 * @out_offset: of the part's byte 0 in the range
 * @out_length: bytes
 */
struct memopt_mr_part {
	__u32 size;
	__u32 flags;
	__u32 mr_id;
	__u32 index;
	__u32 out_rkey;
	__u32 out_entries;
	__aligned_u64 out_iova;
	__aligned_u64 out_offset;
	__aligned_u64 out_length;
};

#define MEMOPT_MR_PART _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_MR_PART)

/**
 * struct memopt_mr_dereg - invalidate and remove an MR
 * @size: sizeof(struct memopt_mr_dereg)
 * @flags: must be 0
 * @mr_id: from MR_REG
 * @__reserved: must be 0
 */
struct memopt_mr_dereg {
	__u32 size;
	__u32 flags;
	__u32 mr_id;
	__u32 __reserved;
};

#define MEMOPT_MR_DEREG _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_MR_DEREG)

#include <linux/rdma_memopt_share.h>
#include <linux/rdma_memopt_watch.h>

#endif /* _UAPI_LINUX_RDMA_MEMOPT_H */
