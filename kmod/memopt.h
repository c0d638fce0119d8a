/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the module know of each other.  Lifetimes and the lock order
 * are one table in docs/design.md, sections 3.3 and 3.4.
 */
#ifndef _MEMOPT_H
#define _MEMOPT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/rdma_memopt.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

struct device;
struct file;
struct file_operations;
struct gen_pool;
struct memopt_file;
struct page;
struct vm_area_struct;

/* ---- region.c: contiguous memory and its reuse ---- */

struct memopt_extent;
struct memopt_region;

/**
 * struct memopt_range - a run of pages taken from a region
 * @region: where it goes back to
 * @extent: the part of the region it came from
 * @page: first page; the run is physically contiguous
 * @nr_pages: length
 * @alignment: bytes, of the physical address
 * @entry: on a reclaim list of the region; unused while the range is in use
 * @unpinned: pages before this one were seen without a pin after the release
 * @quarantined: a pinned page was seen at the last look
 */
struct memopt_range {
	struct memopt_region *region;
	struct memopt_extent *extent;
	struct page *page;
	unsigned long nr_pages;
	unsigned long alignment;
	struct list_head entry;
	unsigned long unpinned;
	bool quarantined;
};

/* Context of an allocation: an ioctl may wait for zeroing, mmap may not. */
enum memopt_wait { MEMOPT_NOWAIT, MEMOPT_MAY_WAIT };

int memopt_regions_init(struct device *dev);
void memopt_regions_exit(void);

/**
 * memopt_range_alloc - take zeroed, contiguous pages
 * @kind: enum memopt_kind
 * @node: NUMA node or MEMOPT_NODE_ANY
 * @length: bytes, a multiple of PAGE_SIZE
 * @alignment: bytes, a power of two from PAGE_SIZE to MEMOPT_MAX_ALIGNMENT
 * @wait: MEMOPT_MAY_WAIT to wait for freed memory to be zeroed if that helps
 *
 * Return: the range, or an ERR_PTR: -ENODEV without a region that fits kind and
 * node, -ENOMEM without a free run.
 */
struct memopt_range *memopt_range_alloc(u32 kind, int node, u64 length,
					u64 alignment, enum memopt_wait wait);

/* Give a range up.  Never fails, never sleeps; zeroing happens later. */
void memopt_range_release(struct memopt_range *range);

u32 memopt_range_kind(const struct memopt_range *range);
int memopt_range_node(const struct memopt_range *range);

u32 memopt_region_count(void);
u64 memopt_region_features(void);
/* Fill the out_* members from the region with that index; -ENOENT beyond. */
int memopt_region_query(struct memopt_region_info *info);

/* ---- sysfs.c ---- */

/* The fill state of the regions in a directory below the device's. */
int memopt_sysfs_init(struct device *dev);
void memopt_sysfs_exit(void);

/* ---- file.c: open files and the objects in them ---- */

extern const struct file_operations memopt_fops;

/* Module parameter max_objects, defined in file.c. */
extern unsigned int memopt_max_objects;

enum memopt_object_type {
	MEMOPT_OBJECT_BUFFER,
	MEMOPT_OBJECT_MR,
	MEMOPT_OBJECT_SHARE,
};

struct memopt_object;

/**
 * struct memopt_object_ops - what differs between the types of objects
 * @destroy: the id is gone: end what the object does.  May sleep; no lock of the
 *	table is held.  Called once, before the table's reference is dropped.
 *	NULL if there is nothing to end.
 * @release: last reference is gone: free it.  Must not sleep for a buffer.
 */
struct memopt_object_ops {
	enum memopt_object_type type;
	void (*destroy)(struct memopt_object *obj);
	void (*release)(struct memopt_object *obj);
};

/**
 * struct memopt_object - head of everything that has an id
 * @ops: type and callbacks
 * @ref: one reference belongs to the table from reserve to destroy
 * @id: key in the file's table
 */
struct memopt_object {
	const struct memopt_object_ops *ops;
	struct kref ref;
	u32 id;
};

struct memopt_file {
	struct xarray objects;
	atomic_t nr_objects;
	struct mutex service_lock; /* creation of services for MR_REG */
	struct list_head services; /* one per device, made on first MR_REG */
	struct memopt_buffer *implicit; /* set once, see mmap.c */
	spinlock_t implicit_lock;
	bool has_buffer; /* BUF_ALLOC ran: no implicit buffer any more */
};

/**
 * memopt_object_reserve - give a new object an id nobody can look up yet
 *
 * Initialises @obj with one reference.  Undo with memopt_object_abort(), which
 * withdraws the id and leaves that reference to the caller.
 * Return: 0, -ENOSPC at the limit of objects, or -ENOMEM.
 */
int memopt_object_reserve(struct memopt_file *mf, struct memopt_object *obj,
			  const struct memopt_object_ops *ops);
void memopt_object_publish(struct memopt_file *mf, struct memopt_object *obj);
void memopt_object_abort(struct memopt_file *mf, struct memopt_object *obj);

/* Look up with a reference; ERR_PTR(-ENOENT) for no such id or another type. */
struct memopt_object *memopt_object_get(struct memopt_file *mf, u32 id,
					enum memopt_object_type type);
void memopt_object_put(struct memopt_object *obj);

/* Remove the id, call ops->destroy, drop the table's reference. */
int memopt_object_remove(struct memopt_file *mf, u32 id,
			 enum memopt_object_type type);

/**
 * struct memopt_call - one ioctl
 * @file: the file it came through
 * @arg: kernel copy of the struct; out_* members go back to the caller
 * @new_object: set by a handler that reserved an object and succeeds; the
 *	dispatcher publishes it after the copy-out, or aborts it, calls
 *	ops->destroy and drops its reference.  A handler that fails after the
 *	reserve aborts and drops the object itself.
 */
struct memopt_call {
	struct memopt_file *file;
	void *arg;
	struct memopt_object *new_object;
};

/* Handlers return 0 or -errno and have no effect when they fail. */
int memopt_ioctl_query(struct memopt_call *call);
int memopt_ioctl_region_info(struct memopt_call *call);
int memopt_ioctl_buf_alloc(struct memopt_call *call);
int memopt_ioctl_buf_info(struct memopt_call *call);
int memopt_ioctl_buf_free(struct memopt_call *call);
int memopt_ioctl_mr_reg(struct memopt_call *call);
int memopt_ioctl_mr_info(struct memopt_call *call);
int memopt_ioctl_mr_dereg(struct memopt_call *call);
int memopt_ioctl_share_create(struct memopt_call *call);
int memopt_ioctl_share_info(struct memopt_call *call);
int memopt_ioctl_share_destroy(struct memopt_call *call);

/* ---- buffer.c ---- */

struct memopt_buffer {
	struct memopt_object obj;
	struct memopt_file *owner; /* for comparison only, never followed */
	struct memopt_range *range;
	unsigned long pgoff; /* of mmap; 0 for an implicit buffer */
	atomic_t nr_mappings;
	atomic_long_t mapping_size;
	bool implicit;
	bool unlisted; /* BUF_FREE ran: its offset maps nothing any more */
	struct rb_node node; /* in the tree of mmap offsets unless implicit */
};

struct memopt_buffer *memopt_buffer_get(struct memopt_file *mf, u32 id);
void memopt_buffer_put(struct memopt_buffer *buf);

/* A buffer without id and offset; the caller owns its one reference. */
struct memopt_buffer *memopt_buffer_create(struct memopt_file *mf, u32 kind,
					   int node, u64 length, u64 alignment,
					   enum memopt_wait wait);

/* The file's buffer whose offsets contain pgoff, with a reference, or NULL. */
struct memopt_buffer *memopt_buffer_by_pgoff(struct memopt_file *mf,
					     unsigned long pgoff);
/* The file's implicit buffer with a reference, or NULL. */
struct memopt_buffer *memopt_buffer_implicit(struct memopt_file *mf);

/* Offsets of pages below this are parts of an implicit buffer. */
#define MEMOPT_PGOFF_MIN (1UL << (40 - PAGE_SHIFT))

/* Check that offset and length are page-aligned and inside the buffer. */
int memopt_buffer_check_range(const struct memopt_buffer *buf, u64 offset,
			      u64 length);

static inline u64 memopt_buffer_size(const struct memopt_buffer *buf)
{
	return (u64)buf->range->nr_pages << PAGE_SHIFT;
}

static inline bool memopt_buffer_pinnable(const struct memopt_buffer *buf)
{
	return memopt_range_kind(buf->range) == MEMOPT_KIND_CONTIG;
}

/* ---- mmap.c ---- */

int memopt_mmap(struct file *filp, struct vm_area_struct *vma);
unsigned long memopt_get_unmapped_area(struct file *filp, unsigned long addr,
				       unsigned long len, unsigned long pgoff,
				       unsigned long flags);

/* ---- RDMA side: ibdev.c, service.c, mr.c, share.c ---- */

int memopt_rdma_init(void);
void memopt_rdma_exit(void);
/* Destroy the services a file made for MR_REG; its MRs are gone already. */
void memopt_file_services_destroy(struct memopt_file *mf);

#endif /* _MEMOPT_H */
