// SPDX-License-Identifier: GPL-2.0
/*
 * What holds for every command: the number, the size, unknown bits, bad memory,
 * and that a command that fails has no effect.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define MIB (1024UL * 1024)
#define NO_MEMBER 0U
#define DEPENDS 1

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RESERVED(name, member) offsetof(struct memopt_##name, member)

/**
 * struct command - what the header says of one command
 * @request: ioctl number
 * @size: of its struct
 * @first: size of the first version of the struct; 0 for @size
 * @out: first member that is only written
 * @result: of a struct that is all zero but for the size; DEPENDS if the order
 *	of the checks is not part of the contract
 * @flags: valid flags
 * @reserved: offsets of members that must be zero
 */
struct command {
	const char *name;
	unsigned long request;
	uint32_t size;
	uint32_t first;
	uint32_t out;
	int result;
	uint32_t flags;
	uint32_t reserved[2];
};

#define COMMAND(NAME, lower, first_out, ret, ...)			\
	{								\
		.name = #NAME, .request = MEMOPT_##NAME,		\
		.size = sizeof(struct memopt_##lower),			\
		.out = first_out, .result = ret, __VA_ARGS__		\
	}
#define OUT(lower, member) offsetof(struct memopt_##lower, member)
#define NO_OUT(lower) sizeof(struct memopt_##lower)

static const struct command commands[] = {
	COMMAND(QUERY, query, OUT(query, out_features), 0, .first = 32,
		.reserved = { RESERVED(query, __reserved) }),
	COMMAND(REGION_INFO, region_info, OUT(region_info, out_kind), 0,
		.first = 72,
		.reserved = { RESERVED(region_info, __reserved),
			      RESERVED(region_info, __reserved2) }),
	COMMAND(BUF_ALLOC, buf_alloc, OUT(buf_alloc, out_buf_id), -EINVAL),
	COMMAND(BUF_INFO, buf_info, OUT(buf_info, out_kind), -ENOENT),
	COMMAND(BUF_FREE, buf_free, NO_OUT(buf_free), -ENOENT,
		.reserved = { RESERVED(buf_free, __reserved) }),
	COMMAND(MR_REG, mr_reg, OUT(mr_reg, out_mr_id), DEPENDS, .first = 120,
		.reserved = { RESERVED(mr_reg, __reserved) }),
	COMMAND(MR_INFO, mr_info, OUT(mr_info, out_state), -ENOENT,
		.first = 112, .reserved = { RESERVED(mr_info, __reserved) }),
	COMMAND(MR_DEREG, mr_dereg, NO_OUT(mr_dereg), -ENOENT,
		.reserved = { RESERVED(mr_dereg, __reserved) }),
	COMMAND(SHARE_CREATE, share_create, OUT(share_create, out_share_id),
		DEPENDS, .flags = MEMOPT_SHARE_F_SINGLE_USE,
		.reserved = { RESERVED(share_create, __reserved),
			      RESERVED(share_create, __reserved2) }),
	COMMAND(SHARE_INFO, share_info, OUT(share_info, out_state), -ENOENT),
	COMMAND(SHARE_DESTROY, share_destroy, NO_OUT(share_destroy), -ENOENT,
		.reserved = { RESERVED(share_destroy, __reserved) }),
};

/* Room for the largest struct the module reads, and more. */
union arg {
	struct {
		uint32_t size;
		uint32_t flags;
	};
	unsigned char bytes[3 * PAGE];
};

static union arg arg;
static int fd;

static void setup(void)
{
	fd = memopt_open();
	require(fd >= 0);
}

static int call(const struct command *c, uint32_t size)
{
	arg.size = size;
	return memopt_ioctl(fd, c->request, &arg);
}

/* The result of a zeroed struct of exactly the right size. */
static int exact(const struct command *c)
{
	int ret;

	memset(&arg, 0, sizeof(arg));
	ret = call(c, c->size);
	if (c->result != DEPENDS)
		require_eq(ret, c->result);
	else
		require(ret < 0);
	memset(&arg, 0, sizeof(arg));
	return ret;
}

static void unknown_numbers(void)
{
	setup();
	memset(&arg, 0, sizeof(arg));
	arg.size = 64;
	for (unsigned int nr = 0; nr < 256; nr++) {
		bool known = false;

		for (size_t i = 0; i < COUNT(commands); i++)
			known |= commands[i].request ==
				 _IO(MEMOPT_IOC_MAGIC, nr);
		if (!known)
			require_eq(memopt_ioctl(fd, _IO(MEMOPT_IOC_MAGIC, nr),
						&arg), -ENOTTY);
		require_eq(memopt_ioctl(fd, _IO(MEMOPT_IOC_MAGIC + 1, nr),
					&arg), -ENOTTY);
	}
}

static void sizes_and_directions_in_numbers(void)
{
	setup();
	for (size_t i = 0; i < COUNT(commands); i++) {
		unsigned int nr = _IOC_NR(commands[i].request);

		exact(&commands[i]);
		arg.size = commands[i].size;
		require_eq(memopt_ioctl(fd, _IOW(MEMOPT_IOC_MAGIC, nr,
						 uint32_t), &arg), -ENOTTY);
		require_eq(memopt_ioctl(fd, _IOR(MEMOPT_IOC_MAGIC, nr,
						 uint32_t), &arg), -ENOTTY);
		require_eq(memopt_ioctl(fd, _IOWR(MEMOPT_IOC_MAGIC, nr,
						  struct memopt_query),
					&arg), -ENOTTY);
	}
}

static void short_structs(void)
{
	setup();
	for (size_t i = 0; i < COUNT(commands); i++) {
		const struct command *c = &commands[i];
		uint32_t first = c->first ? c->first : c->size;
		int ret = exact(c);

		for (uint32_t size = 0; size < first; size++) {
			memset(&arg, 0, sizeof(arg));
			require_eq(call(c, size), -EINVAL);
		}
		/* a program built with an older header: no byte more comes back */
		for (uint32_t size = first; size < c->size; size++) {
			memset(&arg, 0, sizeof(arg));
			memset(arg.bytes + size, 0xa5, 64);
			require_eq(call(c, size), ret);
			for (int n = 0; n < 64; n++)
				require_eq(arg.bytes[size + n], 0xa5);
		}
	}
}

static void long_structs(void)
{
	setup();
	for (size_t i = 0; i < COUNT(commands); i++) {
		const struct command *c = &commands[i];
		const uint32_t sizes[] = {
			c->size + 1, c->size + 8, c->size + 255, PAGE
		};
		int ret = exact(c);

		for (size_t n = 0; n < COUNT(sizes); n++) {
			/* zeros change nothing */
			memset(&arg, 0, sizeof(arg));
			require_eq(call(c, sizes[n]), ret);
			/* bytes behind the size are not looked at */
			memset(&arg, 0, sizeof(arg));
			arg.bytes[sizes[n]] = 1;
			require_eq(call(c, sizes[n]), ret);
			require_eq(arg.bytes[sizes[n]], 1);
			/* the first and the last byte of the tail are */
			memset(&arg, 0, sizeof(arg));
			arg.bytes[c->size] = 1;
			require_eq(call(c, sizes[n]), -E2BIG);
			memset(&arg, 0, sizeof(arg));
			arg.bytes[sizes[n] - 1] = 0x80;
			require_eq(call(c, sizes[n]), -E2BIG);
		}
		memset(&arg, 0, sizeof(arg));
		require_eq(call(c, PAGE + 1), -E2BIG);
		require_eq(call(c, UINT32_MAX), -E2BIG);
	}
}

static void unknown_flags(void)
{
	setup();
	for (size_t i = 0; i < COUNT(commands); i++) {
		for (unsigned int bit = 0; bit < 32; bit++) {
			exact(&commands[i]);
			arg.flags = 1U << bit;
			if (!(arg.flags & commands[i].flags))
				require_eq(call(&commands[i],
						commands[i].size), -EOPNOTSUPP);
		}
	}
}

static void reserved_members(void)
{
	unsigned int tried = 0;

	setup();
	for (size_t i = 0; i < COUNT(commands); i++) {
		for (size_t n = 0; n < 2; n++) {
			if (commands[i].reserved[n] == NO_MEMBER)
				continue;
			exact(&commands[i]);
			arg.bytes[commands[i].reserved[n]] = 1;
			require_eq(call(&commands[i], commands[i].size),
				   -EOPNOTSUPP);
			tried++;
		}
	}
	require_eq(tried, 10);
}

/* Only members that are not reserved: those stay zero. */
static void results_are_ignored_on_input(void)
{
	static const struct memopt_query zero;
	struct memopt_query query;
	struct memopt_region_info region;
	struct memopt_buf_alloc buf;
	struct memopt_buf_info info;

	setup();
	memset(&query, 0xff, sizeof(query));
	query.size = sizeof(query);
	query.flags = 0;
	query.__reserved = 0;
	require_eq(memopt_ioctl(fd, MEMOPT_QUERY, &query), 0);
	require_eq(query.out_uapi_version, MEMOPT_UAPI_VERSION);
	require(memcmp(&query, &zero, sizeof(query)) != 0);

	memset(&region, 0xff, sizeof(region));
	region.size = sizeof(region);
	region.flags = 0;
	region.index = 0;
	region.__reserved = 0;
	region.__reserved2 = 0;
	require_eq(memopt_ioctl(fd, MEMOPT_REGION_INFO, &region), 0);
	require(region.out_total && region.out_total != UINT64_MAX);

	memset(&buf, 0xff, sizeof(buf));
	buf.size = sizeof(buf);
	buf.flags = 0;
	buf.kind = MEMOPT_KIND_ANY;
	buf.node = MEMOPT_NODE_ANY;
	buf.length = PAGE;
	buf.alignment = 0;
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, &buf), 0);
	require_eq(buf.out_segments, 1);

	/* state is made of bits that are set: it must start from nothing */
	memset(&info, 0xff, sizeof(info));
	info.size = sizeof(info);
	info.flags = 0;
	info.buf_id = buf.out_buf_id;
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_INFO, &info), 0);
	require_eq(info.out_state & ~MEMOPT_BUF_STATE_PINNABLE, 0);
	require_eq(info.out_mappings, 0);
	require_eq(info.out_mapping_size, 0);
}

static void bad_memory(void)
{
	unsigned char *pages;

	setup();
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(pages != MAP_FAILED);
	require_eq(munmap(pages + PAGE, PAGE), 0);

	for (size_t i = 0; i < COUNT(commands); i++) {
		const struct command *c = &commands[i];
		void *crossing = pages + PAGE - c->size + 1;

		require_eq(memopt_ioctl(fd, c->request, NULL), -EFAULT);
		require_eq(memopt_ioctl(fd, c->request, pages + PAGE), -EFAULT);
		require_eq(memopt_ioctl(fd, c->request, (void *)-8L), -EFAULT);
		/* the last byte is missing */
		memset(pages, 0, PAGE);
		memcpy(crossing, &c->size, sizeof(c->size));
		require_eq(memopt_ioctl(fd, c->request, crossing), -EFAULT);
		/* the tail is missing */
		memset(pages, 0, PAGE);
		memcpy((unsigned char *)crossing - 1, &(uint32_t){ c->size + 1 },
		       sizeof(uint32_t));
		require_eq(memopt_ioctl(fd, c->request,
					(unsigned char *)crossing - 1),
			   -EFAULT);
	}
}

static uint64_t used_bytes(void)
{
	struct memopt_query query = { .size = sizeof(query) };
	struct memopt_region_info info;
	uint64_t used = 0;

	require_eq(memopt_ioctl(fd, MEMOPT_QUERY, &query), 0);
	for (uint32_t i = 0; i < query.out_region_count; i++) {
		require_eq(region_info(fd, i, &info), 0);
		used += info.out_used;
	}
	require_eq(region_info(fd, query.out_region_count, &info), -ENOENT);
	return used;
}

/* A result that can not be delivered was not produced. */
static void undeliverable_results(void)
{
	struct memopt_buf_alloc *buf;
	struct memopt_buf_info info;

	setup();
	buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(buf != MAP_FAILED);
	*buf = (struct memopt_buf_alloc) {
		.size = sizeof(*buf),
		.node = MEMOPT_NODE_ANY,
		.length = MIB,
	};
	require_eq(mprotect(buf, PAGE, PROT_READ), 0);

	/* enough to reach the limit of objects if the ids stayed taken */
	for (int i = 0; i < 5000; i++)
		require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, buf), -EFAULT);
	require_eq(used_bytes(), 0);
	require_eq(buf_info(fd, 1, &info), -ENOENT);
	/* mmap takes only what is zeroed already */
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CONTIG), 0);

	/* and the file still counts as one without a buffer */
	require(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
		MAP_FAILED);
	require_eq(mprotect(buf, PAGE, PROT_READ | PROT_WRITE), 0);
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_ALLOC, buf), 0);
	require_eq(buf_info(fd, buf->out_buf_id, &info), 0);
}

/* A command without a result needs no memory it may write. */
static void commands_without_results(void)
{
	struct memopt_buf_alloc buf;
	struct memopt_buf_free *arg_free;

	setup();
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, PAGE, 0, &buf), 0);
	arg_free = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(arg_free != MAP_FAILED);
	arg_free->size = sizeof(*arg_free);
	arg_free->buf_id = buf.out_buf_id;
	require_eq(mprotect(arg_free, PAGE, PROT_READ), 0);
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_FREE, arg_free), 0);
	require_eq(memopt_ioctl(fd, MEMOPT_BUF_FREE, arg_free), -ENOENT);
}

static void query_describes(void)
{
	struct memopt_query query = { .size = sizeof(query) };
	struct memopt_region_info info;
	uint64_t features = 0;

	setup();
	require_eq(memopt_ioctl(fd, MEMOPT_QUERY, &query), 0);
	require(query.out_region_count > 0);
	require(query.out_max_objects > 0);
	require(query.out_max_connections > 0);
	for (uint32_t i = 0; i < query.out_region_count; i++) {
		require_eq(region_info(fd, i, &info), 0);
		require(info.out_kind == MEMOPT_KIND_CMA ||
			info.out_kind == MEMOPT_KIND_CONTIG);
		features |= info.out_kind == MEMOPT_KIND_CMA ?
				    MEMOPT_FEATURE_CMA :
				    MEMOPT_FEATURE_CONTIG;
		require_eq(info.out_free + info.out_used +
			   info.out_quarantined + info.out_dirty,
			   info.out_total);
		require(info.out_largest_free <= info.out_free);
		require(info.out_node >= 0);
	}
	require_eq(query.out_features &
		   (MEMOPT_FEATURE_CMA | MEMOPT_FEATURE_CONTIG), features);
}

static const struct ktap_test tests[] = {
	{ "unknown numbers are ENOTTY", unknown_numbers },
	{ "a size or direction in the number is ENOTTY",
	  sizes_and_directions_in_numbers },
	{ "a struct that is too short is EINVAL", short_structs },
	{ "a longer struct may have zeros only", long_structs },
	{ "unknown flags are EOPNOTSUPP", unknown_flags },
	{ "reserved members must be zero", reserved_members },
	{ "out members are ignored on input", results_are_ignored_on_input },
	{ "memory that is not there is EFAULT", bad_memory },
	{ "a result that can not be delivered has no effect",
	  undeliverable_results },
	{ "a command without result writes nothing", commands_without_results },
	{ "QUERY and REGION_INFO agree", query_describes },
};

int main(void)
{
	return ktap_run(tests, COUNT(tests));
}
