// SPDX-License-Identifier: GPL-2.0
/*
 * A user of the module for test_load.sh to kill.
 *
 *   load_cycle run CYCLES SEED [IBDEV]   allocate, map, fill, register, free
 *   load_cycle idle                      wait until all memory is free
 *   load_cycle kinds                     print the kinds of the regions
 *
 * Exit status 0 if everything went as it should.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define MAX_PAGES 2048

/* Four of them share the memory: it may be gone for a moment, nothing else. */
static int cycle(int fd, unsigned int *seed, const char *ibdev)
{
	uint32_t kind = rand_r(seed) % 2 ? MEMOPT_KIND_ANY : MEMOPT_KIND_CMA;
	uint64_t len = (1 + rand_r(seed) % MAX_PAGES) * PAGE;
	struct memopt_buf_alloc buf;
	struct memopt_mr_reg mr = {
		.size = sizeof(mr),
		.access = MEMOPT_ACCESS_LOCAL_WRITE |
			  MEMOPT_ACCESS_REMOTE_WRITE,
		.length = len,
	};
	unsigned char *mem;
	int ret;

	ret = buf_alloc(fd, kind, len, 0, &buf);
	if (ret == -ENODEV)
		ret = buf_alloc(fd, MEMOPT_KIND_ANY, len, 0, &buf);
	if (ret == -ENOMEM)
		return 0;
	if (ret)
		return ret;
	mem = buf_map(fd, &buf);
	if (!mem)
		return -errno;
	for (size_t i = 0; i < len; i += PAGE)
		if (mem[i] || mem[i + PAGE - 1])
			return -EILSEQ;
	memset(mem, 0x5a, len);

	if (ibdev) {
		mr.buf_id = buf.out_buf_id;
		snprintf(mr.ibdev, sizeof(mr.ibdev), "%s", ibdev);
		ret = memopt_ioctl(fd, MEMOPT_MR_REG, &mr);
		if (ret)
			return ret;
	}
	/* Sometimes the close of the file has to do it. */
	if (rand_r(seed) % 8 == 0)
		return 0;
	if (ibdev) {
		ret = mr_dereg(fd, mr.out_mr_id);
		if (ret)
			return ret;
	}
	ret = buf_free(fd, buf.out_buf_id);
	if (ret)
		return ret;
	return munmap(mem, len) ? -errno : 0;
}

static int run(unsigned int cycles, unsigned int seed, const char *ibdev)
{
	while (cycles--) {
		int fd = memopt_open();
		int ret = fd < 0 ? fd : 0;

		for (int i = 0; !ret && i < 4; i++)
			ret = cycle(fd, &seed, ibdev);
		if (ret) {
			printf("# load_cycle: %s\n", strerror(-ret));
			return 1;
		}
		close(fd);
	}
	return 0;
}

static int kinds(void)
{
	struct memopt_region_info info;
	int fd = memopt_open();

	if (fd < 0)
		return 1;
	for (uint32_t i = 0; !region_info(fd, i, &info); i++)
		printf("%s\n", info.out_kind == MEMOPT_KIND_CMA ? "cma" :
								  "contig");
	return 0;
}

static int idle(void)
{
	struct memopt_region_info info;
	int fd = memopt_open();

	if (fd < 0)
		return 1;
	for (uint32_t i = 0; !region_info(fd, i, &info); i++) {
		if (region_wait_idle(fd, info.out_kind)) {
			printf("# region %u does not come to rest\n", i);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "run"))
		return run((unsigned int)atoi(argv[2]),
			   (unsigned int)atoi(argv[3]),
			   argc > 4 ? argv[4] : NULL);
	if (argc == 2 && !strcmp(argv[1], "idle"))
		return idle();
	if (argc == 2 && !strcmp(argv[1], "kinds"))
		return kinds();
	fprintf(stderr, "usage: load_cycle run CYCLES SEED [IBDEV] | idle | kinds\n");
	return 2;
}
