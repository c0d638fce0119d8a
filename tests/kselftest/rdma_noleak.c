// SPDX-License-Identifier: GPL-2.0
/*
 * No kernel, bus or physical address in anything a program or a peer can read.
 *
 * The test first learns the true addresses of its buffers, as only root can: it
 * writes a magic number into each and finds it in /proc/kcore, which tells the
 * physical address and the one in the kernel's direct map; with a software
 * device the latter is also the bus address.  Then it collects all that comes
 * out of the module and searches it for these addresses, in both byte orders,
 * and in text as decimal or hexadecimal numbers.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kcore.h"
#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)
/* An odd number of pages, whose bytes are no address however they are read. */
#define LENGTH (6 * MIB + 43 * 4096)
#define STEP (2 * MIB) /* the alignment of a buffer of that length */

static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };

/* Addresses that must not appear: of each buffer, physical and direct map. */
static struct window {
	uint64_t from;
	uint64_t to;
} windows[4];
static unsigned int nr_windows;

static struct subject {
	int fd;
	struct memopt_buf_alloc buf;
	unsigned char *mem;
} subjects[2];

/* ---- what must not be found ---- */

static void window_add(uint64_t from)
{
	windows[nr_windows++] = (struct window) { from, from + LENGTH };
}

static bool in_window(uint64_t value)
{
	for (unsigned int i = 0; i < nr_windows; i++)
		if (value >= windows[i].from && value < windows[i].to)
			return true;
	return false;
}

/* Direct map, vmalloc and vmemmap wherever KASLR put them; text, modules. */
static bool kernel_address(uint64_t value)
{
	return (value >= 0xffff800000000000ULL &&
		value < 0xfffffe0000000000ULL) ||
	       (value >= 0xffffffff80000000ULL &&
		value < 0xffffffffff000000ULL);
}

static bool at_window(uint64_t value)
{
	for (unsigned int i = 0; i < nr_windows; i++)
		if (value == windows[i].from)
			return true;
	return false;
}

static bool secret_at(uint64_t value, size_t offset)
{
	/*
	 * The start of a buffer counts anywhere.  The rest of it, and pointers
	 * at large, count where a member may be: at any offset the zeros around
	 * a small number would make some address of it.
	 */
	return at_window(value) ||
	       (offset % sizeof(uint32_t) == 0 && in_window(value)) ||
	       (offset % sizeof(uint64_t) == 0 && kernel_address(value));
}

/* Return: addresses found in binary data. */
static unsigned int scan_bytes(const void *data, size_t len)
{
	const unsigned char *bytes = data;
	unsigned int hits = 0;
	uint64_t value;

	for (size_t i = 0; i + sizeof(value) <= len; i++) {
		memcpy(&value, bytes + i, sizeof(value));
		hits += secret_at(value, i) ||
			secret_at(__builtin_bswap64(value), i);
	}
	return hits;
}

/* Binary data must be clean; what is not shows on failure. */
static void require_clean(const char *what, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	if (!scan_bytes(data, len))
		return;
	printf("# an address in %s:", what);
	for (size_t i = 0; i < len && i < 256; i++)
		printf("%s%02x", i % 8 ? "" : " ", bytes[i]);
	printf("\n# the addresses begin at:");
	for (unsigned int i = 0; i < nr_windows; i++)
		printf(" %llx", (unsigned long long)windows[i].from);
	printf("\n");
	fflush(stdout);
	_exit(KTAP_FAIL);
}

/* Return: addresses found among the numbers of a text. */
static unsigned int scan_text(const char *text)
{
	unsigned int hits = 0;

	while (*text) {
		size_t len = 0;
		uint64_t value;

		if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
			text += 2;
		while (isxdigit((unsigned char)text[len]))
			len++;
		if (len >= 6) {
			value = strtoull(text, NULL, 16);
			hits += in_window(value) || kernel_address(value);
			value = strtoull(text, NULL, 10);
			hits += in_window(value) || kernel_address(value);
		}
		text += len ? len : 1;
	}
	return hits;
}

/* ---- true addresses ---- */

/* What the kernel tells root about a pinnable mapping. */
static uint64_t physical_by_pagemap(const void *mem)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	require(fd >= 0);
	require_eq(pread(fd, &entry, sizeof(entry),
			 (off_t)((uintptr_t)mem / 4096 * sizeof(entry))),
		   sizeof(entry));
	close(fd);
	return (entry & ((1ULL << 55) - 1)) * 4096;
}

/*
 * Sizes that the module reports are no secret.  Nor is a number with but one
 * byte that is not zero: an id of 9 next to some zeros reads as 0x9000000.
 */
static bool holds_a_figure(uint64_t from)
{
	struct memopt_region_info info;

	for (unsigned int shift = 0; shift < 64; shift += 8) {
		uint64_t digit = (from + LENGTH - 1) >> shift;

		if (digit && digit < 256 && digit << shift >= from)
			return true;
	}
	for (uint32_t n = 0; !region_info(subjects[0].fd, n, &info); n++)
		if ((info.out_total >= from &&
		     info.out_total < from + LENGTH) ||
		    (info.out_free >= from && info.out_free < from + LENGTH))
			return true;
	return false;
}

/* A new buffer with 64 random bytes, and where it is. */
static void subject_place(struct subject *s, uint32_t kind, uint64_t *physical,
			  uint64_t *direct)
{
	int found;

	require_eq(buf_alloc(s->fd, kind, LENGTH, 0, &s->buf), 0);
	require_eq(s->buf.out_alignment, STEP);
	s->mem = buf_map(s->fd, &s->buf);
	require(s->mem != NULL);
	require_eq(getrandom(s->mem, 64, 0), 64);
	found = kcore_find(s->mem, 64, STEP, physical, direct);
	if (found < 0)
		ktap_skip("no /proc/kcore to learn addresses from");
	require_eq(found, 1);
}

/* Two buffers, and the addresses nobody may learn. */
static void learn_addresses(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct subject *s = &subjects[i];
		uint64_t physical = 0, direct = 0;

		s->fd = memopt_open();
		require(s->fd >= 0);
		/* What is passed over stays, or it would come again. */
		do {
			subject_place(s, kinds[i], &physical, &direct);
		} while (holds_a_figure(physical));
		if (kinds[i] == MEMOPT_KIND_CONTIG)
			require_eq(physical_by_pagemap(s->mem), physical);
		require(physical != 0);
		require(kernel_address(direct));
		window_add(physical);
		window_add(direct);
	}
}

/* ---- the search ---- */

static void detector_detects(void)
{
	unsigned char data[64] = { 0 };
	char text[256];
	uint64_t value;

	learn_addresses();
	require_eq(scan_bytes(data, sizeof(data)), 0);
	for (unsigned int i = 0; i < nr_windows; i++) {
		for (size_t at = 0; at < 9; at++) {
			memset(data, 0, sizeof(data));
			value = windows[i].from + (at % 4 ? 0 : 4096 * at);
			memcpy(data + 16 + at, &value, sizeof(value));
			require(scan_bytes(data, sizeof(data)) >= 1);
			value = __builtin_bswap64(value);
			memcpy(data + 16 + at, &value, sizeof(value));
			require(scan_bytes(data, sizeof(data)) >= 1);
		}
		value = windows[i].to - 1;
		snprintf(text, sizeof(text), "region at 0x%llx.",
			 (unsigned long long)value);
		require_eq(scan_text(text), 1);
		snprintf(text, sizeof(text), "%016llx-", /* as in maps */
			 (unsigned long long)value);
		require_eq(scan_text(text), 1);
		snprintf(text, sizeof(text), "base=%llu\n",
			 (unsigned long long)value);
		require_eq(scan_text(text), 1);
		value = windows[i].to;
		snprintf(text, sizeof(text), "%llx", (unsigned long long)value);
		require_eq(scan_text(text), kernel_address(value));
	}
	memset(data, 0, sizeof(data));
	value = 0xffffffffc0001000ULL; /* a module */
	memcpy(data + 8, &value, sizeof(value));
	require_eq(scan_bytes(data, sizeof(data)), 1);
	require_eq(scan_text("ffffffffc0001000"), 1);
	require_eq(scan_text("node -1, 67108864 bytes at 18446744073709551615"),
		   0);
}

/* One command with room behind the struct; all of it must be clean. */
static int clean_ioctl(int fd, unsigned long cmd, void *arg, size_t size)
{
	unsigned char area[1024] = { 0 };
	int ret;

	memcpy(area, arg, size);
	ret = memopt_ioctl(fd, cmd, area);
	if (cmd == MEMOPT_SHARE_CREATE) /* 128 random bits by contract */
		memset(area + offsetof(struct memopt_share_create, out_token),
		       0, MEMOPT_TOKEN_SIZE);
	require_clean("an ioctl", area, sizeof(area));
	require_eq(bytes_other_than(area + size, sizeof(area) - size, 0), 0);
	if (cmd != MEMOPT_SHARE_CREATE)
		memcpy(arg, area, size);
	return ret;
}

#define clean(s, cmd, arg) clean_ioctl((s)->fd, cmd, &(arg), sizeof(arg))

static void ioctls_are_clean(void)
{
	learn_addresses();
	for (size_t i = 0; i < 2; i++) {
		struct subject *s = &subjects[i];
		struct memopt_query query = { .size = sizeof(query) };
		struct memopt_region_info region = { .size = sizeof(region) };
		struct memopt_buf_alloc alloc = {
			.size = sizeof(alloc),
			.kind = kinds[i],
			.node = MEMOPT_NODE_ANY,
			.length = 4096,
		};
		struct memopt_buf_info info = {
			.size = sizeof(info),
			.buf_id = s->buf.out_buf_id,
		};
		struct memopt_mr_reg mr = {
			.size = sizeof(mr),
			.buf_id = s->buf.out_buf_id,
			.access = RW,
			.length = LENGTH,
			.ibdev = RXE_DEV,
		};
		struct memopt_mr_info described = {
			.size = sizeof(described),
		};
		struct memopt_share_create share;
		struct memopt_share_info shared = { .size = sizeof(shared) };

		require_clean("BUF_ALLOC", &s->buf, sizeof(s->buf));
		require_eq(clean(s, MEMOPT_QUERY, query), 0);
		for (uint32_t n = 0; n <= query.out_region_count; n++) {
			region.index = n;
			require_eq(clean(s, MEMOPT_REGION_INFO, region),
				   n < query.out_region_count ? 0 : -ENOENT);
		}
		require_eq(clean(s, MEMOPT_BUF_ALLOC, alloc), 0);
		require_eq(clean(s, MEMOPT_BUF_INFO, info), 0);
		for (int n = 0; n < 8; n++)
			require_eq(clean(s, MEMOPT_MR_REG, mr), 0);
		described.mr_id = mr.out_mr_id;
		require_eq(clean(s, MEMOPT_MR_INFO, described), 0);
		share_init(&share, s->buf.out_buf_id, RW, 0, LENGTH);
		require_eq(clean(s, MEMOPT_SHARE_CREATE, share), 0);
		require_eq(share_create(s->fd, &share), 0);
		shared.share_id = share.out_share_id;
		require_eq(clean(s, MEMOPT_SHARE_INFO, shared), 0);
		/* failures give nothing away either */
		mr.offset = LENGTH;
		require_eq(clean(s, MEMOPT_MR_REG, mr), -EINVAL);
		share.length = 2 * LENGTH;
		require_eq(clean(s, MEMOPT_SHARE_CREATE, share), -EINVAL);
		alloc.length = 1ULL << 40;
		require_eq(clean(s, MEMOPT_BUF_ALLOC, alloc), -ENOMEM);
	}
}

static void private_data_is_clean(void)
{
	learn_addresses();
	for (size_t i = 0; i < 2; i++) {
		struct subject *s = &subjects[i];
		unsigned char wrong[MEMOPT_TOKEN_SIZE] = { 0 };
		struct memopt_share_create share;
		struct share_client c;

		share_init(&share, s->buf.out_buf_id, RW, 0, LENGTH);
		require_eq(share_create(s->fd, &share), 0);
		require_eq(share_client_join(&c, share.out_port,
					     share.out_token, MIB), 0);
		/* the grant and all that the transport put behind it */
		require(c.private_len >= sizeof(struct memopt_share_grant));
		require_clean("the grant", c.private_data, c.private_len);
		require_eq(bytes_other_than(c.private_data +
				sizeof(struct memopt_share_grant),
				c.private_len -
				sizeof(struct memopt_share_grant), 0), 0);
		share_client_close(&c);

		require_eq(share_client_join(&c, share.out_port, wrong, MIB),
			   -ECONNREFUSED);
		require(c.private_len >= sizeof(struct memopt_share_refusal));
		require_clean("the refusal", c.private_data, c.private_len);
		require_eq(bytes_other_than(c.private_data +
				sizeof(struct memopt_share_refusal),
				c.private_len -
				sizeof(struct memopt_share_refusal), 0), 0);
		share_client_close(&c);
	}
}

/* ---- text ---- */

static unsigned int files_scanned, files_dirty;

static void scan_stream(FILE *stream, const char *needle)
{
	char line[4096];

	files_scanned++;
	while (fgets(line, sizeof(line), stream))
		if ((!needle || strstr(line, needle)) && scan_text(line)) {
			files_dirty++;
			printf("# an address: %s\n", line);
		}
}

static void scan_file(const char *path, const char *needle)
{
	FILE *file = fopen(path, "r");

	if (!file)
		return;
	scan_stream(file, needle);
	fclose(file);
}

static int scan_entry(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)ftw;
	/* The kernel gives root these of every module; they are not ours. */
	if (type == FTW_F && st->st_mode & 0444 &&
	    !strstr(path, "/sections/") && !strstr(path, "/notes/"))
		scan_file(path, NULL);
	return 0;
}

/* MRs, shares and mappings exist, so that their traces do. */
static void make_traces(void)
{
	learn_addresses();
	for (size_t i = 0; i < 2; i++) {
		struct subject *s = &subjects[i];
		struct memopt_share_create share;
		struct memopt_mr_reg mr;

		require_eq(mr_reg(s->fd, s->buf.out_buf_id, RW, 0, LENGTH, &mr),
			   0);
		share_init(&share, s->buf.out_buf_id, RW, 0, LENGTH);
		require_eq(share_create(s->fd, &share), 0);
	}
}

static void files_are_clean(void)
{
	static const char *const trees[] = {
		"/sys/module/rdma_memopt",
		"/sys/class/misc/rdma_memopt/",
		"/sys/devices/virtual/misc/rdma_memopt",
		"/sys/bus/platform/devices/rdma_memopt/",
		"/sys/devices/platform/rdma_memopt",
		"/sys/kernel/debug/rdma_memopt",
	};
	char path[64];

	make_traces();
	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++)
		nftw(trees[i], scan_entry, 16, FTW_PHYS);
	require(files_scanned > 0);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d",
			 subjects[i].fd);
		scan_file(path, NULL);
	}
	scan_file("/proc/self/maps", MEMOPT_DEVICE_NAME);
	scan_file("/proc/self/smaps", MEMOPT_DEVICE_NAME);
	require_eq(files_dirty, 0);
}

static void netlink_is_clean(void)
{
	static const char *const commands[] = {
		"rdma -d resource show mr",
		"rdma -d resource show pd",
		"rdma -d resource show qp",
		"rdma -d resource show cm_id",
	};

	make_traces();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		FILE *out = popen(commands[i], "r");

		require(out != NULL);
		scan_stream(out, NULL);
		require_eq(pclose(out), 0);
	}
	require_eq(files_dirty, 0);
}

static void log_is_clean(void)
{
	const int size = klogctl(10, NULL, 0);
	bool ours = false;
	char *log, *rest, *line, mark[64];
	int fd, len, seen = 0;

	snprintf(mark, sizeof(mark), "rdma_noleak starts in %d", getpid());
	fd = open("/dev/kmsg", O_WRONLY);
	require(fd >= 0);
	/* Without an end of line the record stays open, and hidden. */
	require(dprintf(fd, "%s\n", mark) > 0);
	close(fd);
	make_traces();
	for (size_t i = 0; i < 2; i++)
		close(subjects[i].fd);

	require(size > 0);
	log = malloc((size_t)size + 1);
	require(log != NULL);
	len = klogctl(3, log, size);
	require(len > 0);
	log[len] = '\0';
	/* A record may hold a zero byte; it does not end the log. */
	for (int i = 0; i < len; i++)
		log[i] = log[i] ? log[i] : ' ';
	rest = log;
	/* All since the mark, and all the module ever said. */
	while ((line = strsep(&rest, "\n"))) {
		ours = ours || strstr(line, mark);
		if (!ours && !strstr(line, MEMOPT_DEVICE_NAME))
			continue;
		seen++;
		if (scan_text(line)) {
			printf("# an address: %s\n", line);
			files_dirty++;
		}
	}
	free(log);
	require(ours);
	require(seen > 0);
	require_eq(files_dirty, 0);
}

static const struct ktap_test tests[] = {
	{ "the detector finds planted addresses", detector_detects },
	{ "ioctl results hold no address", ioctls_are_clean },
	{ "private data holds no address", private_data_is_clean },
	{ "sysfs, debugfs and proc hold no address", files_are_clean },
	{ "rdma netlink holds no address", netlink_is_clean },
	{ "the kernel log holds no address", log_is_clean },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
