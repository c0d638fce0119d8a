// SPDX-License-Identifier: GPL-2.0
/*
 * Load: processes that allocate, map, register, share and free, most of them
 * killed somewhere on the way.  Nothing of it may stay behind: all memory is free
 * again, and the module goes and comes back.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)

enum {
	WORKERS = 4,
	CYCLES = 25,
	STAGES = 9,		/* calls of reached() in one cycle */
	RUN_TO_END = STAGES + 1	/* a target no cycle reaches */
};

/* How far the cycle of a worker is; both processes look at it. */
struct progress {
	volatile int stage;
};

static void reached(struct progress *p)
{
	p->stage++;
}

/* Other processes' memory may still be on its way back. */
static int alloc_patiently(int fd, uint32_t kind, uint64_t length,
			   struct memopt_buf_alloc *buf)
{
	int ret = -ENOMEM;

	for (int tries = 0; tries < 1000 && ret == -ENOMEM; tries++) {
		if (tries)
			usleep(10000);
		ret = buf_alloc(fd, kind, length, 0, buf);
	}
	return ret;
}

static struct ibv_mr *register_or_refuse(const struct rdma_end *end, void *mem,
					 uint64_t length, uint32_t kind)
{
	struct ibv_mr *mr = ibv_reg_mr(end->pd, mem, length,
				       IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_WRITE);

	if (kind == MEMOPT_KIND_CONTIG)
		require(mr != NULL);
	else
		require(!mr && errno == EFAULT);
	return mr;
}

/* One life of a buffer; may end at any instruction. */
static void cycle(struct progress *p, uint32_t kind, uint64_t length)
{
	struct memopt_share_create share;
	struct memopt_buf_alloc buf;
	struct memopt_mr_reg kernel_mr;
	struct share_client client;
	struct ibv_mr *user_mr;
	struct rdma_end end;
	void *mem;
	int fd = memopt_open();

	require(fd >= 0);
	require_eq(alloc_patiently(fd, kind, length, &buf), 0);
	reached(p);
	mem = buf_map(fd, &buf);
	require(mem != NULL);
	require_eq(bytes_other_than(mem, 4096, 0), 0);
	memset(mem, 0xc3, length);
	reached(p);
	require_eq(rdma_end_open(&end), 0);
	user_mr = register_or_refuse(&end, mem, length, kind);
	reached(p);
	require_eq(mr_reg(fd, buf.out_buf_id, RW, 0, length, &kernel_mr), 0);
	reached(p);
	share_init(&share, buf.out_buf_id, RW, 0, length);
	require_eq(share_create(fd, &share), 0);
	reached(p);
	require_eq(share_client_join(&client, share.out_port, share.out_token,
				     length), 0);
	reached(p);
	require_eq(share_client_do(&client, IBV_WR_RDMA_WRITE, 0, 0,
				   (uint32_t)length), IBV_WC_SUCCESS);
	require_eq(bytes_other_than(mem, length, 0), 0);
	reached(p);
	share_client_close(&client);
	require_eq(share_destroy(fd, share.out_share_id), 0);
	require_eq(mr_dereg(fd, kernel_mr.out_mr_id), 0);
	reached(p);
	if (user_mr)
		require_eq(ibv_dereg_mr(user_mr), 0);
	rdma_end_close(&end);
	require_eq(munmap(mem, length), 0);
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	reached(p);
	close(fd);
	_exit(0);
}

/* Run one cycle and kill it once it is at the stage drawn for it. */
static void run_cycle(struct progress *p)
{
	static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };
	uint32_t kind = kinds[random() % 2];
	uint64_t length = 4096 * (1 + (uint64_t)random() % 512);
	int target = (int)(random() % (RUN_TO_END + 1));
	pid_t pid;

	p->stage = 0;
	pid = fork();
	require(pid >= 0);
	if (!pid)
		cycle(p, kind, length);
	while (p->stage < target && !child_ended(pid))
		usleep(200);
	if (p->stage < target) {
		/* The end was drawn, or a check of the cycle failed. */
		require_eq(wait_child(pid, RDMA_PATIENCE_MS), 0);
		return;
	}
	usleep((useconds_t)(random() % 3000));
	kill_child(pid);
}

static void worker(unsigned int seed)
{
	struct progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	require(p != MAP_FAILED);
	srandom(seed);
	for (int n = 0; n < CYCLES; n++)
		run_cycle(p);
	_exit(0);
}

static void run_workers(void)
{
	pid_t pids[WORKERS];

	for (unsigned int i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		require(pids[i] >= 0);
		if (!pids[i])
			worker(100 + i);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		require_eq(wait_child(pids[i], 8 * RDMA_PATIENCE_MS), 0);
}

/* Free equals total for both kinds, and every free byte is zero. */
static void require_pristine(void)
{
	static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };
	struct memopt_region_info region;
	int fd = memopt_open();

	require(fd >= 0);
	for (size_t i = 0; i < 2; i++) {
		struct hoard hoard;

		require_eq(region_wait_idle(fd, kinds[i]), 0);
		require_eq(region_find(fd, kinds[i], &region), 0);
		require_eq(region.out_used + region.out_quarantined +
			   region.out_dirty, 0);
		require_eq(region.out_largest_free, region.out_total);
		require_eq(hoard_take(&hoard, kinds[i]), 0);
		require_eq(hoard.bytes, region.out_total);
		require_eq(hoard_dirty(&hoard), 0);
		hoard_release(&hoard);
		require_eq(region_wait_idle(fd, kinds[i]), 0);
	}
	close(fd);
}

static void killed_processes_leave_nothing(void)
{
	run_workers();
	require_pristine();
}

static void module_goes_and_comes_back(void)
{
	if (!module_file())
		ktap_skip("no module to load again");
	require_pristine();
	require_eq(module_unload(), 0);
	require_eq(access(MEMOPT_DEVICE, F_OK), -1);
	require_eq(module_load(NULL), 0);
	require_pristine();
}

static void module_stays_while_used(void)
{
	struct memopt_share_create share;
	struct memopt_buf_alloc buf;
	struct share_client c;
	int fd = memopt_open();

	require(fd >= 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CMA, MIB, 0, &buf), 0);
	share_init(&share, buf.out_buf_id, RW, 0, MIB);
	require_eq(share_create(fd, &share), 0);
	require_eq(share_client_join(&c, share.out_port, share.out_token, MIB),
		   0);
	require(module_unload() != 0);
	require_eq(share_client_do(&c, IBV_WR_RDMA_READ, 0, 0, MIB),
		   IBV_WC_SUCCESS);
	share_client_close(&c);
	close(fd);
}

/* Unload with the peer of a dead share still there. */
static void module_goes_under_a_peer(void)
{
	struct memopt_share_create share;
	struct memopt_buf_alloc buf;
	struct share_client c;
	int fd = memopt_open();

	if (!module_file())
		ktap_skip("no module to load again");
	require(fd >= 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CMA, MIB, 0, &buf), 0);
	share_init(&share, buf.out_buf_id, RW, 0, MIB);
	require_eq(share_create(fd, &share), 0);
	require_eq(share_client_join(&c, share.out_port, share.out_token, MIB),
		   0);
	close(fd);
	require_eq(module_unload(), 0);
	require(share_client_do(&c, IBV_WR_RDMA_WRITE, 0, 0, MIB) >
		IBV_WC_SUCCESS);
	share_client_close(&c);
	require_eq(module_load(NULL), 0);
}

static const struct ktap_test tests[] = {
	{ "killed processes leave nothing behind",
	  killed_processes_leave_nothing },
	{ "the module stays while a share is used", module_stays_while_used },
	{ "the module goes and comes back", module_goes_and_comes_back },
	{ "the module goes under a peer of a dead share",
	  module_goes_under_a_peer },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
