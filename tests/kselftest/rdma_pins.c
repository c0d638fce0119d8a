// SPDX-License-Identifier: GPL-2.0
/*
 * Pins outlive buffers.  A user MR pins pages that no object of the module knows
 * of; as long as it exists, its pages must go to nobody else, however the buffer
 * ended and whoever holds the MR.
 *
 * In each test a holder process registers a buffer and gives everything up but
 * the MR.  The test itself is the next owner, who takes all that is free, and
 * the peer, who goes on writing through the old key.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define HELD (16 * MIB)

enum { OWNER_SEED = 1000, PEER_SEED = 2000 };

/* What the holder tells the peer. */
struct key {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
};

struct holder {
	int fd;
	struct memopt_buf_alloc buf;
	void *mem;
	struct rdma_end end;
	struct ibv_mr *mr;
};

/* The next owner and the peer. */
struct rival {
	int fd;
	int sock;
	struct key key;
	struct rdma_end end;
	struct ibv_mr *mr;
	void *local;
	struct hoard hoard;
};

/* ---- the holder's side ---- */

static void holder_alloc(struct holder *h)
{
	h->fd = memopt_open();
	require(h->fd >= 0);
	require_eq(buf_alloc(h->fd, MEMOPT_KIND_CONTIG, HELD, 0, &h->buf), 0);
}

static void holder_register(struct holder *h)
{
	h->mem = buf_map(h->fd, &h->buf);
	require(h->mem != NULL);
	require_eq(rdma_end_open(&h->end), 0);
	h->mr = ibv_reg_mr(h->end.pd, h->mem, HELD, IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	require(h->mr != NULL);
}

/* Tell the key, get connected, and see one WRITE arrive. */
static void holder_meet(struct holder *h, int sock)
{
	const struct key key = {
		.qpn = h->end.qp->qp_num,
		.rkey = h->mr->rkey,
		.addr = (uintptr_t)h->mem,
	};
	uint32_t qpn;

	require_eq(write(sock, &key, sizeof(key)), sizeof(key));
	require_eq(read(sock, &qpn, sizeof(qpn)), sizeof(qpn));
	require_eq(rdma_end_connect(&h->end, qpn), 0);
	require_eq(write(sock, "c", 1), 1);
	require_eq(read(sock, &qpn, 1), 1);
	require_eq(pattern_wrong(h->mem, HELD, PEER_SEED), 0);
}

/* Everything but the MR. */
static void holder_give_up_buffer(struct holder *h)
{
	require_eq(munmap(h->mem, HELD), 0);
	require_eq(buf_free(h->fd, h->buf.out_buf_id), 0);
	require_eq(close(h->fd), 0);
}

static void tell(int sock)
{
	require_eq(write(sock, "!", 1), 1);
}

static void await(int sock)
{
	char byte;

	require_eq(read(sock, &byte, 1), 1);
}

/* ---- the rival's side ---- */

/*
 * Start a holder; its checks count as the test's, since it must exit with 0.
 * It dies with the test rather than keep the memory from the next one.
 */
static pid_t holder_start(struct rival *r, void (*body)(int sock))
{
	int sock[2];
	pid_t pid;

	memset(r, 0, sizeof(*r));
	r->fd = memopt_open();
	require(r->fd >= 0);
	require_eq(region_wait_idle(r->fd, MEMOPT_KIND_CONTIG), 0);
	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	pid = fork();
	require(pid >= 0);
	if (!pid) {
		close(r->fd);
		close(sock[0]);
		body(sock[1]);
		_exit(0);
	}
	close(sock[1]);
	r->sock = sock[0];
	return pid;
}

/* Write all of the held range through the old key. */
static void rival_write(struct rival *r, uint64_t seed)
{
	pattern_fill(r->local, HELD, seed);
	for (size_t at = 0; at < HELD; at += MIB) {
		const struct rdma_op op = {
			.opcode = IBV_WR_RDMA_WRITE,
			.local = (char *)r->local + at,
			.lkey = r->mr->lkey,
			.length = MIB,
			.remote = r->key.addr + at,
			.rkey = r->key.rkey,
		};

		require_eq(rdma_do(r->end.qp, r->end.cq, &op), IBV_WC_SUCCESS);
	}
}

static void rival_meet(struct rival *r)
{
	require_eq(read(r->sock, &r->key, sizeof(r->key)), sizeof(r->key));
	require_eq(rdma_end_open(&r->end), 0);
	r->local = mmap(NULL, HELD, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(r->local != MAP_FAILED);
	r->mr = ibv_reg_mr(r->end.pd, r->local, HELD, IBV_ACCESS_LOCAL_WRITE);
	require(r->mr != NULL);
	require_eq(write(r->sock, &r->end.qp->qp_num, sizeof(uint32_t)),
		   sizeof(uint32_t));
	await(r->sock);
	require_eq(rdma_end_connect(&r->end, r->key.qpn), 0);
	/* The key works: else nothing below would mean anything. */
	rival_write(r, PEER_SEED);
	tell(r->sock);
}

/* The holder has given up its buffer: take the rest and write on. */
static void rival_take_over(struct rival *r)
{
	struct memopt_region_info region;

	require_eq(hoard_take(&r->hoard, MEMOPT_KIND_CONTIG), 0);
	require(eventually(!region_find(r->fd, MEMOPT_KIND_CONTIG, &region) &&
			   region.out_quarantined == HELD));
	require_eq(region.out_free, 0);
	require_eq(r->hoard.bytes, region.out_total - HELD);
	hoard_fill(&r->hoard, OWNER_SEED);
	rival_write(r, PEER_SEED + 1);
	require_eq(hoard_wrong(&r->hoard, OWNER_SEED), 0);
}

/* The MR is gone: the memory comes back, zeroed. */
static void rival_recover(struct rival *r)
{
	require_eq(hoard_wrong(&r->hoard, OWNER_SEED), 0);
	hoard_release(&r->hoard);
	require_eq(region_wait_idle(r->fd, MEMOPT_KIND_CONTIG), 0);
	require_eq(hoard_take(&r->hoard, MEMOPT_KIND_CONTIG), 0);
	require_eq(hoard_dirty(&r->hoard), 0);
	hoard_release(&r->hoard);
}

/* ---- the tests ---- */

/* Give up the buffer, and the MR only when told to. */
static void holder_outlive_buffer(struct holder *h, int sock)
{
	holder_register(h);
	holder_meet(h, sock);
	holder_give_up_buffer(h);
	tell(sock);
	await(sock);
	require_eq(ibv_dereg_mr(h->mr), 0);
	tell(sock);
	await(sock);
}

static void hold_then_dereg(int sock)
{
	struct holder h;

	holder_alloc(&h);
	holder_outlive_buffer(&h, sock);
}

/* The memory is back when the holder deregisters, and not before. */
static void dereg_gives_memory_back(void (*hold)(int sock))
{
	struct rival r;
	pid_t pid = holder_start(&r, hold);

	rival_meet(&r);
	await(r.sock);
	rival_take_over(&r);
	tell(r.sock);
	await(r.sock);
	rival_recover(&r);
	tell(r.sock);
	require_eq(wait_child(pid, RDMA_PATIENCE_MS), 0);
}

static void mr_survives_buffer(void)
{
	dereg_gives_memory_back(hold_then_dereg);
}

static void hold_until_killed(int sock)
{
	struct holder h;

	holder_alloc(&h);
	holder_register(&h);
	holder_meet(&h, sock);
	holder_give_up_buffer(&h);
	tell(sock);
	pause();
}

static void killed_holder_gives_memory_back(void)
{
	struct rival r;
	pid_t pid = holder_start(&r, hold_until_killed);

	rival_meet(&r);
	await(r.sock);
	rival_take_over(&r);
	kill_child(pid);
	rival_recover(&r);
}

/* The buffer comes from a process that is gone before it is registered. */
static void hold_passed_file(int sock)
{
	struct holder h;
	int pass[2];
	pid_t giver;

	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pass), 0);
	giver = fork();
	require(giver >= 0);
	if (!giver) {
		holder_alloc(&h);
		require_eq(write(pass[1], &h.buf, sizeof(h.buf)),
			   sizeof(h.buf));
		require_eq(send_fd(pass[1], h.fd), 0);
		_exit(0);
	}
	require_eq(read(pass[0], &h.buf, sizeof(h.buf)), sizeof(h.buf));
	h.fd = recv_fd(pass[0]);
	require(h.fd >= 0);
	require_eq(wait_child(giver, RDMA_PATIENCE_MS), 0);
	holder_outlive_buffer(&h, sock);
}

static void mr_of_passed_file_survives(void)
{
	dereg_gives_memory_back(hold_passed_file);
}

/* Pass the verbs context away and wait for the end. */
static void hold_and_pass_verbs(int sock)
{
	struct holder h;

	holder_alloc(&h);
	holder_register(&h);
	holder_meet(&h, sock);
	holder_give_up_buffer(&h);
	require_eq(send_fd(sock, h.end.ctx->cmd_fd), 0);
	pause();
}

static void mr_in_passed_context_survives_kill(void)
{
	struct rival r;
	pid_t pid = holder_start(&r, hold_and_pass_verbs);
	int verbs;

	rival_meet(&r);
	verbs = recv_fd(r.sock);
	require(verbs >= 0);
	kill_child(pid);
	rival_take_over(&r);
	require_eq(close(verbs), 0);
	rival_recover(&r);
}

/*
 * Fork with a live MR; the parent goes, the child keeps the file for a while and
 * the verbs context until it is told to end.
 */
static void hold_across_fork(int sock)
{
	struct holder h;
	pid_t pid;

	holder_alloc(&h);
	holder_register(&h);
	holder_meet(&h, sock);
	pid = fork();
	require(pid >= 0);
	if (pid)
		_exit(0);
	await(sock);
	/* A child does not inherit the mapping, but can map the file it has. */
	h.mem = buf_map(h.fd, &h.buf);
	require(h.mem != NULL);
	require_eq(pattern_wrong(h.mem, HELD, PEER_SEED), 0);
	require_eq(munmap(h.mem, HELD), 0);
	require_eq(close(h.fd), 0);
	tell(sock);
	await(sock);
}

static void mr_survives_fork_and_parent(void)
{
	struct memopt_region_info region;
	struct rival r;
	pid_t pid = holder_start(&r, hold_across_fork);

	rival_meet(&r);
	require_eq(wait_child(pid, RDMA_PATIENCE_MS), 0);
	/* the child has the file, so it is neither free nor in quarantine */
	require_eq(region_find(r.fd, MEMOPT_KIND_CONTIG, &region), 0);
	require_eq(region.out_used, HELD);
	require_eq(region.out_quarantined, 0);
	tell(r.sock);
	await(r.sock);
	rival_take_over(&r);
	tell(r.sock);
	rival_recover(&r);
}

/* Two MRs over one range: the first to go does not free the memory. */
static void hold_twice(int sock)
{
	struct ibv_mr *second;
	struct holder h;

	holder_alloc(&h);
	holder_register(&h);
	second = ibv_reg_mr(h.end.pd, (char *)h.mem + HELD - 4096, 4096,
			    IBV_ACCESS_LOCAL_WRITE);
	require(second != NULL);
	holder_meet(&h, sock);
	holder_give_up_buffer(&h);
	tell(sock);
	await(sock);
	require_eq(ibv_dereg_mr(h.mr), 0);
	tell(sock);
	await(sock);
	require_eq(ibv_dereg_mr(second), 0);
	tell(sock);
	await(sock);
}

static void last_of_two_mrs_counts(void)
{
	struct memopt_region_info region;
	struct rival r;
	pid_t pid = holder_start(&r, hold_twice);

	rival_meet(&r);
	await(r.sock);
	rival_take_over(&r);
	tell(r.sock);
	await(r.sock);
	/* A page of it is pinned, and the worker had its chance to look. */
	sleep(3);
	require_eq(region_find(r.fd, MEMOPT_KIND_CONTIG, &region), 0);
	require(region.out_quarantined >= 4096);
	require(region.out_quarantined + region.out_free + region.out_dirty ==
		HELD);
	require_eq(hoard_wrong(&r.hoard, OWNER_SEED), 0);
	tell(r.sock);
	await(r.sock);
	rival_recover(&r);
	tell(r.sock);
	require_eq(wait_child(pid, RDMA_PATIENCE_MS), 0);
}

static const struct ktap_test tests[] = {
	{ "an MR outlives buffer, mapping and file", mr_survives_buffer },
	{ "kill -9 of the holder gives the memory back",
	  killed_holder_gives_memory_back },
	{ "an MR made through a passed file outlives the file",
	  mr_of_passed_file_survives },
	{ "an MR in a passed verbs context outlives its maker",
	  mr_in_passed_context_survives_kill },
	{ "an MR outlives fork and the parent", mr_survives_fork_and_parent },
	{ "the last of two MRs frees the memory", last_of_two_mrs_counts },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
