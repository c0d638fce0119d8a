// SPDX-License-Identifier: GPL-2.0
/* The third argument is a set of ACR_FLAGS_* in 7.3, a migrate type in 6.1 and
 * 6.12 (seen 2026-12).
 */
#include <linux/gfp.h>

int probe_alloc_contig_range_acr_flags(unsigned long pfn);

int probe_alloc_contig_range_acr_flags(unsigned long pfn)
{
	return alloc_contig_range(pfn, pfn + 1, ACR_FLAGS_NONE, GFP_KERNEL);
}
