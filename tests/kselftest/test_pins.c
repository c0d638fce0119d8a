// SPDX-License-Identifier: GPL-2.0
/*
 * Pins outlive buffers: memory that a pipe or an io_uring still holds is not given
 * to anybody else, and is free again when they let go.  No RDMA device is needed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define MIB (1024UL * 1024)
#define PIPE_PAGES 16UL /* what a pipe takes by default */
#define MARK 0x3c

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A file of its own that only looks: it holds nothing. */
static int watch;

static void setup(void)
{
	watch = memopt_open();
	require(watch >= 0);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
}

static struct memopt_region_info contig(void)
{
	struct memopt_region_info info;

	require_eq(region_find(watch, MEMOPT_KIND_CONTIG, &info), 0);
	return info;
}

/* A buffer full of marks; file and mapping go to the caller. */
static unsigned char *marked_buffer(int *fd, uint32_t kind, size_t len)
{
	struct memopt_buf_alloc buf;
	unsigned char *mem;

	*fd = memopt_open();
	require(*fd >= 0);
	require_eq(buf_alloc(*fd, kind, len, 0, &buf), 0);
	mem = buf_map(*fd, &buf);
	require(mem != NULL);
	memset(mem, MARK, len);
	return mem;
}

/* Take everything that can be had and scribble on it. */
static void scribble_on_the_rest(size_t expected)
{
	struct memopt_buf_alloc buf;
	int fd = memopt_open();
	size_t got = 0;

	for (size_t piece = 32 * MIB; piece >= PAGE; piece /= 2) {
		while (!buf_alloc(fd, MEMOPT_KIND_CONTIG, piece, PAGE, &buf)) {
			unsigned char *mem = buf_map(fd, &buf);

			require(mem != NULL);
			for (size_t i = 0; i < piece; i += PAGE)
				require_eq(mem[i], 0);
			memset(mem, 0xff, piece);
			require_eq(munmap(mem, piece), 0);
			got += piece;
		}
	}
	require_eq(got, expected);
	require_eq(close(fd), 0);
}

/* Put the first pages of mem into a pipe by reference. */
static void splice_into(int pipe_in, void *mem, size_t pages)
{
	struct iovec iov = { .iov_base = mem, .iov_len = pages * PAGE };

	require_eq(vmsplice(pipe_in, &iov, 1, 0), pages * PAGE);
}

/* Read it all: are they still the marks? */
static void drain(int pipe_out, size_t pages)
{
	unsigned char page[PAGE];

	while (pages--) {
		require_eq(read(pipe_out, page, PAGE), PAGE);
		for (size_t i = 0; i < PAGE; i++)
			require_eq(page[i], MARK);
	}
}

static void quarantined_until_drained(void)
{
	int fd, pipes[2];
	unsigned char *mem;

	setup();
	mem = marked_buffer(&fd, MEMOPT_KIND_CONTIG, MIB);
	require_eq(pipe(pipes), 0);
	splice_into(pipes[1], mem, PIPE_PAGES);
	require_eq(munmap(mem, MIB), 0);
	require_eq(close(fd), 0);

	require(eventually(contig().out_used == 0 && contig().out_dirty == 0));
	require(eventually(contig().out_quarantined == MIB));
	require_eq(contig().out_free, contig().out_total - MIB);
	scribble_on_the_rest(contig().out_total - MIB);

	/* half of it is not enough, however long the worker looks */
	drain(pipes[0], PIPE_PAGES / 2);
	ktap_pause_ms(2000);
	require(eventually(contig().out_dirty == 0 && contig().out_used == 0));
	require(eventually(contig().out_quarantined == MIB));
	drain(pipes[0], PIPE_PAGES / 2);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
	/* and what was pinned is zero for the next one */
	scribble_on_the_rest(contig().out_total);
}

/* One page in the middle holds the whole range, and only that range. */
static void one_page_is_enough(void)
{
	unsigned char *held, *other;
	int fd[2], pipes[2];

	setup();
	held = marked_buffer(&fd[0], MEMOPT_KIND_CONTIG, 4 * MIB);
	other = marked_buffer(&fd[1], MEMOPT_KIND_CONTIG, 4 * MIB);
	require_eq(pipe(pipes), 0);
	splice_into(pipes[1], held + 3 * MIB, 1);
	require_eq(munmap(held, 4 * MIB), 0);
	require_eq(munmap(other, 4 * MIB), 0);
	require_eq(close(fd[0]), 0);
	require_eq(close(fd[1]), 0);
	require(eventually(contig().out_free == contig().out_total - 4 * MIB));
	require(eventually(contig().out_quarantined == 4 * MIB));
	drain(pipes[0], 1);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
}

static void pins_of_the_dead(void)
{
	int pipes[2], ready[2], status;
	char byte;
	pid_t pid;

	setup();
	require_eq(pipe(pipes), 0);
	require_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		int fd;
		unsigned char *mem = marked_buffer(&fd, MEMOPT_KIND_CONTIG,
						   MIB);

		splice_into(pipes[1], mem + 8 * PAGE, 4);
		require_eq(write(ready[1], "", 1), 1);
		pause();
	}
	require_eq(read(ready[0], &byte, 1), 1);
	require_eq(kill(pid, SIGKILL), 0);
	require_eq(waitpid(pid, &status, 0), pid);

	require(eventually(contig().out_free == contig().out_total - MIB));
	require(eventually(contig().out_quarantined == MIB));
	scribble_on_the_rest(contig().out_total - MIB);
	drain(pipes[0], 4);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
}

/* The mapping of an implicit buffer is as pinnable. */
static void implicit_pins(void)
{
	int fd = memopt_open(), pipes[2];
	unsigned char *mem;

	setup();
	mem = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(mem != MAP_FAILED);
	memset(mem, MARK, MIB);
	require_eq(pipe(pipes), 0);
	splice_into(pipes[1], mem, 2);
	require_eq(munmap(mem, MIB), 0);
	require_eq(close(fd), 0);
	require(eventually(contig().out_free == contig().out_total - MIB));
	require(eventually(contig().out_quarantined == MIB));
	drain(pipes[0], 2);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
}

/* CMA memory can not be pinned, and says so at once. */
static void cma_is_not_pinnable(void)
{
	struct iovec iov = { .iov_len = PAGE };
	int fd, pipes[2];

	setup();
	iov.iov_base = marked_buffer(&fd, MEMOPT_KIND_CMA, MIB);
	require_eq(pipe(pipes), 0);
	require_eq(vmsplice(pipes[1], &iov, 1, 0), -1);
	require_eq(errno, EFAULT);
	require_eq(munmap(iov.iov_base, MIB), 0);
	require_eq(close(fd), 0);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CMA), 0);
}

static int ring_setup(void)
{
	struct io_uring_params params = { 0 };
	long ring = syscall(SYS_io_uring_setup, 1, &params);

	if (ring < 0 && (errno == ENOSYS || errno == EPERM))
		ktap_skip("io_uring is off");
	require(ring >= 0);
	return (int)ring;
}

static int ring_register(int ring, void *mem, size_t len)
{
	struct iovec iov = { .iov_base = mem, .iov_len = len };

	return syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS,
		       &iov, 1) ? -errno : 0;
}

/* A long-term pin, as ibv_reg_mr() makes one. */
static void io_uring_buffers(void)
{
	unsigned char *mem;
	int fd, ring, ret;

	setup();
	ring = ring_setup();
	mem = marked_buffer(&fd, MEMOPT_KIND_CONTIG, 8 * MIB);
	ret = ring_register(ring, mem, 8 * MIB);
	/* kernels before 6.4 take no file mappings but shmem */
	require(ret == 0 || ret == -EOPNOTSUPP);
	require_eq(munmap(mem, 8 * MIB), 0);
	require_eq(close(fd), 0);
	if (!ret) {
		require(eventually(contig().out_free ==
				   contig().out_total - 8 * MIB));
		require(eventually(contig().out_quarantined ==
				   8 * MIB));
		scribble_on_the_rest(contig().out_total - 8 * MIB);
	}
	require_eq(close(ring), 0);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);

	ring = ring_setup();
	mem = marked_buffer(&fd, MEMOPT_KIND_CMA, MIB);
	require(ring_register(ring, mem, MIB) < 0);
}

static const struct ktap_test tests[] = {
	{ "a pipe keeps a freed buffer in quarantine",
	  quarantined_until_drained },
	{ "one pinned page keeps its range and no other", one_page_is_enough },
	{ "pins outlive the process that made them", pins_of_the_dead },
	{ "an implicit buffer is pinnable", implicit_pins },
	{ "a cma buffer is not pinnable", cma_is_not_pinnable },
	{ "io_uring buffers are respected", io_uring_buffers },
};

int main(void)
{
	return ktap_run(tests, COUNT(tests));
}
