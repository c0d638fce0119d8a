// SPDX-License-Identifier: GPL-2.0
/*
 * Connections of a share: admitting a peer, and ending what it has.
 *
 * The token is compared before anything is allocated, the limit is checked and the
 * place taken under the share's lock, and the QP that the peer is connected to has
 * the share's remote rights and no others.  rdma_cm would give it all of them, so
 * the QP is made and moved through its states here.
 *
 * A single-use token counts as used as soon as the accept may have left, because
 * from then on the peer can reach the memory.  It is given back only if the accept
 * could not be sent.
 *
 * An id can not be destroyed by its own handler.  Every connection therefore ends
 * in its work item, queued once, by whoever marks it as leaving first: an event, or
 * the end of the share, which then waits until the list is empty.
 */
#include <linux/string.h>
#include <crypto/algapi.h>
#include <rdma/ib_cm.h>

#include "compat/slab.h"
#include "rdma.h"

/*
 * Connections on their way out do not count against the limit of peers, so that
 * one can come back at once; but there may not be any number of them either.
 */
#define MEMOPT_LEAVING_FACTOR 4

/**
 * struct memopt_conn - one peer
 * @share: with a reference
 * @entry: in the share's list until id and QP are gone
 * @id: of rdma_cm
 * @qp: under the id's handler lock
 * @leaving: under the share's lock: @work is queued, or the peer was not admitted
 * @work: the end
 */
struct memopt_conn {
	struct memopt_share *share;
	struct list_head entry;
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	bool leaving;
	struct work_struct work;
};

/* ---- the end ---- */

/* Take a connection whose id and QP are gone, or are not ours, off the share. */
static void memopt_conn_forget(struct memopt_conn *conn)
{
	struct memopt_share *share = conn->share;

	lockdep_assert_held(&share->lock);

	list_del(&conn->entry);
	if (!conn->leaving)
		share->nr_live--;
	WRITE_ONCE(share->nr_conns, share->nr_conns - 1);
	if (!share->nr_conns)
		wake_up_all(&share->idle);
}

/*
 * When the QP is destroyed, the device has finished the last packet of the peer
 * that it had begun, and takes no other.
 */
static void memopt_conn_destroy_qp(struct memopt_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (!conn->qp)
		return;
	ib_modify_qp(conn->qp, &attr, IB_QP_STATE);
	ib_destroy_qp(conn->qp);
	conn->qp = NULL;
}

static void memopt_conn_work(struct work_struct *work)
{
	struct memopt_conn *conn = container_of(work, struct memopt_conn, work);
	struct memopt_share *share = conn->share;

	/* The handler that makes the QP may still be at it. */
	rdma_lock_handler(conn->id);
	memopt_conn_destroy_qp(conn);
	rdma_unlock_handler(conn->id);

	/* This also tells the peer. */
	rdma_destroy_id(conn->id);

	mutex_lock(&share->lock);
	memopt_conn_forget(conn);
	mutex_unlock(&share->lock);

	kfree(conn);
	memopt_object_put(&share->obj);
}

static void memopt_conn_leave(struct memopt_conn *conn)
{
	lockdep_assert_held(&conn->share->lock);

	if (conn->leaving)
		return;
	conn->leaving = true;
	conn->share->nr_live--;
	queue_work(memopt_wq, &conn->work);
}

void memopt_share_disconnect(struct memopt_share *share)
{
	struct memopt_conn *conn;

	mutex_lock(&share->lock);
	list_for_each_entry(conn, &share->conns, entry)
		memopt_conn_leave(conn);
	mutex_unlock(&share->lock);

	/* The last one out holds a reference of its own while it wakes us. */
	wait_event(share->idle, !READ_ONCE(share->nr_conns));
}

/* Handler of a connection's id, once the peer is admitted. */
static int memopt_conn_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct memopt_conn *conn = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		mutex_lock(&conn->share->lock);
		memopt_conn_leave(conn);
		mutex_unlock(&conn->share->lock);
		break;
	default:
		/* ESTABLISHED changes nothing: the peer got in by the accept. */
		break;
	}
	return 0;
}

/* ---- admitting ---- */

static void memopt_conn_qp_event(struct ib_event *event, void *context)
{
	struct memopt_conn *conn = context;

	/* Data may come before the last message of the handshake does. */
	if (event->event == IB_EVENT_COMM_EST)
		rdma_notify(conn->id, event->event);
}

static int memopt_conn_modify_qp(struct memopt_conn *conn,
				 enum ib_qp_state state, u8 rd_atomic)
{
	u32 rights = conn->share->pa_mr->access & MEMOPT_ACCESS_REMOTE;
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, rc;

	rc = rdma_init_qp_attr(conn->id, &attr, &mask);
	if (rc)
		return rc;

	if (mask & IB_QP_ACCESS_FLAGS)
		attr.qp_access_flags = memopt_access_to_ib(rights);
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = rd_atomic;
	/* Nothing is ever sent from here. */
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = 1;
	return ib_modify_qp(conn->qp, &attr, mask);
}

static int memopt_conn_create_qp(struct memopt_conn *conn, u8 rd_atomic)
{
	struct memopt_service *service = conn->share->service;
	struct ib_qp_init_attr init = {
		.event_handler = memopt_conn_qp_event,
		.qp_context = conn,
		.send_cq = service->conn_cq,
		.recv_cq = service->conn_cq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.port_num = conn->id->port_num,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_qp *qp;
	int rc;

	qp = ib_create_qp(service->pd, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	conn->qp = qp;

	rc = memopt_conn_modify_qp(conn, IB_QPS_INIT, rd_atomic);
	if (!rc)
		rc = memopt_conn_modify_qp(conn, IB_QPS_RTR, rd_atomic);
	if (!rc)
		rc = memopt_conn_modify_qp(conn, IB_QPS_RTS, rd_atomic);
	return rc;
}

/* RDMA READs and atomics of the peer that may be under way at a time. */
static u8 memopt_conn_rd_atomic(const struct memopt_conn *conn,
				const struct rdma_conn_param *peer)
{
	int most = clamp(conn->id->device->attrs.max_qp_rd_atom, 1, U8_MAX);

	return clamp_t(int, peer->responder_resources, 1, most);
}

static int memopt_conn_accept(struct memopt_conn *conn,
			      const struct rdma_conn_param *peer)
{
	const struct memopt_pa_mr *pa_mr = conn->share->pa_mr;
	struct memopt_share_grant grant = {
		.magic = cpu_to_be32(MEMOPT_SHARE_MAGIC),
		.protocol = cpu_to_be16(MEMOPT_SHARE_PROTOCOL),
		.rkey = cpu_to_be32(pa_mr->rkey),
		.access = cpu_to_be32(pa_mr->access & MEMOPT_ACCESS_REMOTE),
		.iova = cpu_to_be64(pa_mr->iova),
		.length = cpu_to_be64(pa_mr->length),
	};
	struct rdma_conn_param param = {
		.private_data = &grant,
		.private_data_len = sizeof(grant),
		.responder_resources = memopt_conn_rd_atomic(conn, peer),
		.rnr_retry_count = 7,
	};
	int rc;

	rc = memopt_conn_create_qp(conn, param.responder_resources);
	if (rc)
		return rc;

	param.qp_num = conn->qp->qp_num;
	return rdma_accept(conn->id, &param);
}

/* 0 if the private data holds this share's token, else the refusal. */
static u16 memopt_share_check_hello(const struct memopt_share *share,
				    const struct rdma_conn_param *peer)
{
	struct memopt_share_hello hello;

	if (!peer->private_data || peer->private_data_len < sizeof(hello))
		return MEMOPT_REFUSAL_MALFORMED;
	memcpy(&hello, peer->private_data, sizeof(hello));
	if (hello.magic != cpu_to_be32(MEMOPT_SHARE_MAGIC) ||
	    hello.protocol != cpu_to_be16(MEMOPT_SHARE_PROTOCOL) ||
	    hello.__reserved)
		return MEMOPT_REFUSAL_MALFORMED;
	if (crypto_memneq(hello.token, share->token, sizeof(hello.token)))
		return MEMOPT_REFUSAL_TOKEN;
	return 0;
}

/* Take a place for the connection, and the token if it is for one use. */
static u16 memopt_share_admit(struct memopt_share *share,
			      struct memopt_conn *conn)
{
	u16 refusal = 0;

	mutex_lock(&share->lock);
	if (share->stopping)
		refusal = MEMOPT_REFUSAL_INTERNAL;
	else if (share->used || memopt_share_expired(share))
		refusal = MEMOPT_REFUSAL_TOKEN;
	else if (share->nr_live >= share->max_conns ||
		 share->nr_conns >= MEMOPT_LEAVING_FACTOR * share->max_conns)
		refusal = MEMOPT_REFUSAL_BUSY;
	if (!refusal) {
		share->used = share->flags & MEMOPT_SHARE_F_SINGLE_USE;
		list_add_tail(&conn->entry, &share->conns);
		share->nr_conns++;
		share->nr_live++;
	}
	mutex_unlock(&share->lock);
	return refusal;
}

static u16 memopt_share_connect(struct memopt_share *share,
				struct rdma_cm_id *id,
				const struct rdma_conn_param *peer,
				bool *accepted)
{
	struct memopt_conn *conn;
	bool leaving;
	u16 refusal;
	int rc;

	refusal = memopt_share_check_hello(share, peer);
	if (refusal)
		return refusal;

	conn = kzalloc_obj(*conn, GFP_KERNEL);
	if (!conn)
		return MEMOPT_REFUSAL_INTERNAL;
	kref_get(&share->obj.ref);
	conn->share = share;
	conn->id = id;
	INIT_WORK(&conn->work, memopt_conn_work);

	refusal = memopt_share_admit(share, conn);
	if (refusal)
		goto err_free;

	/* From here on the end of the share may mark the connection as leaving. */
	id->context = conn;
	id->event_handler = memopt_conn_event;
	rc = memopt_conn_accept(conn, peer);
	if (!rc) {
		mutex_lock(&share->lock);
		share->accepted++;
		mutex_unlock(&share->lock);
		*accepted = true;
		return 0;
	}

	pr_debug("accepting a peer failed: %d\n", rc);
	memopt_conn_destroy_qp(conn);
	refusal = MEMOPT_REFUSAL_INTERNAL;

	mutex_lock(&share->lock);
	share->used = false;
	leaving = conn->leaving;
	if (!leaving)
		memopt_conn_forget(conn);
	mutex_unlock(&share->lock);
	if (leaving) {
		/* The work item has it already, and the id with it. */
		*accepted = true;
		return refusal;
	}

err_free:
	kfree(conn);
	memopt_object_put(&share->obj);
	return refusal;
}

int memopt_share_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct memopt_share *share = id->context;
	struct memopt_share_refusal refusal = {
		.magic = cpu_to_be32(MEMOPT_SHARE_MAGIC),
		.protocol = cpu_to_be16(MEMOPT_SHARE_PROTOCOL),
	};
	bool keep_id = false;
	u16 reason;

	/* The listener itself ends with the share, or with the device's. */
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;

	reason = memopt_share_connect(share, id, &event->param.conn, &keep_id);
	if (!reason)
		return 0;

	mutex_lock(&share->lock);
	share->rejected++;
	mutex_unlock(&share->lock);

	refusal.reason = cpu_to_be16(reason);
	rdma_reject(id, &refusal, sizeof(refusal), IB_CM_REJ_CONSUMER_DEFINED);
	/* Not 0: rdma_cm destroys the id of this request. */
	return keep_id ? 0 : -ECONNREFUSED;
}
