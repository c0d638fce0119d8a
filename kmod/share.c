// SPDX-License-Identifier: GPL-2.0
/*
 * Shares: a range of a buffer that remote peers reach with a token.
 *
 * A share has a protection domain of its own, so a key of one share is worth
 * nothing on a connection of another.  It listens on one address of one device,
 * in the network namespace of its creator; what happens when a peer knocks is in
 * share_conn.c.
 *
 * Ending a share has two callers that may run at the same time, the owner and the
 * removal of the device.  Every step can be run by either or both, and each caller
 * returns only when all of it is done.
 */
#include <linux/capability.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inet.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/string.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>

#include "compat/slab.h"
#include "params.h"
#include "rdma.h"

/* Only a hint to rdma_cm; what bounds us is max_conns. */
#define MEMOPT_BACKLOG 16

static atomic_t memopt_nr_shares;

static struct memopt_share *to_memopt_share(struct memopt_object *obj)
{
	return container_of(obj, struct memopt_share, obj);
}

/* ---- the end ---- */

/*
 * The first steps of the order in docs/design.md, 3.3; killing the service is the
 * rest.  @service is NULL if the share has not come that far.  No lock is held
 * while the listener is destroyed: that waits for its handler, which locks.
 */
static void memopt_share_stop(struct memopt_share *share,
			      struct memopt_service *service)
{
	struct rdma_cm_id *listener;

	mutex_lock(&share->lock);
	share->stopping = true;
	listener = share->listener;
	share->listener = NULL;
	mutex_unlock(&share->lock);

	if (listener)
		rdma_destroy_id(listener);
	if (service)
		memopt_service_invalidate(service);
	memopt_share_disconnect(share);
}

static void memopt_share_device_gone(struct memopt_service *service)
{
	memopt_share_stop(to_memopt_share(service->owner), service);
}

static void memopt_share_destroy(struct memopt_object *obj)
{
	struct memopt_share *share = to_memopt_share(obj);

	memopt_share_stop(share, share->service);
	if (share->service) {
		memopt_service_kill(share->service);
		memopt_ibdev_detach(share->service);
	}
	if (share->buf)
		memopt_buffer_put(share->buf);
	share->buf = NULL;
	atomic_dec(&memopt_nr_shares);
}

/* A reader of SHARE_INFO or a connection's work item may be the last to leave. */
static void memopt_share_release(struct memopt_object *obj)
{
	struct memopt_share *share = to_memopt_share(obj);

	if (share->pa_mr)
		memopt_pa_mr_free(share->pa_mr);
	if (share->service)
		memopt_service_put(share->service);
	mutex_destroy(&share->lock);
	kfree_sensitive(share);
}

static const struct memopt_object_ops memopt_share_ops = {
	.type = MEMOPT_OBJECT_SHARE,
	.destroy = memopt_share_destroy,
	.release = memopt_share_release,
};

/* ---- what the caller asks for ---- */

/* An address somebody can have, and only one: no wildcard and no group. */
static int memopt_share_address(const struct memopt_share_create *arg,
				struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	int type;

	memset(addr, 0, sizeof(*addr));
	switch (arg->family) {
	case AF_INET:
		if (memchr_inv(arg->addr + 4, 0, sizeof(arg->addr) - 4) ||
		    arg->scope_id)
			return -EINVAL;
		in->sin_family = AF_INET;
		in->sin_port = htons(arg->port);
		memcpy(&in->sin_addr, arg->addr, sizeof(in->sin_addr));
		if (ipv4_is_zeronet(in->sin_addr.s_addr) ||
		    ipv4_is_multicast(in->sin_addr.s_addr) ||
		    ipv4_is_lbcast(in->sin_addr.s_addr))
			return -EINVAL;
		return 0;
	case AF_INET6:
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(arg->port);
		in6->sin6_scope_id = arg->scope_id;
		memcpy(&in6->sin6_addr, arg->addr, sizeof(in6->sin6_addr));
		if (ipv6_addr_any(&in6->sin6_addr) ||
		    ipv6_addr_is_multicast(&in6->sin6_addr) ||
		    ipv6_addr_v4mapped(&in6->sin6_addr))
			return -EINVAL;
		type = ipv6_addr_type(&in6->sin6_addr);
		if (!!arg->scope_id != __ipv6_addr_needs_scope_id(type))
			return -EINVAL;
		return 0;
	}
	return -EOPNOTSUPP;
}

/*
 * rdma_cm has a rule for low ports as well, but it looks at the privileges of
 * whoever calls it and knows no other namespace than the first.
 */
static int memopt_share_permission(struct net *net, u16 port)
{
	if (!memopt_share_unprivileged &&
	    !ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (port && inet_port_requires_bind_service(net, port) &&
	    !ns_capable(net->user_ns, CAP_NET_BIND_SERVICE))
		return -EACCES;
	return 0;
}

static int memopt_share_check(const struct memopt_share_create *arg,
			      struct sockaddr_storage *addr)
{
	int rc;

	rc = memopt_access_check(arg->access);
	if (rc)
		return rc;
	if (!(arg->access & MEMOPT_ACCESS_REMOTE))
		return -EINVAL;
	if (arg->max_connections > memopt_max_connections)
		return -EINVAL;
	rc = memopt_share_address(arg, addr);
	if (rc)
		return rc;
	return memopt_share_permission(current->nsproxy->net_ns, arg->port);
}

/* ---- the beginning ---- */

static struct memopt_share *
memopt_share_alloc(struct memopt_file *mf,
		   const struct memopt_share_create *arg)
{
	struct memopt_share *share;
	int rc;

	share = kzalloc_obj(*share, GFP_KERNEL_ACCOUNT);
	if (!share)
		return ERR_PTR(-ENOMEM);

	share->flags = arg->flags;
	share->max_conns = arg->max_connections ?: memopt_max_connections;
	share->expires = arg->expires_ms ?
			 ktime_add_ms(ktime_get(), arg->expires_ms) : KTIME_MAX;
	get_random_bytes(share->token, sizeof(share->token));
	mutex_init(&share->lock);
	INIT_LIST_HEAD(&share->conns);
	init_waitqueue_head(&share->idle);

	rc = -ENOSPC;
	if (!atomic_add_unless(&memopt_nr_shares, 1, memopt_max_shares))
		goto err_free;
	rc = memopt_object_reserve(mf, &share->obj, &memopt_share_ops);
	if (rc)
		goto err_uncount;
	return share;

err_uncount:
	atomic_dec(&memopt_nr_shares);
err_free:
	kfree_sensitive(share);
	return ERR_PTR(rc);
}

/* Register the range in a domain of its own on the listener's device. */
static int memopt_share_register(struct memopt_share *share,
				 const struct memopt_share_create *arg,
				 struct ib_device *ibdev)
{
	struct memopt_service *service;
	struct memopt_ibdev *dev;
	struct memopt_pa_mr *pa_mr;

	dev = memopt_ibdev_get_by_device(ibdev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	service = memopt_service_create(dev, &share->obj,
					memopt_share_device_gone);
	memopt_ibdev_put(dev);
	if (IS_ERR(service))
		return PTR_ERR(service);
	share->service = service;

	pa_mr = memopt_pa_mr_create(service, share->buf, arg->offset,
				    arg->length, arg->access);
	if (IS_ERR(pa_mr))
		return PTR_ERR(pa_mr);
	share->pa_mr = pa_mr;
	return 0;
}

static u16 memopt_listener_port(const struct rdma_cm_id *id)
{
	const struct sockaddr_storage *addr = &id->route.addr.src_addr;

	if (addr->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

/*
 * Until the listener is in the share, it is ours alone: removal of the device sets
 * share->stopping, which is found below, and leaves the id to us.
 */
static int memopt_share_listen(struct memopt_share *share,
			       struct memopt_share_create *arg,
			       struct sockaddr_storage *addr)
{
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(current->nsproxy->net_ns, memopt_share_event,
			    share, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);

	rc = rdma_bind_addr(id, (struct sockaddr *)addr);
	if (rc)
		goto err_destroy_id;
	/* An address of no device, as 127.0.0.1 may be. */
	rc = -EADDRNOTAVAIL;
	if (!id->device)
		goto err_destroy_id;

	rc = memopt_share_register(share, arg, id->device);
	if (rc)
		goto err_destroy_id;

	rc = rdma_listen(id, MEMOPT_BACKLOG);
	if (rc)
		goto err_destroy_id;
	arg->out_port = memopt_listener_port(id);

	mutex_lock(&share->lock);
	rc = share->stopping ? -ENODEV : 0;
	if (!rc)
		share->listener = id;
	mutex_unlock(&share->lock);
	if (rc)
		goto err_destroy_id;
	return 0;

err_destroy_id:
	rdma_destroy_id(id);
	return rc;
}

int memopt_ioctl_share_create(struct memopt_call *call)
{
	struct memopt_share_create *arg = call->arg;
	struct sockaddr_storage addr;
	struct memopt_share *share;
	struct memopt_buffer *buf;
	int rc;

	rc = memopt_share_check(arg, &addr);
	if (rc)
		return rc;

	buf = memopt_buffer_get(call->file, arg->buf_id);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	rc = memopt_buffer_check_range(buf, arg->offset, arg->length);
	if (rc)
		goto err_put_buffer;

	share = memopt_share_alloc(call->file, arg);
	if (IS_ERR(share)) {
		rc = PTR_ERR(share);
		goto err_put_buffer;
	}
	share->buf = buf;

	rc = memopt_share_listen(share, arg, &addr);
	if (rc)
		goto err_end_share;

	arg->out_share_id = share->obj.id;
	memcpy(arg->out_token, share->token, sizeof(arg->out_token));
	arg->out_rkey = share->pa_mr->rkey;
	arg->out_iova = share->pa_mr->iova;
	call->new_object = &share->obj;
	return 0;

err_end_share:
	memopt_object_abort(call->file, &share->obj);
	memopt_share_destroy(&share->obj);
	memopt_object_put(&share->obj);
	return rc;
err_put_buffer:
	memopt_buffer_put(buf);
	return rc;
}

/* ---- afterwards ---- */

int memopt_ioctl_share_info(struct memopt_call *call)
{
	struct memopt_share_info *arg = call->arg;
	struct memopt_share *share;
	struct memopt_object *obj;

	obj = memopt_object_get(call->file, arg->share_id, MEMOPT_OBJECT_SHARE);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	share = to_memopt_share(obj);

	mutex_lock(&share->lock);
	/* Stopped, and yet there to be asked about: it was the device. */
	if (share->stopping)
		arg->out_state |= MEMOPT_SHARE_STATE_DEVICE_GONE;
	if (share->used || memopt_share_expired(share))
		arg->out_state |= MEMOPT_SHARE_STATE_CLOSED;
	arg->out_connections = share->nr_live;
	arg->out_accepted = share->accepted;
	arg->out_rejected = share->rejected;
	mutex_unlock(&share->lock);

	arg->out_access = share->pa_mr->access;
	arg->out_length = share->pa_mr->length;
	arg->out_entries = share->pa_mr->entries;
	arg->out_page_size = share->pa_mr->page_size;
	memopt_ibdev_name(share->service->dev, arg->out_ibdev);

	memopt_object_put(obj);
	return 0;
}

int memopt_ioctl_share_destroy(struct memopt_call *call)
{
	struct memopt_share_destroy *arg = call->arg;

	return memopt_object_remove(call->file, arg->share_id,
				    MEMOPT_OBJECT_SHARE);
}
