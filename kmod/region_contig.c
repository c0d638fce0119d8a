// SPDX-License-Identifier: GPL-2.0
/*
 * Ordinary pages in one run.  They are mapped as ordinary pages, so user space can
 * pin them; every page has a reference of its own, which is how a pin shows and how
 * a page can outlive the region.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "compat/compat.h"
#include "region_internal.h"

static const char *memopt_contig_unavailable(struct device *dev)
{
	return NULL;
}

static int memopt_contig_take(struct memopt_extent *extent, struct device *dev,
			      int node, u64 bytes)
{
	unsigned long nr_pages = bytes >> PAGE_SHIFT;
	unsigned long align = min_t(unsigned long, rounddown_pow_of_two(nr_pages),
				    MEMOPT_MAX_ALIGNMENT >> PAGE_SHIFT);
	unsigned long enough = min_t(unsigned long, align,
				     MEMOPT_EXTENT_ALIGNMENT >> PAGE_SHIFT);
	struct page *page;

	/* The best alignment first; on a fragmented machine a lesser one will do. */
	page = memopt_contig_alloc(nr_pages, align, node);
	if (!page && align != enough)
		page = memopt_contig_alloc(nr_pages, enough, node);
	if (!page)
		return fatal_signal_pending(current) ? -EINTR : -ENOMEM;

	extent->page = page;
	extent->nr_pages = nr_pages;
	extent->whole_page = page;
	extent->whole_pages = nr_pages;
	return 0;
}

/*
 * Pages somebody still holds are left to their holders: dropping our reference
 * makes the last of them free the page.
 */
static void memopt_contig_give(struct memopt_extent *extent, struct device *dev)
{
	unsigned long i;

	for (i = 0; i < extent->whole_pages; i++) {
		if (page_count(memopt_page_at(extent->whole_page, i)) != 1)
			break;
		cond_resched();
	}
	if (i == extent->whole_pages) {
		memopt_contig_free(extent->whole_page, extent->whole_pages);
		return;
	}

	for (i = 0; i < extent->whole_pages; i++) {
		put_page(memopt_page_at(extent->whole_page, i));
		cond_resched();
	}
}

const struct memopt_backend memopt_contig_backend = {
	.kind = MEMOPT_KIND_CONTIG,
	.name = "contig",
	.remedy = "load the module earlier, at boot, or with a smaller contig_size=",
	.unavailable = memopt_contig_unavailable,
	.take = memopt_contig_take,
	.give = memopt_contig_give,
	.per_node = true,
	.pinnable = true,
};
