// SPDX-License-Identifier: GPL-2.0
/*
 * Runs of ordinary pages.  Kernels that export alloc_contig_pages() search for a
 * run themselves; the others only take a range they are told, so this file does
 * the searching.
 */
#include <linux/device.h>
#include <linux/dma-map-ops.h>
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "compat.h"

/* Reclaim may try hard, but a failure is an answer, not news for the log. */
#define MEMOPT_CONTIG_GFP (GFP_KERNEL | __GFP_NOWARN)

static int memopt_contig_take(unsigned long pfn, unsigned long nr_pages)
{
#ifdef MEMOPT_HAVE_ALLOC_CONTIG_RANGE_ACR_FLAGS
	return alloc_contig_range(pfn, pfn + nr_pages, ACR_FLAGS_NONE,
				  MEMOPT_CONTIG_GFP);
#else
	/* Not MIGRATE_CMA: ranges inside a CMA area are then refused. */
	return alloc_contig_range(pfn, pfn + nr_pages, MIGRATE_MOVABLE,
				  MEMOPT_CONTIG_GFP);
#endif
}

/*
 * A cheap look before the expensive attempt.  Returns the first frame that rules
 * the range out, or its end.  Racy by nature; the attempt itself is safe.
 */
static unsigned long memopt_contig_obstacle(struct zone *zone, unsigned long pfn,
					    unsigned long end)
{
	for (; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || page_zone(page) != zone || PageReserved(page))
			break;
		if (!(pfn % pageblock_nr_pages))
			cond_resched();
	}
	return pfn;
}

static struct page *memopt_contig_search(struct zone *zone,
					 unsigned long nr_pages,
					 unsigned long align_pages)
{
	unsigned long pfn = ALIGN(zone->zone_start_pfn, align_pages);
	unsigned long zone_end = zone_end_pfn(zone);

	while (pfn < zone_end && nr_pages <= zone_end - pfn) {
		unsigned long end = pfn + nr_pages;
		unsigned long obstacle;

		if (fatal_signal_pending(current))
			return NULL;

		obstacle = memopt_contig_obstacle(zone, pfn, end);
		if (obstacle == end && !memopt_contig_take(pfn, nr_pages))
			return pfn_to_page(pfn);

		if (obstacle == end)
			pfn += align_pages;
		else
			pfn = ALIGN(obstacle + 1, align_pages);
	}
	return NULL;
}

struct page *memopt_contig_alloc(unsigned long nr_pages,
				 unsigned long align_pages, int node)
{
	int index;

#ifdef MEMOPT_HAVE_ALLOC_CONTIG_PAGES
	/* It aligns a power of two to itself, and tries nothing else. */
	if (is_power_of_2(nr_pages) && align_pages == nr_pages) {
		nodemask_t only = nodemask_of_node(node);

		return alloc_contig_pages(nr_pages, MEMOPT_CONTIG_GFP, node,
					  &only);
	}
#endif
	/*
	 * Not ZONE_MOVABLE: a long-term pin would have to migrate the pages.  The
	 * zones below hold most memory of a small machine.
	 */
	for (index = ZONE_NORMAL; index >= 0; index--) {
		struct zone *zone = &NODE_DATA(node)->node_zones[index];
		struct page *page;

		if (!zone_managed_pages(zone))
			continue;
		page = memopt_contig_search(zone, nr_pages, align_pages);
		if (page)
			return page;
	}
	return NULL;
}

void memopt_contig_free(struct page *page, unsigned long nr_pages)
{
	free_contig_range(page_to_pfn(page), nr_pages);
}

bool memopt_cma_absent(struct device *dev)
{
	if (!IS_ENABLED(CONFIG_DMA_CMA))
		return true;
#ifdef MEMOPT_HAVE_DEV_GET_CMA_AREA
	return !dev_get_cma_area(dev);
#else
	return false;
#endif
}
