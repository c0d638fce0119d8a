// SPDX-License-Identifier: GPL-2.0
/*
 * Pages from the kernel's contiguous memory area, by way of the DMA API and a
 * device of our own.  They are only ever mapped by frame number: a long-term pin
 * of such a page as an ordinary one would try for ever to migrate it away.
 */
#include <linux/cc_platform.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/mm.h>

#include "compat/compat.h"
#include "region_internal.h"

#define MEMOPT_CMA_GFP (GFP_KERNEL | __GFP_NOWARN)

static const char *memopt_cma_unavailable(struct device *dev)
{
	/* The DMA API would hand out decrypted pages, or bounce buffers. */
	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT))
		return "memory encryption is active";
	if (!IS_ENABLED(CONFIG_CMA))
		return "this kernel is built without CONFIG_CMA";
	if (memopt_cma_absent(dev))
		return "there is no CMA area (boot with cma=SIZE)";
	return NULL;
}

/* What the API returned must be plain pages of one node in one run. */
static bool memopt_cma_contiguous(const struct memopt_extent *extent)
{
	unsigned long pfn = page_to_pfn(extent->whole_page);
	int node = page_to_nid(extent->whole_page);
	unsigned long i;

	for (i = 0; i < extent->whole_pages; i++) {
		if (!pfn_valid(pfn + i) ||
		    page_to_nid(pfn_to_page(pfn + i)) != node)
			return false;
	}
	/* Highmem or remapped memory would not be reached by one address. */
	return !PageHighMem(extent->whole_page) &&
	       !is_vmalloc_addr(page_address(extent->whole_page));
}

static void memopt_cma_give(struct memopt_extent *extent, struct device *dev)
{
	dma_free_pages(dev, extent->whole_pages << PAGE_SHIFT,
		       extent->whole_page, extent->dma, DMA_BIDIRECTIONAL);
}

static int memopt_cma_take_whole(struct memopt_extent *extent,
				 struct device *dev, u64 bytes)
{
	extent->whole_page = dma_alloc_pages(dev, bytes, &extent->dma,
					     DMA_BIDIRECTIONAL, MEMOPT_CMA_GFP);
	if (!extent->whole_page)
		return -ENOMEM;
	extent->whole_pages = bytes >> PAGE_SHIFT;

	if (!memopt_cma_contiguous(extent)) {
		memopt_cma_give(extent, dev);
		return -ENOMEM;
	}
	return 0;
}

static int memopt_cma_take(struct memopt_extent *extent, struct device *dev,
			   int node, u64 bytes)
{
	phys_addr_t base, aligned;
	int ret;

	ret = memopt_cma_take_whole(extent, dev, bytes);
	if (ret)
		return ret;

	/*
	 * The area aligns to CONFIG_CMA_ALIGNMENT pages, 1 MiB by default, which
	 * is too little for 2 MiB pages: take more and leave out the head.  If
	 * there is no more, the misaligned run is better than none.
	 */
	base = page_to_phys(extent->whole_page);
	if (bytes >= MEMOPT_EXTENT_ALIGNMENT &&
	    !IS_ALIGNED(base, MEMOPT_EXTENT_ALIGNMENT)) {
		memopt_cma_give(extent, dev);
		ret = memopt_cma_take_whole(extent, dev,
					    bytes + MEMOPT_EXTENT_ALIGNMENT);
		if (ret)
			ret = memopt_cma_take_whole(extent, dev, bytes);
		if (ret)
			return ret;
		base = page_to_phys(extent->whole_page);
	}

	aligned = ALIGN(base, MEMOPT_EXTENT_ALIGNMENT);
	if (aligned + bytes > base + ((u64)extent->whole_pages << PAGE_SHIFT))
		aligned = base;
	extent->page = pfn_to_page(PHYS_PFN(aligned));
	extent->nr_pages = bytes >> PAGE_SHIFT;
	return 0;
}

const struct memopt_backend memopt_cma_backend = {
	.kind = MEMOPT_KIND_CMA,
	.name = "cma",
	.remedy = "boot with a larger cma= or load with a smaller cma_size=",
	.unavailable = memopt_cma_unavailable,
	.take = memopt_cma_take,
	.give = memopt_cma_give,
	.per_node = false,
	.pinnable = false,
};
