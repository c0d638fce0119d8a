// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers are contiguous in physical memory and mapped at congruent addresses.
 *
 * The page map shows no frame of a cma mapping, so the memory is looked for in
 * /proc/kcore and compared as a whole.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "kcore.h"
#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define MIB (1024UL * 1024)
#define RW (PROT_READ | PROT_WRITE)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };

static int fd;

static void setup(void)
{
	uint64_t none;

	fd = memopt_open();
	require(fd >= 0);
	if (kcore_find("", 0, 1ULL << 40, &none, &none) < 0)
		ktap_skip("no /proc/kcore to learn addresses from");
	for (size_t i = 0; i < COUNT(kinds); i++)
		require_eq(region_wait_idle(fd, kinds[i]), 0);
}

/* Every page gets its number, the first a mark that nothing else has. */
static void number_pages(unsigned char *mem, size_t len)
{
	for (uint64_t i = 0; i < len / PAGE; i++) {
		memset(mem + i * PAGE, (int)(i % 251 + 1), PAGE);
		memcpy(mem + i * PAGE, &i, sizeof(i));
	}
	require_eq(getrandom(mem, 64, 0), 64);
}

/* Where the memory is, if it is in one piece; the test fails if it is not. */
static uint64_t place_of(const unsigned char *mem, size_t len, uint64_t step)
{
	unsigned char *seen = malloc(len);
	uint64_t physical = 0, direct = 0;

	require(seen != NULL);
	require_eq(kcore_find(mem, 64, step, &physical, &direct), 1);
	require_eq(kcore_read(physical, seen, len), 0);
	require(!memcmp(seen, mem, len));
	free(seen);
	return physical;
}

static void contiguous_and_congruent(void)
{
	static const struct {
		size_t length, alignment;
	} cases[] = {
		{ 64 * MIB, 64 * MIB }, { 16 * MIB, 16 * MIB }, { 6 * MIB, 0 },
		{ MIB, 0 }, { 64 * PAGE, 2 * MIB },
	};
	struct memopt_buf_alloc buf;
	unsigned char *mem;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (size_t i = 0; i < COUNT(cases); i++) {
			size_t len = cases[i].length;
			uint64_t reach;

			require_eq(buf_alloc(fd, kinds[k], len,
					     cases[i].alignment, &buf), 0);
			require(buf.out_alignment >= cases[i].alignment);
			require_eq(buf.out_segments, 1);
			mem = buf_map(fd, &buf);
			require(mem != NULL);
			number_pages(mem, len);
			require_eq(place_of(mem, len, buf.out_alignment) %
				   buf.out_alignment, 0);
			reach = buf.out_alignment < len ? buf.out_alignment :
							  len;
			require_eq((uintptr_t)mem % reach, 0);
			require_eq(munmap(mem, len), 0);

			/* a part keeps its distance */
			mem = mmap(NULL, len / 2, RW, MAP_SHARED, fd,
				   (off_t)(buf.out_mmap_offset + len / 4));
			require(mem != MAP_FAILED);
			reach = reach < len / 2 ? reach : len / 2;
			require_eq((uintptr_t)mem % reach, len / 4 % reach);
			require_eq(munmap(mem, len / 2), 0);
			require_eq(buf_free(fd, buf.out_buf_id), 0);
			require_eq(region_wait_idle(fd, kinds[k]), 0);
		}
	}
}

static void implicit_is_natural(void)
{
	unsigned char *mem;

	setup();
	mem = mmap(NULL, 64 * MIB, RW, MAP_SHARED, fd, 0);
	require(mem != MAP_FAILED);
	number_pages(mem, 64 * MIB);
	require_eq((uintptr_t)mem % (64 * MIB), 0);
	require_eq(place_of(mem, 64 * MIB, 64 * MIB) % (64 * MIB), 0);
}

/* Buffers that are there at the same time do not overlap. */
static void buffers_are_apart(void)
{
	enum { PIECES = 8 };
	struct memopt_buf_alloc buf;
	uint64_t places[PIECES];
	unsigned char *mem;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		for (size_t i = 0; i < PIECES; i++) {
			require_eq(buf_alloc(fd, kinds[k], MIB, 0, &buf), 0);
			mem = buf_map(fd, &buf);
			require(mem != NULL);
			number_pages(mem, MIB);
			places[i] = place_of(mem, MIB, MIB);
			for (size_t j = 0; j < i; j++)
				require(places[i] + MIB <= places[j] ||
					places[j] + MIB <= places[i]);
		}
	}
}

static const struct ktap_test tests[] = {
	{ "memory is contiguous and addresses are congruent",
	  contiguous_and_congruent },
	{ "an implicit buffer is naturally aligned", implicit_is_natural },
	{ "buffers are apart", buffers_are_apart },
};

int main(void)
{
	return ktap_run(tests, COUNT(tests));
}
