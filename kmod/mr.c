// SPDX-License-Identifier: GPL-2.0
/*
 * MR_REG, MR_INFO and MR_DEREG: PA-MRs as objects of a file.
 *
 * They lie in a protection domain of the file's own, in which no queue pair of a
 * peer exists.  When the device goes, the object stays and says so.
 */
#include <linux/string.h>

#include "compat/slab.h"
#include "rdma.h"

struct memopt_mr {
	struct memopt_object obj;
	struct memopt_pa_mr *pa_mr;
};

static struct memopt_mr *to_memopt_mr(struct memopt_object *obj)
{
	return container_of(obj, struct memopt_mr, obj);
}

static void memopt_mr_destroy(struct memopt_object *obj)
{
	struct memopt_mr *mr = to_memopt_mr(obj);
	struct memopt_service *service = mr->pa_mr->service;

	/* MR_INFO may still look at the members that never change. */
	mutex_lock(&service->lock);
	memopt_pa_mr_invalidate(mr->pa_mr);
	memopt_pa_mr_dereg(mr->pa_mr);
	mutex_unlock(&service->lock);
}

static void memopt_mr_release(struct memopt_object *obj)
{
	struct memopt_mr *mr = to_memopt_mr(obj);

	if (mr->pa_mr)
		memopt_pa_mr_free(mr->pa_mr);
	kfree(mr);
}

static const struct memopt_object_ops memopt_mr_ops = {
	.type = MEMOPT_OBJECT_MR,
	.destroy = memopt_mr_destroy,
	.release = memopt_mr_release,
};

static struct memopt_pa_mr *memopt_mr_build(struct memopt_file *mf,
					    const struct memopt_mr_reg *arg,
					    struct memopt_buffer *buf)
{
	struct memopt_service *service;
	struct memopt_pa_mr *pa_mr;

	service = memopt_file_service_get(mf, arg->ibdev);
	if (IS_ERR(service))
		return ERR_CAST(service);

	pa_mr = memopt_pa_mr_create(service, buf, arg->offset, arg->length,
				    arg->access);
	memopt_service_put(service);
	return pa_mr;
}

int memopt_ioctl_mr_reg(struct memopt_call *call)
{
	struct memopt_mr_reg *arg = call->arg;
	struct memopt_pa_mr *pa_mr;
	struct memopt_buffer *buf;
	struct memopt_mr *mr;
	int rc;

	rc = memopt_access_check(arg->access);
	if (rc)
		return rc;
	if (strnlen(arg->ibdev, sizeof(arg->ibdev)) == sizeof(arg->ibdev))
		return -EINVAL;

	buf = memopt_buffer_get(call->file, arg->buf_id);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	rc = memopt_buffer_check_range(buf, arg->offset, arg->length);
	if (rc)
		goto err_put_buffer;

	rc = -ENOMEM;
	mr = kzalloc_obj(*mr, GFP_KERNEL_ACCOUNT);
	if (!mr)
		goto err_put_buffer;
	rc = memopt_object_reserve(call->file, &mr->obj, &memopt_mr_ops);
	if (rc)
		goto err_free;

	pa_mr = memopt_mr_build(call->file, arg, buf);
	if (IS_ERR(pa_mr)) {
		rc = PTR_ERR(pa_mr);
		goto err_abort;
	}
	mr->pa_mr = pa_mr;
	memopt_buffer_put(buf);

	arg->out_mr_id = mr->obj.id;
	arg->out_rkey = pa_mr->rkey;
	arg->out_iova = pa_mr->iova;
	arg->out_entries = pa_mr->entries;
	arg->out_page_size = pa_mr->page_size;
	arg->out_part_length = pa_mr->length;
	arg->out_parts = 1;
	call->new_object = &mr->obj;
	return 0;

err_abort:
	memopt_object_abort(call->file, &mr->obj);
err_free:
	kfree(mr);
err_put_buffer:
	memopt_buffer_put(buf);
	return rc;
}

int memopt_ioctl_mr_info(struct memopt_call *call)
{
	struct memopt_mr_info *arg = call->arg;
	struct memopt_object *obj;
	struct memopt_pa_mr *pa_mr;

	obj = memopt_object_get(call->file, arg->mr_id, MEMOPT_OBJECT_MR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	pa_mr = to_memopt_mr(obj)->pa_mr;

	if (memopt_service_dead(pa_mr->service))
		arg->out_state |= MEMOPT_MR_STATE_DEVICE_GONE;
	arg->out_access = pa_mr->access;
	arg->out_rkey = pa_mr->rkey;
	arg->out_iova = pa_mr->iova;
	arg->out_length = pa_mr->length;
	arg->out_entries = pa_mr->entries;
	arg->out_page_size = pa_mr->page_size;
	arg->out_part_length = pa_mr->length;
	arg->out_parts = 1;
	memopt_ibdev_name(pa_mr->service->dev, arg->out_ibdev);

	memopt_object_put(obj);
	return 0;
}

int memopt_ioctl_mr_dereg(struct memopt_call *call)
{
	struct memopt_mr_dereg *arg = call->arg;

	return memopt_object_remove(call->file, arg->mr_id, MEMOPT_OBJECT_MR);
}
