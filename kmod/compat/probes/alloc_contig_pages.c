// SPDX-License-Identifier: GPL-2.0
/* Declared since 5.5; exported by 7.3, not by 6.1 and 6.12 (seen 2026-12). */
#include <linux/gfp.h>

struct page *probe_alloc_contig_pages(int node);

struct page *probe_alloc_contig_pages(int node)
{
	return alloc_contig_pages(1, GFP_KERNEL, node, NULL);
}
