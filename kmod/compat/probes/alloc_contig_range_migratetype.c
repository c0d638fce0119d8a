// SPDX-License-Identifier: GPL-2.0
/* The third argument is a migrate type in 6.1 and 6.12; later it is a set of
 * ACR_FLAGS_* (seen 2026-12).
 */
#include <linux/gfp.h>
#include <linux/mmzone.h>

int probe_alloc_contig_range_migratetype(unsigned long pfn);

int probe_alloc_contig_range_migratetype(unsigned long pfn)
{
	unsigned int migratetype = MIGRATE_MOVABLE;

	return alloc_contig_range(pfn, pfn + 1, migratetype, GFP_KERNEL);
}
