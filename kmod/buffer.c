// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers: a range of contiguous memory with an id and an mmap offset.
 *
 * Offsets are unique in the module, not in the file: all files share the inode
 * of the device node, so an offset that two of them used would make them share
 * whatever the kernel does by inode and offset.  An offset therefore stays taken
 * as long as a mapping of the buffer may exist, which is until the buffer's last
 * reference is gone, while nobody can look it up any more once the id is gone.
 */
#include <linux/log2.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "memopt.h"

/* First page offset beyond what 32-bit programs can pass to mmap2(). */
#define MEMOPT_PGOFF_END (1UL << (44 - PAGE_SHIFT))

/* Buffers that have an offset, sorted by it; they never overlap. */
static struct rb_root memopt_offsets = RB_ROOT;
/* Where to look for the next offset: reuse comes as late as possible. */
static unsigned long memopt_offset_cursor = MEMOPT_PGOFF_MIN;
static DEFINE_SPINLOCK(memopt_offsets_lock);

static struct memopt_buffer *to_buffer(struct memopt_object *obj)
{
	return container_of(obj, struct memopt_buffer, obj);
}

static struct memopt_buffer *node_to_buffer(struct rb_node *node)
{
	return rb_entry_safe(node, struct memopt_buffer, node);
}

static unsigned long memopt_offset_end(const struct memopt_buffer *buf)
{
	return buf->pgoff + buf->range->nr_pages;
}

/* The first buffer that ends behind pgoff. */
static struct memopt_buffer *memopt_offset_find(unsigned long pgoff)
{
	struct rb_node *node = memopt_offsets.rb_node;
	struct memopt_buffer *found = NULL;

	lockdep_assert_held(&memopt_offsets_lock);
	while (node) {
		struct memopt_buffer *buf = node_to_buffer(node);

		if (memopt_offset_end(buf) > pgoff) {
			found = buf;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

static void memopt_offset_insert(struct memopt_buffer *new)
{
	struct rb_node **link = &memopt_offsets.rb_node;
	struct rb_node *parent = NULL;

	while (*link) {
		parent = *link;
		if (new->pgoff < node_to_buffer(parent)->pgoff)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&new->node, parent, link);
	rb_insert_color(&new->node, &memopt_offsets);
}

/* Find nr_pages free offsets between start and end; 0 if there are none. */
static unsigned long memopt_offset_gap(unsigned long start, unsigned long end,
				       unsigned long nr_pages)
{
	struct memopt_buffer *next = memopt_offset_find(start);

	/* Offsets are far below the limits of the type: no sum can wrap. */
	while (next && next->pgoff < start + nr_pages) {
		start = memopt_offset_end(next);
		next = node_to_buffer(rb_next(&next->node));
	}
	return start + nr_pages <= end ? start : 0;
}

static int memopt_offset_assign(struct memopt_buffer *buf)
{
	unsigned long nr_pages = buf->range->nr_pages;
	unsigned long pgoff;

	if (nr_pages > MEMOPT_PGOFF_END - MEMOPT_PGOFF_MIN)
		return -ENOMEM;

	spin_lock(&memopt_offsets_lock);
	pgoff = memopt_offset_gap(memopt_offset_cursor, MEMOPT_PGOFF_END,
				  nr_pages);
	if (!pgoff)
		pgoff = memopt_offset_gap(MEMOPT_PGOFF_MIN, MEMOPT_PGOFF_END,
					  nr_pages);
	if (pgoff) {
		buf->pgoff = pgoff;
		memopt_offset_insert(buf);
		memopt_offset_cursor = pgoff + nr_pages;
	}
	spin_unlock(&memopt_offsets_lock);
	return pgoff ? 0 : -ENOMEM;
}

struct memopt_buffer *memopt_buffer_by_pgoff(struct memopt_file *mf,
					     unsigned long pgoff)
{
	struct memopt_buffer *buf;

	spin_lock(&memopt_offsets_lock);
	buf = memopt_offset_find(pgoff);
	/* While it is listed the object table has a reference. */
	if (buf && buf->pgoff <= pgoff && buf->owner == mf && !buf->unlisted)
		kref_get(&buf->obj.ref);
	else
		buf = NULL;
	spin_unlock(&memopt_offsets_lock);
	return buf;
}

/* ---- the object ---- */

/* The id is gone, and the offset maps nothing new from here on. */
static void memopt_buffer_destroy(struct memopt_object *obj)
{
	spin_lock(&memopt_offsets_lock);
	to_buffer(obj)->unlisted = true;
	spin_unlock(&memopt_offsets_lock);
}

static void memopt_buffer_release(struct memopt_object *obj)
{
	struct memopt_buffer *buf = to_buffer(obj);

	WARN_ON(atomic_read(&buf->nr_mappings));
	if (!RB_EMPTY_NODE(&buf->node)) {
		spin_lock(&memopt_offsets_lock);
		rb_erase(&buf->node, &memopt_offsets);
		spin_unlock(&memopt_offsets_lock);
	}
	memopt_range_release(buf->range);
	kfree(buf);
}

static const struct memopt_object_ops memopt_buffer_ops = {
	.type = MEMOPT_OBJECT_BUFFER,
	.destroy = memopt_buffer_destroy,
	.release = memopt_buffer_release,
};

struct memopt_buffer *memopt_buffer_get(struct memopt_file *mf, u32 id)
{
	struct memopt_object *obj;

	obj = memopt_object_get(mf, id, MEMOPT_OBJECT_BUFFER);
	return IS_ERR(obj) ? ERR_CAST(obj) : to_buffer(obj);
}

void memopt_buffer_put(struct memopt_buffer *buf)
{
	memopt_object_put(&buf->obj);
}

struct memopt_buffer *memopt_buffer_implicit(struct memopt_file *mf)
{
	struct memopt_buffer *buf;

	/* Once set it stays until the file is gone, and the caller has that. */
	spin_lock(&mf->implicit_lock);
	buf = mf->implicit;
	if (buf)
		kref_get(&buf->obj.ref);
	spin_unlock(&mf->implicit_lock);
	return buf;
}

struct memopt_buffer *memopt_buffer_create(struct memopt_file *mf, u32 kind,
					   int node, u64 length, u64 alignment,
					   enum memopt_wait wait)
{
	struct memopt_buffer *buf;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL_ACCOUNT);
	if (!buf)
		return ERR_PTR(-ENOMEM);

	buf->range = memopt_range_alloc(kind, node, length, alignment, wait);
	if (IS_ERR(buf->range)) {
		int rc = PTR_ERR(buf->range);

		kfree(buf);
		return ERR_PTR(rc);
	}

	buf->obj.ops = &memopt_buffer_ops;
	kref_init(&buf->obj.ref);
	buf->owner = mf;
	RB_CLEAR_NODE(&buf->node);
	return buf;
}

int memopt_buffer_check_range(const struct memopt_buffer *buf, u64 offset,
			      u64 length)
{
	u64 end;

	if (check_add_overflow(offset, length, &end))
		return -EOVERFLOW;
	if (!length || !PAGE_ALIGNED(offset) || !PAGE_ALIGNED(length) ||
	    end > memopt_buffer_size(buf))
		return -EINVAL;
	return 0;
}

/* ---- ioctls ---- */

/* What an alignment of 0 stands for. */
static u64 memopt_default_alignment(u64 length)
{
	if (length >= SZ_2M)
		return max_t(u64, SZ_2M, PAGE_SIZE);
	return max_t(u64, rounddown_pow_of_two((unsigned long)length),
		     PAGE_SIZE);
}

static int memopt_check_alloc(struct memopt_buf_alloc *arg)
{
	if (arg->kind > MEMOPT_KIND_PINNABLE)
		return -EOPNOTSUPP;
	if (arg->node < MEMOPT_NODE_ANY || !arg->length)
		return -EINVAL;
	if (check_add_overflow(arg->length, (u64)PAGE_SIZE - 1,
			       &arg->out_length))
		return -EOVERFLOW;
	arg->out_length &= PAGE_MASK;

	if (!arg->alignment) {
		arg->out_alignment = memopt_default_alignment(arg->length);
		return 0;
	}
	if (!is_power_of_2(arg->alignment) || arg->alignment < PAGE_SIZE ||
	    arg->alignment > MEMOPT_MAX_ALIGNMENT)
		return -EINVAL;
	arg->out_alignment = arg->alignment;
	return 0;
}

int memopt_ioctl_buf_alloc(struct memopt_call *call)
{
	struct memopt_buf_alloc *arg = call->arg;
	struct memopt_buffer *buf;
	int rc;

	rc = memopt_check_alloc(arg);
	if (rc)
		return rc;

	buf = memopt_buffer_create(call->file, arg->kind, arg->node,
				   arg->out_length, arg->out_alignment,
				   MEMOPT_MAY_WAIT);
	if (IS_ERR(buf))
		return PTR_ERR(buf);

	/* Nobody may map it before it has its id and reference. */
	rc = memopt_object_reserve(call->file, &buf->obj, &memopt_buffer_ops);
	if (rc)
		goto err_put;
	rc = memopt_offset_assign(buf);
	if (rc)
		goto err_abort;

	arg->out_buf_id = buf->obj.id;
	arg->out_kind = memopt_range_kind(buf->range);
	arg->out_node = memopt_range_node(buf->range);
	arg->out_segments = 1;
	arg->out_mmap_offset = (u64)buf->pgoff << PAGE_SHIFT;
	call->new_object = &buf->obj;
	return 0;

err_abort:
	memopt_object_abort(call->file, &buf->obj);
err_put:
	memopt_buffer_put(buf);
	return rc;
}

int memopt_ioctl_buf_info(struct memopt_call *call)
{
	struct memopt_buf_info *arg = call->arg;
	struct memopt_buffer *buf;

	if (arg->buf_id)
		buf = memopt_buffer_get(call->file, arg->buf_id);
	else
		buf = memopt_buffer_implicit(call->file) ?: ERR_PTR(-ENOENT);
	if (IS_ERR(buf))
		return PTR_ERR(buf);

	arg->out_kind = memopt_range_kind(buf->range);
	arg->out_node = memopt_range_node(buf->range);
	arg->out_segments = 1;
	arg->out_length = memopt_buffer_size(buf);
	arg->out_alignment = buf->range->alignment;
	arg->out_mmap_offset = (u64)buf->pgoff << PAGE_SHIFT;
	arg->out_mapping_size = atomic_long_read(&buf->mapping_size);
	if (memopt_buffer_pinnable(buf))
		arg->out_state |= MEMOPT_BUF_STATE_PINNABLE;
	if (buf->implicit)
		arg->out_state |= MEMOPT_BUF_STATE_IMPLICIT;
	arg->out_mappings = atomic_read(&buf->nr_mappings);

	memopt_buffer_put(buf);
	return 0;
}

int memopt_ioctl_buf_free(struct memopt_call *call)
{
	struct memopt_buf_free *arg = call->arg;

	return memopt_object_remove(call->file, arg->buf_id,
				    MEMOPT_OBJECT_BUFFER);
}
