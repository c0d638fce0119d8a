// SPDX-License-Identifier: GPL-2.0
/*
 * Shares: bytes go both ways, only peers with the token come in, and they reach
 * what was shared and nothing else.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma_share.h"

/* ---- bytes, with the client in a process of its own ---- */

struct order {
	enum { ORDER_JOIN, ORDER_WRITE, ORDER_READ } what;
	uint16_t port;
	unsigned char token[MEMOPT_TOKEN_SIZE];
	uint64_t offset;
};

static void remote_process(int sock, unsigned char *window)
{
	struct share_client c = { 0 };
	struct order order;

	while (read(sock, &order, sizeof(order)) == sizeof(order)) {
		int ret = 0;

		switch (order.what) {
		case ORDER_JOIN:
			ret = share_client_join(&c, order.port, order.token,
						MIB);
			break;
		case ORDER_WRITE:
			memcpy(c.buf, window, MIB);
			ret = share_client_do(&c, IBV_WR_RDMA_WRITE, 0,
					      order.offset, MIB);
			break;
		case ORDER_READ:
			memset(c.buf, 0, MIB);
			ret = share_client_do(&c, IBV_WR_RDMA_READ, 0,
					      order.offset, MIB);
			memcpy(window, c.buf, MIB);
			break;
		}
		if (write(sock, &ret, sizeof(ret)) != sizeof(ret))
			break;
	}
	share_client_close(&c);
	_exit(0);
}

static int order_run(int sock, const struct order *order)
{
	int ret;

	require_eq(write(sock, order, sizeof(*order)), sizeof(*order));
	require_eq(read(sock, &ret, sizeof(ret)), sizeof(ret));
	return ret;
}

static void bytes_go_both_ways(void)
{
	const size_t size = 64 * MIB;
	unsigned char *window, *shadow;
	struct order order = { .what = ORDER_JOIN };
	struct server s;
	int sock[2];
	pid_t pid;

	window = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(window != MAP_FAILED);
	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	pid = fork();
	require(pid >= 0);
	if (!pid) {
		close(sock[0]);
		remote_process(sock[1], window);
	}
	close(sock[1]);

	s = server_share(size, RW);
	shadow = malloc(size);
	require(shadow != NULL);
	pattern_fill(shadow, size, 1);
	memcpy(s.mem, shadow, size);

	order.port = s.share.out_port;
	memcpy(order.token, s.share.out_token, sizeof(order.token));
	require_eq(order_run(sock[0], &order), 0);
	srandom(4711);
	for (int round = 0; round < 6; round++) {
		/* Any byte may be the first, and both ends get their turn. */
		order.offset = round == 0 ? 0 : round == 1 ? size - MIB :
			       (uint64_t)random() % (size - MIB);
		order.what = ORDER_WRITE;
		pattern_fill(window, MIB, 100 + round);
		require_eq(order_run(sock[0], &order), IBV_WC_SUCCESS);
		memcpy(shadow + order.offset, window, MIB);
		require_eq(memcmp(s.mem, shadow, size), 0);

		order.offset = round == 0 ? size - MIB : round == 1 ? 0 :
			       (uint64_t)random() % (size - MIB);
		order.what = ORDER_READ;
		pattern_fill(window, MIB, 200 + round);
		memcpy(s.mem + order.offset, window, MIB);
		memcpy(shadow + order.offset, window, MIB);
		memset(window, 0, MIB);
		require_eq(order_run(sock[0], &order), IBV_WC_SUCCESS);
		require_eq(memcmp(window, shadow + order.offset, MIB), 0);
		require_eq(memcmp(s.mem, shadow, size), 0);
	}
	close(sock[0]);
	require_eq(wait_child(pid, RDMA_PATIENCE_MS), 0);
}

/* ---- who comes in ---- */

static void grant_describes_share(void)
{
	struct server s = server_share(4 * MIB, RW);
	struct share_client c;

	require(s.share.out_port != 0);
	require(s.share.out_rkey != 0);
	require(bytes_other_than(s.share.out_token, MEMOPT_TOKEN_SIZE, 0));
	require_eq(join(&c, &s), 0);
	require_eq(c.rkey, s.share.out_rkey);
	require_eq(c.iova, s.share.out_iova);
	require_eq(c.length, 4 * MIB);
	require_eq(c.access, RW & ~MEMOPT_ACCESS_LOCAL_WRITE);
}

static void wrong_token_is_rejected(void)
{
	struct server s = server_share(MIB, RW);
	struct share_client c;
	unsigned char token[MEMOPT_TOKEN_SIZE];

	for (int bit = 0; bit < 8 * MEMOPT_TOKEN_SIZE; bit += 127) {
		memcpy(token, s.share.out_token, sizeof(token));
		token[bit / 8] ^= (unsigned char)(1 << bit % 8);
		require_eq(share_client_join(&c, s.share.out_port, token, MIB),
			   -ECONNREFUSED);
		require_eq(c.refusal, MEMOPT_REFUSAL_TOKEN);
		share_client_close(&c);
	}
	memset(token, 0, sizeof(token));
	require_eq(share_client_join(&c, s.share.out_port, token, MIB),
		   -ECONNREFUSED);
	require_eq(c.refusal, MEMOPT_REFUSAL_TOKEN);
	share_client_close(&c);
	require_eq(join(&c, &s), 0);
}

static void malformed_hello_is_rejected(void)
{
	struct server s = server_share(MIB, RW);
	struct memopt_share_hello good, bad[3];
	const struct {
		const void *hello;
		size_t len;
	} cases[] = {
		{ NULL, 0 },
		{ &good, 4 }, /* ends before the protocol */
		{ &bad[0], sizeof(good) },
		{ &bad[1], sizeof(good) },
		{ &bad[2], sizeof(good) },
	};
	struct share_client c;

	share_hello_init(&good, s.share.out_token);
	bad[0] = bad[1] = bad[2] = good;
	bad[0].magic = good.magic ^ htobe32(1);
	bad[1].protocol = htobe16(MEMOPT_SHARE_PROTOCOL + 1);
	bad[2].__reserved = htobe16(1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require_eq(share_client_open(&c, s.share.out_port,
					     cases[i].hello, cases[i].len, MIB),
			   -ECONNREFUSED);
		require_eq(c.refusal, MEMOPT_REFUSAL_MALFORMED);
		share_client_close(&c);
	}
	require_eq(share_client_open(&c, s.share.out_port, &good, sizeof(good),
				     MIB), 0);
}

static void connections_are_bounded(void)
{
	struct server s = server_make(MIB);
	struct memopt_share_info info;
	struct share_client a, b, c;

	share_init(&s.share, s.buf.out_buf_id, RW, 0, MIB);
	s.share.max_connections = 2;
	require_eq(share_create(s.fd, &s.share), 0);
	require_eq(join(&a, &s), 0);
	require_eq(join(&b, &s), 0);
	require_eq(join(&c, &s), -ECONNREFUSED);
	require_eq(c.refusal, MEMOPT_REFUSAL_BUSY);
	share_client_close(&c);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require_eq(info.out_connections, 2);

	share_client_close(&a);
	require(eventually(!share_info(s.fd, s.share.out_share_id, &info) &&
			   info.out_connections == 1));
	require_eq(join(&c, &s), 0);
	require_eq(share_client_do(&b, IBV_WR_RDMA_READ, 0, 0, 4096),
		   IBV_WC_SUCCESS);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, 4096),
		   IBV_WC_SUCCESS);
}

static void single_use_token_admits_one(void)
{
	struct server s = server_make(MIB);
	struct memopt_share_info info;
	struct share_client a, b;

	share_init(&s.share, s.buf.out_buf_id, RW, 0, MIB);
	s.share.flags = MEMOPT_SHARE_F_SINGLE_USE;
	require_eq(share_create(s.fd, &s.share), 0);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require_eq(info.out_state, 0);
	require_eq(join(&a, &s), 0);
	require_eq(join(&b, &s), -ECONNREFUSED);
	require_eq(b.refusal, MEMOPT_REFUSAL_TOKEN);
	share_client_close(&b);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require_eq(info.out_state, MEMOPT_SHARE_STATE_CLOSED);
	require_eq(share_client_do(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096),
		   IBV_WC_SUCCESS);
	/* leaving does not give the token back */
	share_client_close(&a);
	require_eq(join(&b, &s), -ECONNREFUSED);
	require_eq(b.refusal, MEMOPT_REFUSAL_TOKEN);
}

static void token_expires(void)
{
	struct server s = server_make(MIB);
	struct memopt_share_info info;
	struct share_client a, b;

	share_init(&s.share, s.buf.out_buf_id, RW, 0, MIB);
	s.share.expires_ms = 5000;
	require_eq(share_create(s.fd, &s.share), 0);
	require_eq(join(&a, &s), 0);
	require(eventually(!share_info(s.fd, s.share.out_share_id, &info) &&
			   info.out_state & MEMOPT_SHARE_STATE_CLOSED));
	require_eq(join(&b, &s), -ECONNREFUSED);
	require_eq(b.refusal, MEMOPT_REFUSAL_TOKEN);
	require_eq(share_client_do(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096),
		   IBV_WC_SUCCESS);
}

static void counters_count(void)
{
	struct server s = server_share(2 * MIB, RW);
	unsigned char token[MEMOPT_TOKEN_SIZE] = { 0 };
	struct memopt_share_info info;
	struct share_client a, b;

	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require_eq(info.out_connections + info.out_accepted +
		   info.out_rejected, 0);
	require_eq(info.out_access, RW);
	require_eq(info.out_length, 2 * MIB);
	require_eq((uint64_t)info.out_entries * info.out_page_size, 2 * MIB);
	require_eq(strcmp(info.out_ibdev, RXE_DEV), 0);

	require_eq(join(&a, &s), 0);
	require_eq(share_client_join(&b, s.share.out_port, token, MIB),
		   -ECONNREFUSED);
	share_client_close(&b);
	require_eq(share_client_open(&b, s.share.out_port, NULL, 0, MIB),
		   -ECONNREFUSED);
	share_client_close(&b);
	require_eq(join(&b, &s), 0);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require_eq(info.out_connections, 2);
	require_eq(info.out_accepted, 2);
	require_eq(info.out_rejected, 2);
	share_client_close(&a);
	share_client_close(&b);
	require(eventually(!share_info(s.fd, s.share.out_share_id, &info) &&
			   !info.out_connections));
	require_eq(info.out_accepted, 2);
}

/* ---- what they reach ---- */

static void rights_hold(void)
{
	struct server ro = server_share(MIB, MEMOPT_ACCESS_REMOTE_READ);
	struct server wo = server_share(MIB, MEMOPT_ACCESS_LOCAL_WRITE |
					     MEMOPT_ACCESS_REMOTE_WRITE);
	struct share_client c;

	require_eq(join(&c, &ro), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, 4096),
		   IBV_WC_SUCCESS);
	require_eq(bytes_other_than(c.buf, 4096, FILL), 0);
	memset(c.buf, 0, MIB);
	require(refused(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB)));
	require(untouched(&ro));
	share_client_close(&c);

	require_eq(join(&c, &wo), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, 4096),
		   IBV_WC_SUCCESS);
	require_eq(bytes_other_than(wo.mem, 4096, 0), 0);
	require(refused(share_client_do(&c, IBV_WR_RDMA_READ, 0, 8192, 4096)));
	require_eq(bytes_other_than(c.buf, MIB, 0), 0);
}

static void bounds_hold(void)
{
	static const struct {
		uint64_t remote;
		uint32_t length;
	} outside[] = {
		{ -1ULL, 2 },
		{ -4096ULL, 4096 },
		{ MIB - 1, 2 },
		{ MIB, 1 },
		{ 4096, MIB },
		{ 2 * MIB, 4096 },
	};
	struct server s = server_make(4 * MIB);
	struct share_client c;

	memset(s.mem, FILL, 4 * MIB);
	share_init(&s.share, s.buf.out_buf_id, RW, MIB, MIB);
	require_eq(share_create(s.fd, &s.share), 0);
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		for (int write = 0; write < 2; write++) {
			require_eq(join(&c, &s), 0);
			require_eq(c.length, MIB);
			require(refused(share_client_do(&c, write ?
					IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 0,
					outside[i].remote, outside[i].length)));
			share_client_close(&c);
		}
	}
	/* an access over the end may have written inside, never outside */
	require_eq(bytes_other_than(s.mem, MIB, FILL), 0);
	require_eq(bytes_other_than(s.mem + 2 * MIB, 2 * MIB, FILL), 0);

	require_eq(join(&c, &s), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB),
		   IBV_WC_SUCCESS);
	require_eq(bytes_other_than(s.mem, MIB, FILL), 0);
	require_eq(bytes_other_than(s.mem + MIB, MIB, 0), 0);
	require_eq(bytes_other_than(s.mem + 2 * MIB, 2 * MIB, FILL), 0);
}

static void keys_stay_in_their_share(void)
{
	struct server a = server_share(MIB, RW), b = server_share(MIB, RW);
	struct share_client c;

	for (int write = 0; write < 2; write++) {
		require_eq(join(&c, &b), 0);
		/* A peer of b that learned a's key gains nothing. */
		c.rkey = a.share.out_rkey;
		c.iova = a.share.out_iova;
		require(refused(share_client_do(&c, write ? IBV_WR_RDMA_WRITE :
						IBV_WR_RDMA_READ, 0, 0, 4096)));
		share_client_close(&c);
	}
	require(untouched(&a));
	require(untouched(&b));
}

static void service_keys_are_out_of_reach(void)
{
	struct server s = server_share(MIB, RW);
	struct share_client c;
	struct memopt_mr_reg mr;

	require_eq(mr_reg(s.fd, s.buf.out_buf_id, RW, 0, MIB, &mr), 0);
	require_eq(join(&c, &s), 0);
	c.rkey = mr.out_rkey;
	c.iova = mr.out_iova;
	require(refused(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, 4096)));
	require(untouched(&s));
}

static void peers_can_not_invalidate(void)
{
	struct server a = server_share(MIB, RW), b = server_share(MIB, RW);
	struct share_client good, bad;
	struct ibv_wc wc;
	struct rdma_op op;

	require_eq(join(&good, &a), 0);
	for (int own = 0; own < 2; own++) {
		require_eq(join(&bad, own ? &a : &b), 0);
		op = (struct rdma_op) {
			.opcode = IBV_WR_SEND_WITH_INV,
			.local = bad.buf,
			.lkey = bad.mr->lkey,
			.length = 8,
			.rkey = a.share.out_rkey,
		};
		require_eq(rdma_post(bad.id->qp, &op), 0);
		/* It fails, or it waits for a receive that never comes. */
		if (!rdma_wait(bad.cq, 2000, &wc))
			require(wc.status != IBV_WC_SUCCESS);
		require_eq(share_client_do(&good, IBV_WR_RDMA_READ, 0, 0, 4096),
			   IBV_WC_SUCCESS);
		require_eq(bytes_other_than(good.buf, 4096, FILL), 0);
		share_client_close(&bad);
	}
}

static const struct ktap_test tests[] = {
	{ "a client process writes and reads 64 MiB at any offset",
	  bytes_go_both_ways },
	{ "the grant describes the share", grant_describes_share },
	{ "a wrong token is rejected", wrong_token_is_rejected },
	{ "a malformed hello is rejected", malformed_hello_is_rejected },
	{ "connections are bounded", connections_are_bounded },
	{ "a single-use token admits one", single_use_token_admits_one },
	{ "a token expires and connected peers stay", token_expires },
	{ "the counters of a share count", counters_count },
	{ "the rights of a share hold", rights_hold },
	{ "the bounds of a share hold", bounds_hold },
	{ "keys work in their own share only", keys_stay_in_their_share },
	{ "keys of MR_REG are out of reach for peers",
	  service_keys_are_out_of_reach },
	{ "peers can not invalidate a key", peers_can_not_invalidate },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
