// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters.  All are read when the module loads and can not be changed
 * later, so nobody has to lock against a change.  A value that makes no sense
 * refuses the load with a message; it is never corrected silently.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "params.h"

/* Far above any machine; keeps sums of sizes from overflowing. */
#define MEMOPT_REGION_MAX (64ULL << 40)

/* Bits to shift by for a suffix, or -1. */
static int memopt_suffix_shift(char suffix)
{
	switch (suffix) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	case 'T':
	case 't':
		return 40;
	}
	return -1;
}

/* Stricter than memparse(), which ignores both trailing junk and overflow. */
static int memopt_parse_size(const char *val, u64 *bytes)
{
	char digits[24];
	int shift = 0;
	u64 number;
	size_t len;
	int ret;

	if (strscpy(digits, val, sizeof(digits)) < 0)
		return -EINVAL;
	len = strlen(digits);
	if (len && digits[len - 1] == '\n')
		digits[--len] = '\0';
	if (len) {
		int by_suffix = memopt_suffix_shift(digits[len - 1]);

		if (by_suffix >= 0) {
			shift = by_suffix;
			digits[--len] = '\0';
		}
	}

	ret = kstrtou64(digits, 0, &number);
	if (ret)
		return ret;
	if (number > MEMOPT_REGION_MAX >> shift)
		return -ERANGE;
	*bytes = number << shift;
	return 0;
}

static int memopt_size_set(const char *val, const struct kernel_param *kp)
{
	struct memopt_size_param *size = kp->arg;
	u64 bytes;
	int ret;

	/* "contig_size" without "=" */
	if (!val)
		return -EINVAL;

	ret = memopt_parse_size(val, &bytes);
	if (!ret && !PAGE_ALIGNED(bytes))
		ret = -EINVAL;
	if (ret) {
		pr_err("%s=%s is not a size: use 0, or bytes with an optional K, M, G or T, in multiples of %lu, at most 64T\n",
		       kp->name, val, PAGE_SIZE);
		return ret;
	}

	size->bytes = bytes;
	size->given = true;
	return 0;
}

static int memopt_size_get(char *buffer, const struct kernel_param *kp)
{
	const struct memopt_size_param *size = kp->arg;

	return sysfs_emit(buffer, "%llu\n", size->bytes);
}

static const struct kernel_param_ops memopt_size_ops = {
	.set = memopt_size_set,
	.get = memopt_size_get,
};

struct memopt_size_param memopt_contig_size = { .bytes = SZ_128M };
module_param_cb(contig_size, &memopt_size_ops, &memopt_contig_size, 0444);
MODULE_PARM_DESC(contig_size,
		 "Bytes of pinnable contiguous memory, 0 for none (default 128M)");

struct memopt_size_param memopt_cma_size = { .bytes = SZ_128M };
module_param_cb(cma_size, &memopt_size_ops, &memopt_cma_size, 0444);
MODULE_PARM_DESC(cma_size,
		 "Bytes to take from the kernel's CMA area, 0 for none (default 128M if there is an area)");

/* Counts: at least one, or the feature would be off in a way nobody reports. */
static int memopt_count_set(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 65536);
}

static const struct kernel_param_ops memopt_count_ops = {
	.set = memopt_count_set,
	.get = param_get_uint,
};

bool memopt_share_unprivileged;
module_param_named(share_unprivileged, memopt_share_unprivileged, bool, 0444);
MODULE_PARM_DESC(share_unprivileged,
		 "Let everybody who can open the device create shares (default: CAP_NET_ADMIN only)");

unsigned int memopt_max_connections = 64;
module_param_cb(max_connections, &memopt_count_ops, &memopt_max_connections,
		0444);
MODULE_PARM_DESC(max_connections,
		 "Connections one share accepts at a time, 1 to 65536 (default 64)");

unsigned int memopt_max_shares = 64;
module_param_cb(max_shares, &memopt_count_ops, &memopt_max_shares, 0444);
MODULE_PARM_DESC(max_shares,
		 "Shares in the module at a time, 1 to 65536 (default 64)");
