// SPDX-License-Identifier: GPL-2.0
/*
 * Services: a protection domain, and two QPs connected to each other on which the
 * module registers and invalidates memory in that domain.
 *
 * No byte ever travels between the two QPs.  They exist because REG_MR and
 * LOCAL_INV are work requests, and a QP takes those only in the state RTS, which
 * it reaches only with a peer.  A QP that a real peer is connected to is no use:
 * the key would have to leave in the accept before the QP can make it valid.
 *
 * Whatever goes wrong with a work request puts the pair in doubt, so the pair is
 * destroyed at once and made anew when it is needed next.  The MRs do not mind.
 */
#include <linux/if_ether.h>
#include <linux/jiffies.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <rdma/ib_cache.h>

#include "compat/slab.h"
#include "rdma.h"

/* Both work requests are local to the device: this is ages. */
#define MEMOPT_WR_TIMEOUT (10 * HZ)

/* One work request at a time, and room for what a flush may add. */
#define MEMOPT_PAIR_WRS 4

static void memopt_wr_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct memopt_service *service =
		container_of(wc->wr_cqe, struct memopt_service, wr.cqe);

	service->wr.status = wc->status;
	complete(&service->wr.done);
}

/* ---- the pair ---- */

/**
 * struct memopt_path - how a QP reaches another one on the same port
 * @port: port number
 * @ah: the address
 */
struct memopt_path {
	u32 port;
	struct rdma_ah_attr ah;
};

/* A RoCE port is addressed by one of its GIDs and its own MAC address. */
static int memopt_path_roce(struct ib_device *ibdev, u32 port,
			    struct rdma_ah_attr *ah)
{
	int nr_gids = ibdev->port_data[port].immutable.gid_tbl_len;
	const struct ib_gid_attr *gid = NULL, *candidate;
	u8 mac[ETH_ALEN];
	u16 vlan;
	int i, rc;

	for (i = 0; i < nr_gids; i++) {
		candidate = rdma_get_gid_attr(ibdev, port, i);
		if (IS_ERR(candidate))
			continue;
		/* The first will do, but every device has the newer type. */
		if (gid && candidate->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP) {
			rdma_put_gid_attr(candidate);
			continue;
		}
		if (gid)
			rdma_put_gid_attr(gid);
		gid = candidate;
		if (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
			break;
	}
	if (!gid)
		return -ENODEV;

	rc = rdma_read_gid_l2_fields(gid, &vlan, mac);
	if (!rc) {
		union ib_gid dgid = gid->gid;

		rdma_ah_set_grh(ah, &dgid, 0, gid->index, 1, 0);
		ether_addr_copy(ah->roce.dmac, mac);
	}
	rdma_put_gid_attr(gid);
	return rc;
}

static int memopt_path_ib(struct ib_device *ibdev, u32 port,
			  struct rdma_ah_attr *ah)
{
	struct ib_port_attr attr;
	int rc;

	rc = ib_query_port(ibdev, port, &attr);
	if (rc)
		return rc;
	/* A subnet manager has not yet been here. */
	if (!attr.lid)
		return -ENODEV;
	rdma_ah_set_dlid(ah, attr.lid);
	return 0;
}

static int memopt_path_find(struct ib_device *ibdev, struct memopt_path *path)
{
	int rc = -ENODEV;
	u32 port;

	rdma_for_each_port(ibdev, port) {
		if (!rdma_ib_or_roce(ibdev, port))
			continue;

		memset(path, 0, sizeof(*path));
		path->port = port;
		path->ah.type = rdma_ah_find_type(ibdev, port);
		rdma_ah_set_port_num(&path->ah, port);
		if (rdma_protocol_roce(ibdev, port))
			rc = memopt_path_roce(ibdev, port, &path->ah);
		else
			rc = memopt_path_ib(ibdev, port, &path->ah);
		if (!rc)
			break;
	}
	return rc;
}

static int memopt_qp_connect(struct ib_qp *qp, u32 dest_qp_num,
			     const struct memopt_path *path)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = path->port,
	};
	int rc;

	/* No remote access at all, not even by the other one. */
	rc = ib_modify_qp(qp, &attr,
			  IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				  IB_QP_ACCESS_FLAGS);
	if (rc)
		return rc;

	attr.qp_state = IB_QPS_RTR;
	attr.ah_attr = path->ah;
	/* Every port has this one, and no packet will need more. */
	attr.path_mtu = IB_MTU_256;
	attr.dest_qp_num = dest_qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	rc = ib_modify_qp(qp, &attr,
			  IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
				  IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				  IB_QP_MAX_DEST_RD_ATOMIC |
				  IB_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;

	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
				    IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
				    IB_QP_MAX_QP_RD_ATOMIC);
}

/* After this no work request of the pair completes any more. */
static void memopt_pair_destroy(struct memopt_service *service)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	int i;

	lockdep_assert_held(&service->lock);

	for (i = 0; i < ARRAY_SIZE(service->qp); i++) {
		if (!service->qp[i])
			continue;
		ib_modify_qp(service->qp[i], &attr, IB_QP_STATE);
		ib_destroy_qp(service->qp[i]);
		service->qp[i] = NULL;
	}
	if (service->cq)
		ib_free_cq(service->cq);
	service->cq = NULL;
	if (service->state == MEMOPT_SERVICE_READY)
		service->state = MEMOPT_SERVICE_BROKEN;
}

static int memopt_pair_create(struct memopt_service *service)
{
	struct ib_device *ibdev = service->dev->ibdev;
	struct ib_qp_init_attr init;
	struct memopt_path path;
	struct ib_qp *qp;
	int i, rc;

	lockdep_assert_held(&service->lock);

	rc = memopt_path_find(ibdev, &path);
	if (rc)
		return rc;

	service->cq = ib_alloc_cq(ibdev, NULL, 4 * MEMOPT_PAIR_WRS, 0,
				  IB_POLL_WORKQUEUE);
	if (IS_ERR(service->cq)) {
		rc = PTR_ERR(service->cq);
		service->cq = NULL;
		return rc;
	}

	for (i = 0; i < ARRAY_SIZE(service->qp); i++) {
		/* Create writes the sizes it chose into the struct. */
		init = (struct ib_qp_init_attr) {
			.send_cq = service->cq,
			.recv_cq = service->cq,
			.qp_type = IB_QPT_RC,
			.sq_sig_type = IB_SIGNAL_ALL_WR,
			.port_num = path.port,
			.cap = {
				.max_send_wr = MEMOPT_PAIR_WRS,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
			},
		};
		qp = ib_create_qp(service->pd, &init);
		if (IS_ERR(qp)) {
			rc = PTR_ERR(qp);
			goto err_destroy;
		}
		service->qp[i] = qp;
	}

	for (i = 0; i < ARRAY_SIZE(service->qp); i++) {
		rc = memopt_qp_connect(service->qp[i],
				       service->qp[!i]->qp_num, &path);
		if (rc)
			goto err_destroy;
	}
	service->state = MEMOPT_SERVICE_READY;
	return 0;

err_destroy:
	memopt_pair_destroy(service);
	return rc;
}

static int memopt_pair_post(struct memopt_service *service,
			    struct ib_send_wr *wr, bool killable)
{
	long left;
	int rc;

	service->wr.cqe.done = memopt_wr_done;
	reinit_completion(&service->wr.done);
	wr->wr_cqe = &service->wr.cqe;
	wr->send_flags = IB_SEND_SIGNALED;
	wr->next = NULL;

	rc = ib_post_send(service->qp[0], wr, NULL);
	if (rc)
		return -EIO;

	if (killable)
		left = wait_for_completion_killable_timeout(&service->wr.done,
							    MEMOPT_WR_TIMEOUT);
	else
		left = wait_for_completion_timeout(&service->wr.done,
						   MEMOPT_WR_TIMEOUT);
	if (left < 0)
		return -EINTR;
	if (!left)
		return -ETIMEDOUT;
	if (service->wr.status == IB_WC_WR_FLUSH_ERR)
		return -EAGAIN;
	return service->wr.status == IB_WC_SUCCESS ? 0 : -EIO;
}

int memopt_service_post(struct memopt_service *service, struct ib_send_wr *wr,
			bool killable)
{
	int tries, rc;

	lockdep_assert_held(&service->lock);

	/* A flushed request was not run: the pair had failed before, unseen. */
	for (tries = 0; tries < 2; tries++) {
		if (service->state == MEMOPT_SERVICE_DEAD)
			return -ENODEV;
		if (service->state == MEMOPT_SERVICE_BROKEN) {
			rc = memopt_pair_create(service);
			if (rc)
				return rc;
		}
		rc = memopt_pair_post(service, wr, killable);
		if (!rc)
			return 0;
		memopt_pair_destroy(service);
		if (rc != -EAGAIN)
			return rc;
	}
	return -EIO;
}

/* ---- the service ---- */

static int memopt_service_start(struct memopt_service *service)
{
	struct ib_device *ibdev = service->dev->ibdev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int rc;

	mutex_lock(&service->lock);
	/* Until removal has taken this lock once, the device is there. */
	rc = -ENODEV;
	if (service->state == MEMOPT_SERVICE_DEAD)
		goto out_unlock;

	rc = memopt_ibdev_check(ibdev);
	if (rc)
		goto out_unlock;

	pd = ib_alloc_pd(ibdev, 0);
	if (IS_ERR(pd)) {
		rc = PTR_ERR(pd);
		goto out_unlock;
	}
	service->pd = pd;

	if (service->owner) {
		cq = ib_alloc_cq(ibdev, NULL, 2, 0, IB_POLL_DIRECT);
		if (IS_ERR(cq)) {
			rc = PTR_ERR(cq);
			goto out_unlock;
		}
		service->conn_cq = cq;
	}

	rc = memopt_pair_create(service);
out_unlock:
	mutex_unlock(&service->lock);
	return rc;
}

struct memopt_service *
memopt_service_create(struct memopt_ibdev *dev, struct memopt_object *owner,
		      void (*stop)(struct memopt_service *service))
{
	struct memopt_service *service;
	int rc;

	service = kzalloc_obj(*service, GFP_KERNEL_ACCOUNT);
	if (!service)
		return ERR_PTR(-ENOMEM);

	kref_init(&service->ref);
	kref_get(&dev->ref);
	service->dev = dev;
	INIT_LIST_HEAD(&service->dev_entry);
	INIT_LIST_HEAD(&service->file_entry);
	service->owner = owner;
	service->stop = stop;
	mutex_init(&service->lock);
	INIT_LIST_HEAD(&service->mrs);
	init_completion(&service->wr.done);

	/* Attach first: from here on removal waits for what start makes. */
	rc = memopt_ibdev_attach(dev, service);
	if (!rc)
		rc = memopt_service_start(service);
	if (rc) {
		memopt_service_end(service);
		return ERR_PTR(rc);
	}
	return service;
}

void memopt_service_invalidate(struct memopt_service *service)
{
	struct memopt_pa_mr *pa_mr;

	mutex_lock(&service->lock);
	list_for_each_entry(pa_mr, &service->mrs, entry)
		memopt_pa_mr_invalidate(pa_mr);
	mutex_unlock(&service->lock);
}

void memopt_service_kill(struct memopt_service *service)
{
	struct memopt_pa_mr *pa_mr, *next;

	mutex_lock(&service->lock);
	if (service->state == MEMOPT_SERVICE_DEAD)
		goto out_unlock;

	list_for_each_entry_safe(pa_mr, next, &service->mrs, entry) {
		memopt_pa_mr_invalidate(pa_mr);
		memopt_pa_mr_dereg(pa_mr);
	}

	memopt_pair_destroy(service);
	if (service->conn_cq)
		ib_free_cq(service->conn_cq);
	service->conn_cq = NULL;
	if (service->pd && !service->stuck)
		ib_dealloc_pd(service->pd);
	service->pd = NULL;
	WRITE_ONCE(service->state, MEMOPT_SERVICE_DEAD);
out_unlock:
	mutex_unlock(&service->lock);
}

void memopt_service_end(struct memopt_service *service)
{
	/* Kill first: removal does not wait for a service that is detached. */
	memopt_service_kill(service);
	memopt_ibdev_detach(service);
	memopt_service_put(service);
}

void memopt_service_get(struct memopt_service *service)
{
	kref_get(&service->ref);
}

static void memopt_service_release(struct kref *ref)
{
	struct memopt_service *service =
		container_of(ref, struct memopt_service, ref);

	WARN_ON(!memopt_service_dead(service));
	mutex_destroy(&service->lock);
	memopt_ibdev_put(service->dev);
	kfree(service);
}

void memopt_service_put(struct memopt_service *service)
{
	kref_put(&service->ref, memopt_service_release);
}

/* ---- the services of a file, one per device ---- */

static struct memopt_service *
memopt_file_service_find(struct memopt_file *mf, struct memopt_ibdev *dev)
{
	struct memopt_service *service, *next, *found = NULL;

	lockdep_assert_held(&mf->service_lock);

	list_for_each_entry_safe(service, next, &mf->services, file_entry) {
		if (memopt_service_dead(service)) {
			/* The device went; its MRs keep what they need. */
			list_del_init(&service->file_entry);
			memopt_service_end(service);
		} else if (service->dev == dev) {
			found = service;
		}
	}
	return found;
}

struct memopt_service *memopt_file_service_get(struct memopt_file *mf,
					       const char *ibdev_name)
{
	struct memopt_service *service;
	struct memopt_ibdev *dev;

	dev = memopt_ibdev_get(ibdev_name, current->nsproxy->net_ns);
	if (IS_ERR(dev))
		return ERR_CAST(dev);

	mutex_lock(&mf->service_lock);
	service = memopt_file_service_find(mf, dev);
	if (!service) {
		service = memopt_service_create(dev, NULL, NULL);
		if (!IS_ERR(service))
			list_add(&service->file_entry, &mf->services);
	}
	if (!IS_ERR(service))
		memopt_service_get(service);
	mutex_unlock(&mf->service_lock);

	memopt_ibdev_put(dev);
	return service;
}

void memopt_file_services_destroy(struct memopt_file *mf)
{
	struct memopt_service *service, *next;

	list_for_each_entry_safe(service, next, &mf->services, file_entry) {
		list_del_init(&service->file_entry);
		memopt_service_end(service);
	}
}
