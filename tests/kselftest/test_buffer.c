// SPDX-License-Identifier: GPL-2.0
/* BUF_ALLOC, BUF_INFO and BUF_FREE: what is obtained, and that it comes back. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define KIB 1024UL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };

static int fd;

static void setup(void)
{
	fd = memopt_open();
	require(fd >= 0);
	for (size_t i = 0; i < COUNT(kinds); i++)
		require_eq(region_wait_idle(fd, kinds[i]), 0);
}

static uint64_t total_of(uint32_t kind)
{
	struct memopt_region_info info;

	require_eq(region_find(fd, kind, &info), 0);
	return info.out_total;
}

static void defaults(void)
{
	static const struct {
		uint64_t length, rounded, alignment;
	} cases[] = {
		{ 1, PAGE, PAGE },
		{ PAGE, PAGE, PAGE },
		{ PAGE + 1, 2 * PAGE, PAGE },
		{ 2 * PAGE, 2 * PAGE, 2 * PAGE },
		{ MIB - 1, MIB, 512 * KIB },
		{ MIB, MIB, MIB },
		{ 2 * MIB, 2 * MIB, 2 * MIB },
		{ 3 * MIB, 3 * MIB, 2 * MIB },
		{ 32 * MIB, 32 * MIB, 2 * MIB },
	};
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (size_t i = 0; i < COUNT(cases); i++) {
			require_eq(buf_alloc(fd, kinds[k], cases[i].length, 0,
					     &buf), 0);
			require_eq(buf.out_kind, kinds[k]);
			require_eq(buf.out_length, cases[i].rounded);
			require_eq(buf.out_alignment, cases[i].alignment);
			require_eq(buf.out_segments, 1);
			require(buf.out_node >= 0);
			require(buf.out_buf_id != 0);
			require(buf.out_mmap_offset != 0);
			require(buf.out_mmap_offset >> 44 == 0);
			require_eq(buf.out_mmap_offset % PAGE, 0);
		}
	}
}

static void kinds_are_chosen(void)
{
	struct memopt_buf_alloc buf;

	setup();
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, MIB, 0, &buf), 0);
	require_eq(buf.out_kind, MEMOPT_KIND_CONTIG);
	require_eq(buf_alloc(fd, MEMOPT_KIND_PINNABLE, MIB, 0, &buf), 0);
	require_eq(buf.out_kind, MEMOPT_KIND_CONTIG);

	/* "any" goes on where "pinnable" has to stop */
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	while (!buf_alloc(fd, MEMOPT_KIND_CONTIG, 16 * MIB, PAGE, &buf))
		;
	require_eq(buf_alloc(fd, MEMOPT_KIND_PINNABLE, 16 * MIB, PAGE, &buf),
		   -ENOMEM);
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, 16 * MIB, PAGE, &buf), 0);
	require_eq(buf.out_kind, MEMOPT_KIND_CMA);
}

static void bad_values(void)
{
	struct memopt_buf_alloc buf = {
		.size = sizeof(buf), .length = PAGE, .node = -2,
	};
	struct memopt_region_info info;

	setup();
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, &buf), -EINVAL);
	buf.node = 1023;
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, &buf), -ENODEV);
	buf.node = INT32_MAX;
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, &buf), -ENODEV);

	require_eq(buf_alloc(fd, 4, PAGE, 0, &buf), -EOPNOTSUPP);
	require_eq(buf_alloc(fd, UINT32_MAX, PAGE, 0, &buf), -EOPNOTSUPP);
	for (uint32_t kind = 0; kind < 4; kind++) {
		require_eq(buf_alloc(fd, kind, 0, 0, &buf), -EINVAL);
		require_eq(buf_alloc(fd, kind, UINT64_MAX, 0, &buf),
			   -EOVERFLOW);
		require_eq(buf_alloc(fd, kind, 1ULL << 63, 0, &buf), -ENOMEM);
		require_eq(buf_alloc(fd, kind, 1ULL << 44, 0, &buf), -ENOMEM);
		require_eq(buf_alloc(fd, kind, MIB, 1, &buf), -EINVAL);
		require_eq(buf_alloc(fd, kind, MIB, 2048, &buf), -EINVAL);
		require_eq(buf_alloc(fd, kind, MIB, 3 * PAGE, &buf), -EINVAL);
		require_eq(buf_alloc(fd, kind, MIB, 2 * GIB, &buf), -EINVAL);
		require_eq(buf_alloc(fd, kind, MIB, 1ULL << 63, &buf), -EINVAL);
	}
	for (size_t k = 0; k < COUNT(kinds); k++) {
		require_eq(region_find(fd, kinds[k], &info), 0);
		require_eq(info.out_used, 0);
	}
}

static void node_is_a_demand(void)
{
	struct memopt_region_info info;
	struct memopt_buf_alloc buf;

	setup();
	require_eq(region_find(fd, MEMOPT_KIND_CONTIG, &info), 0);
	buf = (struct memopt_buf_alloc) {
		.size = sizeof(buf), .kind = MEMOPT_KIND_CONTIG,
		.node = info.out_node, .length = PAGE,
	};
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, &buf), 0);
	require_eq(buf.out_node, info.out_node);
}

static void every_alignment(void)
{
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (uint64_t align = PAGE; align <= 64 * MIB; align *= 2) {
			require_eq(buf_alloc(fd, kinds[k], 2 * PAGE, align,
					     &buf), 0);
			require_eq(buf.out_alignment, align);
			require_eq(buf_free(fd, buf.out_buf_id), 0);
		}
		/* there may be such an address in the region, or not */
		for (uint64_t align = 128 * MIB; align <= GIB; align *= 2) {
			int ret = buf_alloc(fd, kinds[k], PAGE, align, &buf);

			require(ret == 0 || ret == -ENOMEM);
			if (!ret)
				require_eq(buf_free(fd, buf.out_buf_id), 0);
		}
	}
}

static size_t bytes_not_zero(const unsigned char *mem, size_t len)
{
	size_t wrong = 0;

	for (size_t i = 0; i < len; i++)
		wrong += mem[i] != 0;
	return wrong;
}

/* Allocate and map all of a kind in pieces; with dirt, leave some behind. */
static void use_all(uint32_t kind, bool dirt)
{
	struct memopt_buf_alloc buf;
	uint64_t sum = 0;

	for (size_t piece = 64 * MIB; piece >= PAGE; piece /= 4) {
		while (!buf_alloc(fd, kind, piece, PAGE, &buf)) {
			unsigned char *mem = buf_map(fd, &buf);

			require(mem != NULL);
			require_eq(bytes_not_zero(mem, piece), 0);
			if (dirt)
				memset(mem, 0xa5, piece);
			require_eq(munmap(mem, piece), 0);
			sum += piece;
		}
	}
	require_eq(sum, total_of(kind));
}

static void reused_memory_is_zero(void)
{
	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		use_all(kinds[k], true);
		require_eq(close(fd), 0);
		fd = memopt_open();
		require(fd >= 0);
		/* at once: what is still dirty has to be waited for */
		use_all(kinds[k], false);
	}
}

static void account_adds_up(void)
{
	struct memopt_region_info info;
	struct memopt_buf_alloc buf[8];

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		uint64_t used = 0;

		for (size_t i = 0; i < COUNT(buf); i++) {
			require_eq(buf_alloc(fd, kinds[k], (i + 1) * MIB, 0,
					     &buf[i]), 0);
			used += (i + 1) * MIB;
			require_eq(region_find(fd, kinds[k], &info), 0);
			require_eq(info.out_used, used);
			require_eq(info.out_free, info.out_total - used);
		}
		for (size_t i = 0; i < COUNT(buf); i++) {
			require_eq(buf_free(fd, buf[i].out_buf_id), 0);
			used -= (i + 1) * MIB;
			require_eq(region_find(fd, kinds[k], &info), 0);
			require_eq(info.out_used, used);
			require_eq(info.out_free + info.out_used +
				   info.out_quarantined + info.out_dirty,
				   info.out_total);
		}
		require_eq(region_wait_idle(fd, kinds[k]), 0);
		require_eq(region_find(fd, kinds[k], &info), 0);
		require_eq(info.out_largest_free, info.out_total);
	}
}

static void objects_are_limited(void)
{
	struct memopt_query query = { .size = sizeof(query) };
	struct memopt_buf_alloc buf, first;
	int other = memopt_open();

	setup();
	require(other >= 0);
	require_eq(memopt_ioctl(fd, MEMOPT_QUERY, &query), 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &first), 0);
	for (uint32_t i = 1; i < query.out_max_objects; i++)
		require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &buf), 0);
	for (int i = 0; i < 3; i++)
		require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &buf),
			   -ENOSPC);
	/* the limit is one of this file, and a freed id makes room */
	require_eq(buf_alloc(other, MEMOPT_KIND_CONTIG, PAGE, 0, &buf), 0);
	require_eq(buf_free(fd, first.out_buf_id), 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &buf), 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &buf), -ENOSPC);
}

static void ids_end_once(void)
{
	struct memopt_buf_alloc buf;
	struct memopt_buf_info info;
	int other = memopt_open();

	setup();
	require(other >= 0);
	require_eq(buf_free(fd, 0), -ENOENT);
	require_eq(buf_free(fd, 1), -ENOENT);
	require_eq(buf_free(fd, UINT32_MAX), -ENOENT);
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, PAGE, 0, &buf), 0);
	require_eq(buf_free(other, buf.out_buf_id), -ENOENT);
	require_eq(buf_info(other, buf.out_buf_id, &info), -ENOENT);
	require_eq(buf_info(fd, buf.out_buf_id, &info), 0);
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	require_eq(buf_info(fd, buf.out_buf_id, &info), -ENOENT);
	require_eq(buf_free(fd, buf.out_buf_id), -ENOENT);
}

static void info_describes(void)
{
	struct memopt_buf_alloc buf;
	struct memopt_buf_info info;
	volatile unsigned char *mem;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		require_eq(buf_alloc(fd, kinds[k], 3 * MIB, MIB, &buf), 0);
		require_eq(buf_info(fd, buf.out_buf_id, &info), 0);
		require_eq(info.out_kind, kinds[k]);
		require_eq(info.out_node, buf.out_node);
		require_eq(info.out_segments, 1);
		require_eq(info.out_length, 3 * MIB);
		require_eq(info.out_alignment, MIB);
		require_eq(info.out_mmap_offset, buf.out_mmap_offset);
		require_eq(info.out_mapping_size, 0);
		require_eq(info.out_mappings, 0);
		require_eq(info.out_state, kinds[k] == MEMOPT_KIND_CONTIG ?
			   MEMOPT_BUF_STATE_PINNABLE : 0);

		mem = buf_map(fd, &buf);
		require(mem != NULL);
		mem[MIB] = 1;
		require_eq(buf_info(fd, buf.out_buf_id, &info), 0);
		require(info.out_mapping_size >= PAGE);
		require_eq(info.out_mappings, 1);
		require_eq(munmap((void *)mem, 3 * MIB), 0);
		require_eq(buf_info(fd, buf.out_buf_id, &info), 0);
		require_eq(info.out_mappings, 0);
	}
}

static void offsets_are_unique(void)
{
	enum { FILES = 4, EACH = 32 };
	struct memopt_buf_alloc buf[FILES * EACH];
	int files[FILES];

	setup();
	for (int i = 0; i < FILES; i++)
		require((files[i] = memopt_open()) >= 0);
	for (int i = 0; i < FILES * EACH; i++)
		require_eq(buf_alloc(files[i % FILES], MEMOPT_KIND_CONTIG,
				     (uint64_t)(1 + i % 5) * PAGE, 0, &buf[i]),
			   0);
	for (int i = 0; i < FILES * EACH; i++) {
		for (int n = 0; n < i; n++)
			require(buf[i].out_mmap_offset >=
				buf[n].out_mmap_offset + buf[n].out_length ||
				buf[n].out_mmap_offset >=
				buf[i].out_mmap_offset + buf[i].out_length);
	}
}

static struct {
	pthread_barrier_t barrier;
	uint32_t id;
	int freed;
} race;

enum { RACE_ROUNDS = 500 };

static void *race_free(void *unused)
{
	for (int i = 0; i < RACE_ROUNDS; i++) {
		int ret;

		pthread_barrier_wait(&race.barrier);
		ret = buf_free(fd, race.id);
		require(ret == 0 || ret == -ENOENT);
		if (!ret)
			__atomic_add_fetch(&race.freed, 1, __ATOMIC_RELAXED);
		pthread_barrier_wait(&race.barrier);
	}
	return unused;
}

static void one_of_two_frees(void)
{
	struct memopt_buf_alloc buf;
	pthread_t threads[2];

	setup();
	require_eq(pthread_barrier_init(&race.barrier, NULL, 3), 0);
	for (int i = 0; i < 2; i++)
		require_eq(pthread_create(&threads[i], NULL, race_free, NULL),
			   0);
	for (int i = 0; i < RACE_ROUNDS; i++) {
		require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, PAGE, 0, &buf), 0);
		race.id = buf.out_buf_id;
		pthread_barrier_wait(&race.barrier);
		pthread_barrier_wait(&race.barrier);
		require_eq(race.freed, i + 1);
	}
	for (int i = 0; i < 2; i++)
		require_eq(pthread_join(threads[i], NULL), 0);
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CONTIG), 0);
}

static void death_frees(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	setup();
	require_eq(pipe(ready), 0);
	pid = fork();
	require(pid >= 0);
	if (!pid) {
		struct memopt_buf_alloc buf;
		int own = memopt_open();

		for (size_t k = 0; k < COUNT(kinds); k++) {
			require_eq(buf_alloc(own, kinds[k], 8 * MIB, 0, &buf),
				   0);
			memset(buf_map(own, &buf), 1, 8 * MIB);
		}
		require_eq(write(ready[1], "", 1), 1);
		pause();
	}
	require_eq(read(ready[0], &byte, 1), 1);
	require_eq(kill(pid, SIGKILL), 0);
	require_eq(waitpid(pid, NULL, 0), pid);
	for (size_t k = 0; k < COUNT(kinds); k++)
		require_eq(region_wait_idle(fd, kinds[k]), 0);
}

static const struct ktap_test tests[] = {
	{ "length and alignment are rounded as documented", defaults },
	{ "kinds are chosen", kinds_are_chosen },
	{ "bad values are refused without effect", bad_values },
	{ "the node is a demand", node_is_a_demand },
	{ "every alignment is obtained or refused", every_alignment },
	{ "reused memory is zero", reused_memory_is_zero },
	{ "the account adds up", account_adds_up },
	{ "objects of a file are limited", objects_are_limited },
	{ "an id ends once and belongs to one file", ids_end_once },
	{ "BUF_INFO describes", info_describes },
	{ "offsets are unique in the module", offsets_are_unique },
	{ "of two frees exactly one succeeds", one_of_two_frees },
	{ "death of the owner frees everything", death_frees },
};

int main(void)
{
	return ktap_run(tests, COUNT(tests));
}
