// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a share, by whatever cause: no peer reaches a byte any more, and the
 * memory goes to its next owner clean.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "rdma_share.h"

static void destroy_revokes(void)
{
	struct server s = server_share(4 * MIB, RW);
	struct memopt_share_info info;
	struct share_client a, b, c;

	require_eq(join(&a, &s), 0);
	require_eq(join(&b, &s), 0);
	require_eq(share_client_do(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096),
		   IBV_WC_SUCCESS);
	memset(s.mem, FILL, 4096);
	require_eq(share_destroy(s.fd, s.share.out_share_id), 0);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), -ENOENT);
	require_eq(share_destroy(s.fd, s.share.out_share_id), -ENOENT);

	require(failed(share_client_do(&a, IBV_WR_RDMA_WRITE, 0, 0, MIB)));
	require(failed(share_client_do(&b, IBV_WR_RDMA_READ, 0, 0, MIB)));
	require(untouched(&s));
	require_eq(bytes_other_than(b.buf, MIB, 0), 0);
	require(join(&c, &s) != 0);
	require(!c.granted);
	share_client_close(&c);

	/* The key does not come back to life with a new share. */
	require_eq(share_create(s.fd, &s.share), 0);
	require(s.share.out_rkey != a.rkey);
	require(s.share.out_iova != a.iova);
	require_eq(join(&c, &s), 0);
	c.rkey = a.rkey;
	c.iova = a.iova;
	require(refused(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB)));
	require(untouched(&s));
}

/* Serve until killed; tell the parent where. */
static void doomed_server(int out)
{
	struct server s = server_share(8 * MIB, RW);

	require_eq(write(out, &s.share, sizeof(s.share)), sizeof(s.share));
	pause();
	_exit(0);
}

static void killing_the_server_revokes(void)
{
	struct memopt_share_create share;
	struct share_client c, late;
	struct hoard hoard;
	int fds[2], fd = memopt_open();
	pid_t pid;

	require(fd >= 0);
	require_eq(pipe(fds), 0);
	pid = fork();
	require(pid >= 0);
	if (!pid)
		doomed_server(fds[1]);
	require_eq(read(fds[0], &share, sizeof(share)), sizeof(share));
	require_eq(share_client_join(&c, share.out_port, share.out_token, MIB),
		   0);
	memset(c.buf, 0xee, MIB);
	require_eq(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB),
		   IBV_WC_SUCCESS);
	kill_child(pid);

	/* All of its memory is free again, and the next owner's alone. */
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CMA), 0);
	require_eq(hoard_take(&hoard, MEMOPT_KIND_CMA), 0);
	require_eq(hoard_dirty(&hoard), 0);
	require(failed(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB)));
	require_eq(hoard_dirty(&hoard), 0);
	require(share_client_join(&late, share.out_port, share.out_token,
				  MIB) != 0);
	hoard_release(&hoard);
}

static void share_keeps_freed_buffer(void)
{
	struct server s = server_share(4 * MIB, RW);
	struct share_client c;

	require_eq(munmap(s.mem, 4 * MIB), 0);
	require_eq(buf_free(s.fd, s.buf.out_buf_id), 0);
	require_eq(join(&c, &s), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, MIB),
		   IBV_WC_SUCCESS);
	require_eq(bytes_other_than(c.buf, MIB, FILL), 0);
	require_eq(share_destroy(s.fd, s.share.out_share_id), 0);
	require_eq(region_wait_idle(s.fd, MEMOPT_KIND_CMA), 0);
}

static void device_removal_ends_share(void)
{
	struct server s = server_share(4 * MIB, RW);
	struct memopt_share_info info;
	struct share_client c;

	require_eq(join(&c, &s), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, MIB),
		   IBV_WC_SUCCESS);
	share_client_close(&c);
	require_eq(rxe_remove(), 0);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require(info.out_state & MEMOPT_SHARE_STATE_DEVICE_GONE);
	require_eq(info.out_connections, 0);

	require_eq(rxe_restore(), 0);
	require_eq(share_destroy(s.fd, s.share.out_share_id), 0);
	require(untouched(&s));
	require_eq(share_create(s.fd, &s.share), 0);
	require_eq(join(&c, &s), 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, MIB),
		   IBV_WC_SUCCESS);
}

/* A client that stays connected in a process of its own. */
static void device_removal_with_a_peer(void)
{
	struct server s = server_share(4 * MIB, RW);
	struct memopt_share_info info;
	struct share_client c;
	pid_t pid = fork();

	require(pid >= 0);
	if (!pid) {
		if (join(&c, &s))
			_exit(1);
		pause();
		_exit(0);
	}
	require(eventually(!share_info(s.fd, s.share.out_share_id, &info) &&
			   info.out_connections == 1));
	require_eq(rxe_remove(), 0);
	require_eq(share_info(s.fd, s.share.out_share_id, &info), 0);
	require(info.out_state & MEMOPT_SHARE_STATE_DEVICE_GONE);
	require_eq(info.out_connections, 0);
	kill_child(pid);
	close(s.fd);
	require_eq(rxe_restore(), 0);
}

static const struct ktap_test tests[] = {
	{ "SHARE_DESTROY revokes", destroy_revokes },
	{ "kill -9 of the server revokes", killing_the_server_revokes },
	{ "a share keeps the memory of a freed buffer",
	  share_keeps_freed_buffer },
	{ "removing the device ends the share", device_removal_ends_share },
	{ "removing the device does not wait for a peer",
	  device_removal_with_a_peer },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
