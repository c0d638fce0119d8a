// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of our mappings by programs that know nothing of us: CMA memory
 * is refused at once, never pinned in an endless loop, and contig memory works,
 * for ibv_reg_mr as well as for perftest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define LENGTH (8 * MIB)

/* Exit status of the registering child. */
enum { REG_WORKED = 0, REG_NO_SETUP = 1, REG_ERRNO_BASE = 10 };

enum touch { UNTOUCHED, TOUCHED };

static void *mapped(int fd, const struct memopt_buf_alloc *buf)
{
	void *mem = buf_map(fd, buf);

	require(mem != NULL);
	return mem;
}

/* A child does not inherit our mappings, so it makes its own. */
static void register_and_exit(int fd, const struct memopt_buf_alloc *buf,
			      size_t offset, size_t len, enum touch touch)
{
	char *mem = mapped(fd, buf);
	struct rdma_end end;
	struct ibv_mr *mr;

	if (rdma_end_open(&end))
		_exit(REG_NO_SETUP);
	if (touch == TOUCHED)
		memset(mem, 1, buf->out_length);
	mr = ibv_reg_mr(end.pd, mem + offset, len, IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_REMOTE_WRITE);
	_exit(mr ? REG_WORKED : REG_ERRNO_BASE + errno);
}

/*
 * Register in a process of its own: a kernel that would loop there can only be
 * stopped by a signal, and this test wants to say so.
 */
static int try_register(int fd, const struct memopt_buf_alloc *buf,
			size_t offset, size_t len, enum touch touch)
{
	pid_t pid = fork();

	require(pid >= 0);
	if (!pid)
		register_and_exit(fd, buf, offset, len, touch);
	return wait_child(pid, 20000);
}

static void register_all_ways(uint32_t kind, int result)
{
	struct memopt_buf_alloc buf;
	int fd = memopt_open();

	require_eq(buf_alloc(fd, kind, LENGTH, 0, &buf), 0);
	require_eq(try_register(fd, &buf, 0, LENGTH, UNTOUCHED), result);
	require_eq(try_register(fd, &buf, 0, LENGTH, TOUCHED), result);
	require_eq(try_register(fd, &buf, 4096, 4096, UNTOUCHED), result);
	require_eq(bytes_other_than(mapped(fd, &buf), LENGTH, 1), 0);
}

static void cma_mapping_is_refused(void)
{
	register_all_ways(MEMOPT_KIND_CMA, REG_ERRNO_BASE + EFAULT);
}

static void contig_mapping_registers(void)
{
	register_all_ways(MEMOPT_KIND_CONTIG, REG_WORKED);
}

static void registered_contig_bytes_move(void)
{
	int fd = memopt_open();
	struct memopt_buf_alloc buf;
	struct rdma_end near, far;
	struct ibv_mr *mr;
	struct rdma_op op = { .opcode = IBV_WR_RDMA_WRITE, .length = MIB };
	char *mem;

	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, LENGTH, 0, &buf), 0);
	mem = mapped(fd, &buf);

	require_eq(rdma_end_open(&near), 0);
	require_eq(rdma_end_open_beside(&far, &near), 0);
	require_eq(rdma_end_connect(&near, far.qp->qp_num), 0);
	require_eq(rdma_end_connect(&far, near.qp->qp_num), 0);
	mr = ibv_reg_mr(near.pd, mem, LENGTH, IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	require(mr != NULL);

	/* Within one buffer, from an odd place to another one. */
	pattern_fill(mem + 512, MIB, 5);
	op.local = mem + 512;
	op.lkey = mr->lkey;
	op.remote = (uintptr_t)mem + 5 * MIB + 3 * 8;
	op.rkey = mr->rkey;
	require_eq(rdma_do(near.qp, near.cq, &op), IBV_WC_SUCCESS);
	require_eq(pattern_wrong(mem + 5 * MIB + 3 * 8, MIB, 5), 0);
	require_eq(bytes_other_than(mem + 2 * MIB, 3 * MIB + 3 * 8, 0), 0);
	require_eq(bytes_other_than(mem + 6 * MIB + 3 * 8,
				    2 * MIB - 3 * 8, 0), 0);
	op.opcode = IBV_WR_RDMA_READ;
	op.local = mem + 3 * MIB;
	require_eq(rdma_do(near.qp, near.cq, &op), IBV_WC_SUCCESS);
	require_eq(pattern_wrong(mem + 3 * MIB, MIB, 5), 0);
	require_eq(ibv_dereg_mr(mr), 0);
	rdma_end_close(&far);
	rdma_end_close(&near);
}

/* ---- perftest ---- */

static const char *const perftest_common[] = {
	"ib_write_bw", "-d", RXE_DEV, "-x", "1", "-s", "65536", "-n", "20",
	"-F", "--mmap=/dev/" MEMOPT_DEVICE_NAME,
};

static pid_t start_perftest(const char *server)
{
	const size_t common = sizeof(perftest_common) / sizeof(char *);
	char *argv[sizeof(perftest_common) / sizeof(char *) + 2];
	pid_t pid;

	memcpy(argv, perftest_common, sizeof(perftest_common));
	argv[common] = (char *)server;
	argv[common + 1] = NULL;
	pid = fork();
	require(pid >= 0);
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

/* Is something listening on perftest's TCP port? */
static bool server_listens(void)
{
	FILE *table = fopen("/proc/net/tcp", "r");
	char line[256];
	bool found = false;

	/* 0x4853 is 18515; 0A is LISTEN */
	while (table && fgets(line, sizeof(line), table))
		found = found || strstr(line, ":4853 00000000:0000 0A");
	if (table)
		fclose(table);
	table = fopen("/proc/net/tcp6", "r");
	while (table && fgets(line, sizeof(line), table))
		found = found || (strstr(line, ":4853 ") &&
				  strstr(line, ":0000 0A "));
	if (table)
		fclose(table);
	return found;
}

static bool perftest_can_mmap(void)
{
	FILE *help = popen("ib_write_bw --help 2>&1", "r");
	char line[512];
	bool found = false;

	while (help && fgets(line, sizeof(line), help))
		found = found || strstr(line, "--mmap");
	if (help)
		pclose(help);
	return found;
}

static void perftest_runs_on_implicit_buffers(void)
{
	struct memopt_region_info region;
	uint64_t most = 0;
	pid_t server, client;
	int fd = memopt_open();

	if (!perftest_can_mmap())
		ktap_skip("this perftest has no --mmap");
	require(fd >= 0);
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CONTIG), 0);
	server = start_perftest(NULL);
	require(eventually(server_listens()));
	client = start_perftest(RXE_ADDR);
	/* The memory must be ours: so much of it is in use while they run. */
	do {
		require_eq(region_find(fd, MEMOPT_KIND_CONTIG, &region), 0);
		if (region.out_used > most)
			most = region.out_used;
	} while (most < 2 * 65536 && !child_ended(client));
	require_eq(wait_child(client, RDMA_PATIENCE_MS), 0);
	require_eq(wait_child(server, RDMA_PATIENCE_MS), 0);
	/* one buffer for each process, at least */
	require(most >= 2 * 65536);
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CONTIG), 0);
}

static const struct ktap_test tests[] = {
	{ "ibv_reg_mr of a CMA mapping is EFAULT", cma_mapping_is_refused },
	{ "ibv_reg_mr of a contig mapping works", contig_mapping_registers },
	{ "bytes move through a registered contig mapping",
	  registered_contig_bytes_move },
	{ "ib_write_bw --mmap runs on implicit buffers",
	  perftest_runs_on_implicit_buffers },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
