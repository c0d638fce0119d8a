// SPDX-License-Identifier: GPL-2.0
/*
 * Open files: the table of objects in a file, and the dispatch of ioctls.
 *
 * An object is found only between publish and remove.  The entry of a reserved
 * id is NULL for everybody who looks it up, so an object that is still being
 * built can neither be used nor freed by somebody who guesses its id.
 */
#include <linux/build_bug.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "memopt.h"

static int memopt_max_objects_set(const char *val,
				  const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 65536);
}

static const struct kernel_param_ops memopt_max_objects_ops = {
	.set = memopt_max_objects_set,
	.get = param_get_uint,
};

unsigned int memopt_max_objects = 1024;
module_param_cb(max_objects, &memopt_max_objects_ops, &memopt_max_objects,
		0444);
MODULE_PARM_DESC(max_objects,
		 "buffers, MRs and shares one open file may hold together (default 1024)");

/* ---- objects ---- */

int memopt_object_reserve(struct memopt_file *mf, struct memopt_object *obj,
			  const struct memopt_object_ops *ops)
{
	int rc;

	if (!atomic_add_unless(&mf->nr_objects, 1, memopt_max_objects))
		return -ENOSPC;

	rc = xa_alloc(&mf->objects, &obj->id, NULL, xa_limit_31b,
		      GFP_KERNEL_ACCOUNT);
	if (rc) {
		atomic_dec(&mf->nr_objects);
		return rc == -EBUSY ? -ENOSPC : rc;
	}

	obj->ops = ops;
	kref_init(&obj->ref);
	return 0;
}

void memopt_object_publish(struct memopt_file *mf, struct memopt_object *obj)
{
	void *old;

	/* From here on an implicit buffer would only confuse its user. */
	if (obj->ops->type == MEMOPT_OBJECT_BUFFER) {
		spin_lock(&mf->implicit_lock);
		mf->has_buffer = true;
		spin_unlock(&mf->implicit_lock);
	}

	/* The slot exists since xa_alloc(), so this can not fail. */
	old = xa_store(&mf->objects, obj->id, obj, GFP_KERNEL);
	WARN_ON(old);
}

void memopt_object_abort(struct memopt_file *mf, struct memopt_object *obj)
{
	WARN_ON(xa_erase(&mf->objects, obj->id));
	atomic_dec(&mf->nr_objects);
}

struct memopt_object *memopt_object_get(struct memopt_file *mf, u32 id,
					enum memopt_object_type type)
{
	struct memopt_object *obj;

	/* Under the lock the table's reference can not go away. */
	xa_lock(&mf->objects);
	obj = xa_load(&mf->objects, id);
	if (obj && obj->ops->type == type)
		kref_get(&obj->ref);
	else
		obj = ERR_PTR(-ENOENT);
	xa_unlock(&mf->objects);
	return obj;
}

static void memopt_object_release(struct kref *ref)
{
	struct memopt_object *obj = container_of(ref, struct memopt_object, ref);

	obj->ops->release(obj);
}

void memopt_object_put(struct memopt_object *obj)
{
	kref_put(&obj->ref, memopt_object_release);
}

/* End an object that nobody can look up, and drop the table's reference. */
static void memopt_object_destroy(struct memopt_object *obj)
{
	if (obj->ops->destroy)
		obj->ops->destroy(obj);
	memopt_object_put(obj);
}

int memopt_object_remove(struct memopt_file *mf, u32 id,
			 enum memopt_object_type type)
{
	struct memopt_object *obj;

	/* Whoever erases the entry destroys the object: exactly one does. */
	xa_lock(&mf->objects);
	obj = xa_load(&mf->objects, id);
	if (obj && obj->ops->type == type)
		__xa_erase(&mf->objects, id);
	else
		obj = NULL;
	xa_unlock(&mf->objects);
	if (!obj)
		return -ENOENT;

	memopt_object_destroy(obj);
	atomic_dec(&mf->nr_objects);
	return 0;
}

static void memopt_object_remove_all(struct memopt_file *mf,
				     enum memopt_object_type type)
{
	struct memopt_object *obj;
	unsigned long id;

	xa_for_each(&mf->objects, id, obj)
		if (obj->ops->type == type)
			memopt_object_remove(mf, id, type);
}

/* ---- open and release ---- */

static int memopt_open(struct inode *inode, struct file *filp)
{
	struct memopt_file *mf;

	mf = kzalloc(sizeof(*mf), GFP_KERNEL_ACCOUNT);
	if (!mf)
		return -ENOMEM;

	xa_init_flags(&mf->objects, XA_FLAGS_ALLOC1);
	atomic_set(&mf->nr_objects, 0);
	mutex_init(&mf->service_lock);
	INIT_LIST_HEAD(&mf->services);
	spin_lock_init(&mf->implicit_lock);

	filp->private_data = mf;
	return nonseekable_open(inode, filp);
}

/* Last reference to the file: no ioctl, no mapping is left. */
static int memopt_release(struct inode *inode, struct file *filp)
{
	struct memopt_file *mf = filp->private_data;

	/* Peers first, then what they were let into, then the memory. */
	memopt_object_remove_all(mf, MEMOPT_OBJECT_SHARE);
	memopt_object_remove_all(mf, MEMOPT_OBJECT_MR);
	memopt_file_services_destroy(mf);
	memopt_object_remove_all(mf, MEMOPT_OBJECT_BUFFER);
	if (mf->implicit)
		memopt_buffer_put(mf->implicit);

	WARN_ON(!xa_empty(&mf->objects));
	WARN_ON(!list_empty(&mf->services));
	xa_destroy(&mf->objects);
	mutex_destroy(&mf->service_lock);
	kfree(mf);
	return 0;
}

/* ---- ioctl ---- */

/* What every command has in common; checked where the table is built. */
struct memopt_head {
	u32 size;
	u32 flags;
};

union memopt_arg {
	struct memopt_head head;
	struct memopt_query query;
	struct memopt_region_info region_info;
	struct memopt_buf_alloc buf_alloc;
	struct memopt_buf_info buf_info;
	struct memopt_buf_free buf_free;
	struct memopt_mr_reg mr_reg;
	struct memopt_mr_info mr_info;
	struct memopt_mr_dereg mr_dereg;
	struct memopt_share_create share_create;
	struct memopt_share_info share_info;
	struct memopt_share_destroy share_destroy;
};

/**
 * struct memopt_member - where a member lies in its struct
 * @offset: first byte
 * @size: bytes; 0 for no member
 */
struct memopt_member {
	u8 offset;
	u8 size;
};

/**
 * struct memopt_command_info - how to call one command
 * @handler: what runs it; NULL for a number that is not in use
 * @size: of the struct this module knows
 * @min_size: of the first version of the struct
 * @out_offset: the first out_* member; all later ones are out_* or reserved.
 *	Equal to @size if the command returns nothing.
 * @flags: the flags it knows
 * @reserved: members that must be zero
 */
struct memopt_command_info {
	int (*handler)(struct memopt_call *call);
	u16 size;
	u16 min_size;
	u16 out_offset;
	u32 flags;
	struct memopt_member reserved[2];
};

#define MEMOPT_COMMAND(nr, name, last, first_out, ...)			\
	[MEMOPT_CMD_##nr] = {						\
		.handler = memopt_ioctl_##name,				\
		.size = sizeof(struct memopt_##name) +			\
			MEMOPT_CHECK_HEAD(struct memopt_##name),	\
		.min_size = offsetofend(struct memopt_##name, last),	\
		.out_offset = first_out,				\
		__VA_ARGS__						\
	}

#define MEMOPT_CHECK_HEAD(type)						\
	BUILD_BUG_ON_ZERO(offsetof(type, size) !=			\
				  offsetof(struct memopt_head, size) ||	\
			  offsetof(type, flags) !=			\
				  offsetof(struct memopt_head, flags))

#define MEMOPT_OUT(name, member) offsetof(struct memopt_##name, member)
#define MEMOPT_NO_OUT(name) sizeof(struct memopt_##name)
#define MEMOPT_RESERVED(name, member)					\
	{								\
		offsetof(struct memopt_##name, member),			\
		sizeof_field(struct memopt_##name, member)		\
	}

static const struct memopt_command_info memopt_commands[] = {
	MEMOPT_COMMAND(QUERY, query, out_max_connections,
		       MEMOPT_OUT(query, out_features),
		       .reserved = { MEMOPT_RESERVED(query, __reserved) }),
	MEMOPT_COMMAND(REGION_INFO, region_info, out_largest_free,
		       MEMOPT_OUT(region_info, out_kind),
		       .reserved = {
			       MEMOPT_RESERVED(region_info, __reserved),
			       MEMOPT_RESERVED(region_info, __reserved2),
		       }),
	MEMOPT_COMMAND(BUF_ALLOC, buf_alloc, out_mmap_offset,
		       MEMOPT_OUT(buf_alloc, out_buf_id)),
	MEMOPT_COMMAND(BUF_INFO, buf_info, out_mappings,
		       MEMOPT_OUT(buf_info, out_kind)),
	MEMOPT_COMMAND(BUF_FREE, buf_free, __reserved, MEMOPT_NO_OUT(buf_free),
		       .reserved = { MEMOPT_RESERVED(buf_free, __reserved) }),
	MEMOPT_COMMAND(MR_REG, mr_reg, out_page_size,
		       MEMOPT_OUT(mr_reg, out_mr_id),
		       .reserved = { MEMOPT_RESERVED(mr_reg, __reserved) }),
	MEMOPT_COMMAND(MR_INFO, mr_info, out_ibdev,
		       MEMOPT_OUT(mr_info, out_state),
		       .reserved = { MEMOPT_RESERVED(mr_info, __reserved) }),
	MEMOPT_COMMAND(MR_DEREG, mr_dereg, __reserved, MEMOPT_NO_OUT(mr_dereg),
		       .reserved = { MEMOPT_RESERVED(mr_dereg, __reserved) }),
	MEMOPT_COMMAND(SHARE_CREATE, share_create, out_iova,
		       MEMOPT_OUT(share_create, out_share_id),
		       .flags = MEMOPT_SHARE_F_SINGLE_USE,
		       .reserved = {
			       MEMOPT_RESERVED(share_create, __reserved),
			       MEMOPT_RESERVED(share_create, __reserved2),
		       }),
	MEMOPT_COMMAND(SHARE_INFO, share_info, out_ibdev,
		       MEMOPT_OUT(share_info, out_state)),
	MEMOPT_COMMAND(SHARE_DESTROY, share_destroy, __reserved,
		       MEMOPT_NO_OUT(share_destroy),
		       .reserved = { MEMOPT_RESERVED(share_destroy, __reserved) }),
};

static const struct memopt_command_info *memopt_find_command(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	/* No size and no direction in the number: they must be zero. */
	if (cmd != _IO(MEMOPT_IOC_MAGIC, nr) ||
	    nr >= ARRAY_SIZE(memopt_commands) || !memopt_commands[nr].handler)
		return NULL;
	return &memopt_commands[nr];
}

/* Read the caller's struct: everything the module knows or must be zero. */
static int memopt_copy_in(const struct memopt_command_info *info,
			  union memopt_arg *arg, const void __user *uarg)
{
	unsigned int i;
	u32 size;
	int rc;

	if (get_user(size, (const u32 __user *)uarg))
		return -EFAULT;
	if (size < info->min_size)
		return -EINVAL;
	/* No version will be that large; it also bounds the search for zeros. */
	if (size > PAGE_SIZE)
		return -E2BIG;

	rc = copy_struct_from_user(arg, info->size, uarg, size);
	if (rc)
		return rc;
	/* Another thread may have changed it between the two reads. */
	arg->head.size = size;

	if (arg->head.flags & ~info->flags)
		return -EOPNOTSUPP;
	for (i = 0; i < ARRAY_SIZE(info->reserved); i++)
		if (memchr_inv((u8 *)arg + info->reserved[i].offset, 0,
			       info->reserved[i].size))
			return -EOPNOTSUPP;

	memset((u8 *)arg + info->out_offset, 0, info->size - info->out_offset);
	return 0;
}

/* Only what the command returns, and only as much as the caller knows of it. */
static int memopt_copy_out(const struct memopt_command_info *info,
			   const union memopt_arg *arg, void __user *uarg)
{
	size_t size = min_t(size_t, arg->head.size, info->size);

	if (size <= info->out_offset)
		return 0;
	if (copy_to_user((u8 __user *)uarg + info->out_offset,
			 (const u8 *)arg + info->out_offset,
			 size - info->out_offset))
		return -EFAULT;
	return 0;
}

static long memopt_ioctl(struct file *filp, unsigned int cmd,
			 unsigned long user)
{
	const struct memopt_command_info *info = memopt_find_command(cmd);
	struct memopt_call call = { .file = filp->private_data };
	void __user *uarg = (void __user *)user;
	union memopt_arg arg;
	int rc;

	if (!info)
		return -ENOTTY;

	rc = memopt_copy_in(info, &arg, uarg);
	if (rc)
		return rc;

	call.arg = &arg;
	rc = info->handler(&call);
	if (rc)
		return rc;

	rc = memopt_copy_out(info, &arg, uarg);
	if (!call.new_object)
		return rc;
	if (rc) {
		memopt_object_abort(call.file, call.new_object);
		memopt_object_destroy(call.new_object);
		return rc;
	}
	memopt_object_publish(call.file, call.new_object);
	return 0;
}

const struct file_operations memopt_fops = {
	.owner = THIS_MODULE,
	.open = memopt_open,
	.release = memopt_release,
	.unlocked_ioctl = memopt_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = memopt_mmap,
	.get_unmapped_area = memopt_get_unmapped_area,
	.llseek = noop_llseek,
};
