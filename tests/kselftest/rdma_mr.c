// SPDX-License-Identifier: GPL-2.0
/*
 * MR_REG, MR_INFO and MR_DEREG: what they accept, what they say, and whom the
 * memory belongs to while an MR exists or its device goes away.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define PAGE 4096UL
#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)

static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };

struct subject {
	int fd;
	struct memopt_buf_alloc buf;
};

static struct subject subject_make(uint32_t kind, uint64_t length,
				   uint64_t alignment)
{
	struct subject s = { .fd = memopt_open() };

	require(s.fd >= 0);
	require_eq(buf_alloc(s.fd, kind, length, alignment, &s.buf), 0);
	return s;
}

static int reg(const struct subject *s, uint32_t access, uint64_t offset,
	       uint64_t length, struct memopt_mr_reg *mr)
{
	return mr_reg(s->fd, s->buf.out_buf_id, access, offset, length, mr);
}

static bool looks_like_kernel_address(uint64_t value)
{
	return value >> 47 == 0x1ffff;
}

static void aligned_buffer_has_few_entries(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct subject s = subject_make(kinds[i], 64 * MIB, 64 * MIB);
		struct memopt_mr_info info;
		struct memopt_mr_reg mr;

		require_eq(reg(&s, RW, 0, 64 * MIB, &mr), 0);
		require(mr.out_entries >= 1 && mr.out_entries <= 32);
		require_eq((uint64_t)mr.out_entries * mr.out_page_size,
			   64 * MIB);
		require_eq(mr_info(s.fd, mr.out_mr_id, &info), 0);
		require_eq(info.out_entries, mr.out_entries);
		require_eq(info.out_page_size, mr.out_page_size);
		require_eq(info.out_rkey, mr.out_rkey);
		require_eq(info.out_iova, mr.out_iova);
		require_eq(info.out_length, 64 * MIB);
		require_eq(info.out_access, RW);
		require_eq(info.out_state, 0);
		require_eq(strcmp(info.out_ibdev, RXE_DEV), 0);
		require_eq(mr_dereg(s.fd, mr.out_mr_id), 0);
		require_eq(mr_info(s.fd, mr.out_mr_id, &info), -ENOENT);
		require_eq(mr_dereg(s.fd, mr.out_mr_id), -ENOENT);
		close(s.fd);
	}
}

static void keys_and_iovas_vary(void)
{
	enum { ROUNDS = 8 };

	for (size_t i = 0; i < 2; i++) {
		struct subject s = subject_make(kinds[i], 4 * MIB, 2 * MIB);
		struct memopt_mr_reg mr[ROUNDS];

		for (int n = 0; n < ROUNDS; n++) {
			require_eq(reg(&s, RW, 0, 4 * MIB, &mr[n]), 0);
			require(mr[n].out_iova != 0);
			require(mr[n].out_rkey != 0);
			require(!looks_like_kernel_address(mr[n].out_iova));
			require(mr[n].out_iova + 4 * MIB > mr[n].out_iova);
			/* congruent, or entries would not cover pages */
			require_eq(mr[n].out_iova % PAGE, 0);
			for (int m = 0; m < n; m++) {
				require(mr[n].out_iova != mr[m].out_iova);
				require(mr[n].out_rkey != mr[m].out_rkey);
			}
			require_eq(mr_dereg(s.fd, mr[n].out_mr_id), 0);
		}
		close(s.fd);
	}
}

static void rights_are_validated(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, MIB, 0);
	struct memopt_mr_reg mr;

	require_eq(reg(&s, MEMOPT_ACCESS_REMOTE_WRITE, 0, MIB, &mr), -EINVAL);
	require_eq(reg(&s, MEMOPT_ACCESS_REMOTE_ATOMIC, 0, MIB, &mr), -EINVAL);
	require_eq(reg(&s, 1U << 20, 0, MIB, &mr), -EOPNOTSUPP);
	require_eq(reg(&s, 0, 0, MIB, &mr), 0);
	require_eq(mr_dereg(s.fd, mr.out_mr_id), 0);
	require_eq(reg(&s, MEMOPT_ACCESS_REMOTE_READ, 0, MIB, &mr), 0);
	require_eq(mr_dereg(s.fd, mr.out_mr_id), 0);
}

static void ranges_are_validated(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, MIB, 0);
	struct memopt_mr_reg mr;

	require_eq(reg(&s, RW, 512, PAGE, &mr), -EINVAL);
	require_eq(reg(&s, RW, 0, PAGE + 1, &mr), -EINVAL);
	require_eq(reg(&s, RW, 0, 0, &mr), -EINVAL);
	require_eq(reg(&s, RW, 0, MIB + PAGE, &mr), -EINVAL);
	require_eq(reg(&s, RW, MIB, PAGE, &mr), -EINVAL);
	require_eq(reg(&s, RW, -PAGE, 2 * PAGE, &mr), -EOVERFLOW);
	require_eq(mr_reg(s.fd, s.buf.out_buf_id + 1000, RW, 0, MIB, &mr),
		   -ENOENT);
	/* none of these left anything behind */
	require_eq(reg(&s, RW, 0, MIB, &mr), 0);
}

static void sub_ranges_register(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct subject s = subject_make(kinds[i], 8 * MIB, 2 * MIB);
		struct memopt_mr_reg whole, part, page;

		require_eq(reg(&s, RW, 0, 8 * MIB, &whole), 0);
		require_eq(reg(&s, RW, 2 * MIB, 4 * MIB, &part), 0);
		require_eq((uint64_t)part.out_entries * part.out_page_size,
			   4 * MIB);
		require_eq(reg(&s, MEMOPT_ACCESS_REMOTE_READ, 3 * PAGE, PAGE,
			       &page), 0);
		require_eq(page.out_entries, 1);
		require_eq(page.out_page_size, PAGE);
		require(whole.out_rkey != part.out_rkey);
		close(s.fd);
	}
}

static void unknown_device_is_enodev(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, MIB, 0);
	struct memopt_mr_reg mr = {
		.size = sizeof(mr),
		.buf_id = s.buf.out_buf_id,
		.access = RW,
		.length = MIB,
		.ibdev = "nosuchdevice0",
	};

	require_eq(memopt_ioctl(s.fd, MEMOPT_MR_REG, &mr), -ENODEV);
	/* a name without an end is no name */
	memset(mr.ibdev, 'a', sizeof(mr.ibdev));
	require_eq(memopt_ioctl(s.fd, MEMOPT_MR_REG, &mr), -EINVAL);
}

static void mr_keeps_freed_buffer(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct subject s = subject_make(kinds[i], 4 * MIB, 0);
		struct memopt_region_info region;
		struct memopt_mr_reg mr;
		uint64_t used;

		require_eq(region_find(s.fd, kinds[i], &region), 0);
		used = region.out_used;
		require(used >= 4 * MIB);
		require_eq(reg(&s, RW, 0, MIB, &mr), 0);
		require_eq(buf_free(s.fd, s.buf.out_buf_id), 0);
		require_eq(region_find(s.fd, kinds[i], &region), 0);
		require_eq(region.out_used, used);
		require_eq(mr_dereg(s.fd, mr.out_mr_id), 0);
		require_eq(region_wait_idle(s.fd, kinds[i]), 0);
		close(s.fd);
	}
}

static void ids_have_types(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, MIB, 0);
	struct memopt_mr_info info;
	struct memopt_mr_reg mr;

	require_eq(mr_info(s.fd, s.buf.out_buf_id, &info), -ENOENT);
	require_eq(mr_dereg(s.fd, s.buf.out_buf_id), -ENOENT);
	require_eq(reg(&s, RW, 0, MIB, &mr), 0);
	require(mr.out_mr_id != s.buf.out_buf_id);
	require_eq(buf_free(s.fd, mr.out_mr_id), -ENOENT);
	require_eq(mr_info(s.fd, mr.out_mr_id, &info), 0);
}

static void ids_belong_to_one_file(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, MIB, 0);
	struct memopt_mr_info info;
	struct memopt_mr_reg mr;
	int other = memopt_open();

	require(other >= 0);
	require_eq(reg(&s, RW, 0, MIB, &mr), 0);
	require_eq(mr_info(other, mr.out_mr_id, &info), -ENOENT);
	require_eq(mr_dereg(other, mr.out_mr_id), -ENOENT);
	require_eq(mr_info(s.fd, mr.out_mr_id, &info), 0);
}

static void device_removal_kills_mr(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CMA, 4 * MIB, 0);
	struct memopt_mr_info info;
	struct memopt_mr_reg mr, again;

	require_eq(reg(&s, RW, 0, 4 * MIB, &mr), 0);
	require_eq(rxe_remove(), 0);
	require_eq(mr_info(s.fd, mr.out_mr_id, &info), 0);
	require_eq(info.out_state, MEMOPT_MR_STATE_DEVICE_GONE);
	require_eq(reg(&s, RW, 0, 4 * MIB, &again), -ENODEV);

	require_eq(rxe_restore(), 0);
	/* the new device of that name does not bring the old MR back */
	require_eq(mr_info(s.fd, mr.out_mr_id, &info), 0);
	require_eq(info.out_state, MEMOPT_MR_STATE_DEVICE_GONE);
	require_eq(reg(&s, RW, 0, 4 * MIB, &again), 0);
	require_eq(mr_dereg(s.fd, mr.out_mr_id), 0);
	require_eq(mr_dereg(s.fd, again.out_mr_id), 0);
	require_eq(buf_free(s.fd, s.buf.out_buf_id), 0);
	require_eq(region_wait_idle(s.fd, MEMOPT_KIND_CMA), 0);
}

static void device_removal_outlives_owner(void)
{
	struct subject s = subject_make(MEMOPT_KIND_CONTIG, 4 * MIB, 0);
	struct memopt_mr_reg mr;
	int other = memopt_open();

	require(other >= 0);
	require_eq(reg(&s, RW, 0, 4 * MIB, &mr), 0);
	require_eq(rxe_remove(), 0);
	close(s.fd);
	require_eq(region_wait_idle(other, MEMOPT_KIND_CONTIG), 0);
	require_eq(rxe_restore(), 0);
}

static const struct ktap_test tests[] = {
	{ "an aligned 64 MiB buffer needs at most 32 entries",
	  aligned_buffer_has_few_entries },
	{ "keys and iovas vary and are no kernel addresses",
	  keys_and_iovas_vary },
	{ "rights are validated", rights_are_validated },
	{ "ranges are validated", ranges_are_validated },
	{ "sub-ranges register", sub_ranges_register },
	{ "an unknown device is ENODEV", unknown_device_is_enodev },
	{ "an MR keeps the memory of a freed buffer", mr_keeps_freed_buffer },
	{ "ids have types", ids_have_types },
	{ "ids belong to one file", ids_belong_to_one_file },
	{ "removing the device kills the MR and leaves a dead id",
	  device_removal_kills_mr },
	{ "closing the file after device removal frees the memory",
	  device_removal_outlives_owner },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
