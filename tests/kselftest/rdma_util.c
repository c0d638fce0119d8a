// SPDX-License-Identifier: GPL-2.0
/* See rdma_util.h: verbs end points, and the client of a share. */
#include "rdma_util.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int minus_errno(void)
{
	return errno ? -errno : -EIO;
}

/* ---- verbs end points ---- */

static int open_device(struct ibv_context **ctx)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int ret = -ENODEV;

	if (!list)
		return minus_errno();
	for (struct ibv_device **dev = list; *dev; dev++) {
		if (strcmp(ibv_get_device_name(*dev), RXE_DEV))
			continue;
		*ctx = ibv_open_device(*dev);
		ret = *ctx ? 0 : minus_errno();
		break;
	}
	ibv_free_device_list(list);
	return ret;
}

static int end_create_qp(struct rdma_end *end)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 128,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	end->cq = ibv_create_cq(end->ctx, 256, NULL, NULL, 0);
	if (!end->cq)
		return minus_errno();
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	return end->qp ? 0 : minus_errno();
}

int rdma_end_open(struct rdma_end *end)
{
	int ret;

	memset(end, 0, sizeof(*end));
	ret = open_device(&end->ctx);
	if (ret)
		return ret;
	end->pd = ibv_alloc_pd(end->ctx);
	ret = end->pd ? end_create_qp(end) : minus_errno();
	if (ret)
		rdma_end_close(end);
	return ret;
}

int rdma_end_open_beside(struct rdma_end *end, const struct rdma_end *of)
{
	int ret;

	memset(end, 0, sizeof(*end));
	end->ctx = of->ctx;
	end->pd = of->pd;
	end->borrowed = true;
	ret = end_create_qp(end);
	if (ret)
		rdma_end_close(end);
	return ret;
}

int rdma_end_connect(struct rdma_end *end, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
	};
	union ibv_gid gid;
	int ret;

	ret = ibv_query_gid(end->ctx, 1, RXE_GID_INDEX, &gid);
	if (ret)
		return minus_errno();
	ret = ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (ret)
		return -ret;
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = gid,
				.sgid_index = RXE_GID_INDEX,
				.hop_limit = 8,
			},
		},
	};
	ret = ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (ret)
		return -ret;
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS,
		.timeout = 17,
		.retry_cnt = 5,
		.max_rd_atomic = 4,
	};
	ret = ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
			    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return -ret;
}

void rdma_end_close(struct rdma_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	if (end->pd && !end->borrowed)
		ibv_dealloc_pd(end->pd);
	if (end->ctx && !end->borrowed)
		ibv_close_device(end->ctx);
	memset(end, 0, sizeof(*end));
}

int rdma_post(struct ibv_qp *qp, const struct rdma_op *op)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)op->local,
		.length = op->length,
		.lkey = op->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = op->wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = op->remote, .rkey = op->rkey },
	};
	struct ibv_send_wr *bad;

	/* The member is a union: an invalidating SEND names the key here. */
	if (op->opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = op->rkey;
	return -ibv_post_send(qp, &wr, &bad);
}

int rdma_wait(struct ibv_cq *cq, int timeout_ms, struct ibv_wc *wc)
{
	const int64_t end = now_ms() + timeout_ms;
	const struct timespec nap = { .tv_nsec = 200000 };

	for (;;) {
		int n = ibv_poll_cq(cq, 1, wc);

		if (n < 0)
			return -EIO;
		if (n)
			return 0;
		if (now_ms() > end)
			return -ETIMEDOUT;
		nanosleep(&nap, NULL);
	}
}

int rdma_do(struct ibv_qp *qp, struct ibv_cq *cq, const struct rdma_op *op)
{
	struct ibv_wc wc;
	int ret;

	ret = rdma_post(qp, op);
	if (!ret)
		ret = rdma_wait(cq, RDMA_PATIENCE_MS, &wc);
	return ret ? ret : (int)wc.status;
}

/* ---- client of a share ---- */

void share_hello_init(struct memopt_share_hello *hello,
		      const unsigned char *token)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = htobe32(MEMOPT_SHARE_MAGIC);
	hello->protocol = htobe16(MEMOPT_SHARE_PROTOCOL);
	memcpy(hello->token, token, sizeof(hello->token));
}

/* Keep what the answer said; the event is gone afterwards. */
static void client_take_private(struct share_client *c,
				const struct rdma_cm_event *event)
{
	size_t len = event->param.conn.private_data_len;

	if (len > sizeof(c->private_data))
		len = sizeof(c->private_data);
	if (!event->param.conn.private_data)
		len = 0;
	c->private_len = len;
	if (len)
		memcpy(c->private_data, event->param.conn.private_data, len);
}

static int client_parse_grant(struct share_client *c)
{
	struct memopt_share_grant grant;

	if (c->private_len < sizeof(grant))
		return -EPROTO;
	memcpy(&grant, c->private_data, sizeof(grant));
	if (be32toh(grant.magic) != MEMOPT_SHARE_MAGIC ||
	    be16toh(grant.protocol) != MEMOPT_SHARE_PROTOCOL)
		return -EPROTO;
	c->rkey = be32toh(grant.rkey);
	c->access = be32toh(grant.access);
	c->iova = be64toh(grant.iova);
	c->length = be64toh(grant.length);
	c->granted = true;
	return 0;
}

static int client_parse_refusal(struct share_client *c)
{
	struct memopt_share_refusal refusal;

	if (c->private_len < sizeof(refusal))
		return -ECONNREFUSED;
	memcpy(&refusal, c->private_data, sizeof(refusal));
	if (be32toh(refusal.magic) == MEMOPT_SHARE_MAGIC)
		c->refusal = be16toh(refusal.reason);
	return -ECONNREFUSED;
}

/* Wait for one event and demand that it is @want. */
static int client_expect(struct share_client *c, enum rdma_cm_event_type want)
{
	struct pollfd pfd = { .fd = c->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type got;
	int status;

	if (poll(&pfd, 1, RDMA_PATIENCE_MS) != 1)
		return -ETIMEDOUT;
	if (rdma_get_cm_event(c->channel, &event))
		return minus_errno();
	got = event->event;
	status = event->status;
	client_take_private(c, event);
	rdma_ack_cm_event(event);
	if (got == RDMA_CM_EVENT_REJECTED)
		return client_parse_refusal(c);
	if (got == want)
		return 0;
	return status < 0 ? status : -EPROTO;
}

static int client_resolve(struct share_client *c, uint16_t port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	int ret;

	inet_pton(AF_INET, RXE_ADDR, &to.sin_addr);
	if (rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to, 5000))
		return minus_errno();
	ret = client_expect(c, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (ret)
		return ret;
	if (rdma_resolve_route(c->id, 5000))
		return minus_errno();
	return client_expect(c, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int client_prepare(struct share_client *c, size_t buf_len)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 128,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	c->buf = mmap(NULL, buf_len, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->buf == MAP_FAILED) {
		c->buf = NULL;
		return minus_errno();
	}
	c->len = buf_len;
	c->cq = ibv_create_cq(c->id->verbs, 256, NULL, NULL, 0);
	if (!c->cq)
		return minus_errno();
	init.send_cq = c->cq;
	init.recv_cq = c->cq;
	if (rdma_create_qp(c->id, NULL, &init))
		return minus_errno();
	c->mr = ibv_reg_mr(c->id->pd, c->buf, buf_len, IBV_ACCESS_LOCAL_WRITE);
	return c->mr ? 0 : minus_errno();
}

int share_client_open(struct share_client *c, uint16_t port, const void *hello,
		      size_t hello_len, size_t buf_len)
{
	struct rdma_conn_param param = {
		.private_data = hello_len ? hello : NULL,
		.private_data_len = (uint8_t)hello_len,
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = 5,
		.rnr_retry_count = 1,
	};
	uint8_t ack_timeout = 17; /* half a second: a dead peer is found out */
	int ret;

	memset(c, 0, sizeof(*c));
	c->channel = rdma_create_event_channel();
	if (!c->channel)
		return minus_errno();
	if (rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP))
		return minus_errno();
	if (rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			    &ack_timeout, sizeof(ack_timeout)))
		return minus_errno();
	ret = client_resolve(c, port);
	if (ret)
		return ret;
	ret = client_prepare(c, buf_len);
	if (ret)
		return ret;
	if (rdma_connect(c->id, &param))
		return minus_errno();
	ret = client_expect(c, RDMA_CM_EVENT_ESTABLISHED);
	return ret ? ret : client_parse_grant(c);
}

int share_client_join(struct share_client *c, uint16_t port,
		      const unsigned char *token, size_t buf_len)
{
	struct memopt_share_hello hello;

	share_hello_init(&hello, token);
	return share_client_open(c, port, &hello, sizeof(hello), buf_len);
}

int share_client_do(struct share_client *c, enum ibv_wr_opcode opcode,
		    size_t local, uint64_t remote, uint32_t length)
{
	const struct rdma_op op = {
		.opcode = opcode,
		.local = c->buf + local,
		.lkey = c->mr->lkey,
		.length = length,
		.remote = c->iova + remote,
		.rkey = c->rkey,
	};

	return rdma_do(c->id->qp, c->cq, &op);
}

void share_client_close(struct share_client *c)
{
	if (c->granted)
		rdma_disconnect(c->id);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->id && c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->id)
		rdma_destroy_id(c->id);
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	if (c->buf)
		munmap(c->buf, c->len);
	memset(c, 0, sizeof(*c));
}

bool rxe_ready(void)
{
	struct ibv_context *ctx;
	union ibv_gid gid, want = { .raw = { [10] = 0xff, [11] = 0xff } };
	bool ready = false;

	if (open_device(&ctx))
		return false;
	inet_pton(AF_INET, RXE_ADDR, &want.raw[12]);
	if (!ibv_query_gid(ctx, 1, RXE_GID_INDEX, &gid))
		ready = !memcmp(&gid, &want, sizeof(gid));
	ibv_close_device(ctx);
	return ready;
}
