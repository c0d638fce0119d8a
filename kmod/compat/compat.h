/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One interface for every supported kernel.  What a kernel offers is found out by
 * compiling compat/probes/NAME.c, which gives MEMOPT_HAVE_NAME; only files in this
 * directory may look at those macros or at kernel versions.
 */
#ifndef _MEMOPT_COMPAT_H
#define _MEMOPT_COMPAT_H

#include <linux/types.h>

#include "probes.h"
#include "mm.h"
#include "rdma.h"

struct device;
struct page;

/* ---- contig.c: ordinary pages in one run ---- */

/**
 * memopt_contig_alloc - take physically contiguous, ordinary pages
 * @nr_pages: how many
 * @align_pages: of the first page's frame number, a power of two
 * @node: the memory's NUMA node
 *
 * The pages are not compound: each has a reference of its own, count 1.  They are
 * neither in a CMA area nor in ZONE_MOVABLE, so pinning them never migrates.  The
 * content is undefined.  May sleep and take long.
 *
 * Return: the first page, or NULL.
 */
struct page *memopt_contig_alloc(unsigned long nr_pages,
				 unsigned long align_pages, int node);

/* Give back pages of which every count is 1. */
void memopt_contig_free(struct page *page, unsigned long nr_pages);

/**
 * memopt_cma_absent - there is certainly no CMA area behind the DMA API
 *
 * False where the kernel does not tell modules; an allocation then finds out.
 */
bool memopt_cma_absent(struct device *dev);

#endif /* _MEMOPT_COMPAT_H */
