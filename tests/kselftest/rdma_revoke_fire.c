// SPDX-License-Identifier: GPL-2.0
/*
 * Revoke under fire: a peer is in the middle of writing 64 MiB when the share
 * goes, and with it the buffer.  The next owner of the memory must not lose a
 * byte, whether the peer runs on or was stopped and continues later.
 *
 * Three processes: the server owns the share, the peer fires, and the test
 * itself is the next owner, who takes everything in the region.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)
#define SHARED (64 * MIB)

enum { SHOT = 0xab, ROUNDS = 4, OWNER_SEED = 77 };

enum ending { BY_DESTROY, BY_CLOSE, BY_KILL };

struct scene {
	enum ending ending;
	bool stop_peer;
	uint32_t chunk; /* bytes of one WRITE */
	unsigned int window; /* WRITEs under way */
};

/* ---- the server ---- */

/* Share, wait for a shot at @mark, end the share; then only hold still. */
static void server_process(int sock, const struct scene *scene, size_t mark)
{
	struct memopt_share_create share;
	struct memopt_buf_alloc buf;
	volatile unsigned char *mem;
	char byte;
	int fd = memopt_open();

	require(fd >= 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CMA, SHARED, 0, &buf), 0);
	mem = buf_map(fd, &buf);
	require(mem != NULL);
	share_init(&share, buf.out_buf_id, RW, 0, SHARED);
	require_eq(share_create(fd, &share), 0);
	require_eq(write(sock, &share, sizeof(share)), sizeof(share));
	require(eventually(mem[mark] == SHOT));
	/* The test stops the peer now, if that is the scene. */
	require_eq(write(sock, "m", 1), 1);
	require_eq(read(sock, &byte, 1), 1);
	if (scene->ending == BY_DESTROY) {
		require_eq(share_destroy(fd, share.out_share_id), 0);
		require_eq(munmap((void *)mem, SHARED), 0);
		require_eq(buf_free(fd, buf.out_buf_id), 0);
	} else if (scene->ending == BY_CLOSE) {
		require_eq(munmap((void *)mem, SHARED), 0);
		require_eq(close(fd), 0);
	} else {
		pause();
	}
	require_eq(write(sock, "e", 1), 1);
	require_eq(read(sock, &byte, 1), 1);
	_exit(0);
}

/* ---- the peer ---- */

/* Fire until something fails; the result is the first failure. */
static int fire(struct share_client *c, const struct scene *scene)
{
	unsigned int under_way = 0;
	uint64_t at = 0;
	struct ibv_wc wc;
	int ret;

	for (;;) {
		while (under_way < scene->window) {
			const struct rdma_op op = {
				.opcode = IBV_WR_RDMA_WRITE,
				.local = c->buf,
				.lkey = c->mr->lkey,
				.length = scene->chunk,
				.remote = c->iova + at,
				.rkey = c->rkey,
			};

			ret = rdma_post(c->id->qp, &op);
			if (ret)
				return ret;
			at = (at + scene->chunk) % SHARED;
			under_way++;
		}
		ret = rdma_wait(c->cq, RDMA_PATIENCE_MS, &wc);
		if (ret)
			return ret;
		if (wc.status != IBV_WC_SUCCESS)
			return (int)wc.status;
		under_way--;
	}
}

static void peer_process(int sock, const struct scene *scene)
{
	struct memopt_share_create share;
	struct share_client c;
	int ret;

	require_eq(read(sock, &share, sizeof(share)), sizeof(share));
	require_eq(share_client_join(&c, share.out_port, share.out_token,
				     scene->chunk), 0);
	memset(c.buf, SHOT, scene->chunk);
	ret = fire(&c, scene);
	/* What was posted after the failure is flushed; post once more. */
	rdma_post(c.id->qp, &(struct rdma_op) {
		.opcode = IBV_WR_RDMA_WRITE,
		.local = c.buf,
		.lkey = c.mr->lkey,
		.length = 4096,
		.remote = c.iova,
		.rkey = c.rkey,
	});
	require_eq(write(sock, &ret, sizeof(ret)), sizeof(ret));
	pause();
	_exit(0);
}

/* ---- the next owner ---- */

static void expect_byte(int sock, char want)
{
	char got = 0;

	require_eq(read(sock, &got, 1), 1);
	require_eq(got, want);
}

static void peer_stop(pid_t peer)
{
	int status;

	require_eq(kill(peer, SIGSTOP), 0);
	require_eq(waitpid(peer, &status, WUNTRACED), peer);
	require(WIFSTOPPED(status));
}

static void play_round(const struct scene *scene, size_t mark)
{
	struct memopt_share_create share;
	struct memopt_region_info region;
	int server_sock[2], peer_sock[2], status, fd = memopt_open();
	pid_t server, peer;
	struct hoard hoard;

	require(fd >= 0);
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CMA), 0);
	require_eq(region_find(fd, MEMOPT_KIND_CMA, &region), 0);
	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, server_sock), 0);
	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, peer_sock), 0);
	server = fork();
	if (!server)
		server_process(server_sock[1], scene, mark);
	require(server > 0);
	peer = fork();
	if (!peer)
		peer_process(peer_sock[1], scene);
	require(peer > 0);
	close(server_sock[1]);
	close(peer_sock[1]);

	require_eq(read(server_sock[0], &share, sizeof(share)), sizeof(share));
	require_eq(write(peer_sock[0], &share, sizeof(share)), sizeof(share));
	expect_byte(server_sock[0], 'm');
	if (scene->stop_peer)
		peer_stop(peer);
	require_eq(write(server_sock[0], "g", 1), 1);
	if (scene->ending == BY_KILL)
		kill_child(server);
	else
		expect_byte(server_sock[0], 'e');

	/* Before the dead share's memory has had time to rest. */
	require_eq(hoard_take(&hoard, MEMOPT_KIND_CMA), 0);
	require_eq(hoard_dirty(&hoard), 0);
	hoard_fill(&hoard, OWNER_SEED);
	require_eq(hoard.bytes, region.out_total);
	require_eq(hoard_wrong(&hoard, OWNER_SEED), 0);
	if (scene->stop_peer)
		require_eq(kill(peer, SIGCONT), 0);

	/* The peer must come to see its failure; nobody else sees anything. */
	require_eq(read(peer_sock[0], &status, sizeof(status)),
		   sizeof(status));
	require(status > IBV_WC_SUCCESS);
	for (int look = 0; look < 4; look++) {
		require_eq(hoard_wrong(&hoard, OWNER_SEED), 0);
		usleep(250000);
	}
	kill_child(peer);
	require_eq(hoard_wrong(&hoard, OWNER_SEED), 0);
	hoard_release(&hoard);
	if (scene->ending != BY_KILL) {
		require_eq(write(server_sock[0], "x", 1), 1);
		require_eq(wait_child(server, RDMA_PATIENCE_MS), 0);
	}
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CMA), 0);
	close(fd);
	close(server_sock[0]);
	close(peer_sock[0]);
}

static void play(const struct scene *scene)
{
	srandom((unsigned int)(scene->chunk + scene->ending));
	for (int round = 0; round < ROUNDS; round++) {
		/* somewhere in the middle, at the end of some packet's page */
		size_t mark = 4 * MIB + (size_t)random() % (48 * MIB);

		play_round(scene, mark);
	}
}

static void destroy_under_fire(void)
{
	play(&(struct scene) { .ending = BY_DESTROY, .chunk = MIB,
			       .window = 16 });
}

static void destroy_under_one_big_write(void)
{
	play(&(struct scene) { .ending = BY_DESTROY, .chunk = SHARED,
			       .window = 1 });
}

static void destroy_while_peer_is_stopped(void)
{
	play(&(struct scene) { .ending = BY_DESTROY, .chunk = 4 * MIB,
			       .window = 4, .stop_peer = true });
}

static void close_under_fire(void)
{
	play(&(struct scene) { .ending = BY_CLOSE, .chunk = 2 * MIB,
			       .window = 8 });
}

static void kill_server_under_fire(void)
{
	play(&(struct scene) { .ending = BY_KILL, .chunk = 2 * MIB,
			       .window = 8 });
}

static void kill_server_while_peer_is_stopped(void)
{
	play(&(struct scene) { .ending = BY_KILL, .chunk = SHARED, .window = 1,
			       .stop_peer = true });
}

static const struct ktap_test tests[] = {
	{ "SHARE_DESTROY under many WRITEs", destroy_under_fire },
	{ "SHARE_DESTROY under one WRITE of 64 MiB",
	  destroy_under_one_big_write },
	{ "SHARE_DESTROY while the peer is stopped half-way",
	  destroy_while_peer_is_stopped },
	{ "closing the file under fire", close_under_fire },
	{ "kill -9 of the server under fire", kill_server_under_fire },
	{ "kill -9 of the server while the peer is stopped",
	  kill_server_while_peer_is_stopped },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
