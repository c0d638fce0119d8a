/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the region files: region.c hands out and takes back, region_reclaim.c
 * makes freed memory clean again, region_setup.c takes it from the kernel through
 * one of two backends, region_contig.c and region_cma.c.
 */
#ifndef _MEMOPT_REGION_INTERNAL_H
#define _MEMOPT_REGION_INTERNAL_H

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "memopt.h"

struct device;
struct gen_pool;
struct page;

/* A contig and a cma region; a region per node would need more. */
#define MEMOPT_REGIONS_MAX 2

/* Buffers aligned like this can be mapped by 2 MiB pages. */
#define MEMOPT_EXTENT_ALIGNMENT SZ_2M

/**
 * struct memopt_extent - one run of pages in a region
 * @entry: in region->extents
 * @region: owner
 * @pool: which pages are taken; its addresses are physical, so that an alignment
 *	is one of the physical address
 * @page: first page to hand out
 * @nr_pages: how many
 * @whole_page: first page as it came from the kernel
 * @whole_pages: how many; more than @nr_pages where the start was misaligned
 * @dma: cookie of the DMA API, cma only
 */
struct memopt_extent {
	struct list_head entry;
	struct memopt_region *region;
	struct gen_pool *pool;
	struct page *page;
	unsigned long nr_pages;
	struct page *whole_page;
	unsigned long whole_pages;
	dma_addr_t dma;
};

/**
 * struct memopt_backend - where the pages of a kind come from
 * @kind: MEMOPT_KIND_*
 * @name: in messages
 * @remedy: what the administrator can do if @take fails
 * @unavailable: reason why this machine can not have the kind at all, or NULL
 * @take: fill the page members of an extent; 0, -ENOMEM or -EINTR
 * @give: give an extent back; nobody uses it any more, but pages of a pinnable
 *	kind may still be held by others
 * @per_node: @take honours its node; otherwise the kernel chooses
 * @pinnable: user space can hold pages beyond its mappings
 */
struct memopt_backend {
	u32 kind;
	const char *name;
	const char *remedy;
	const char *(*unavailable)(struct device *dev);
	int (*take)(struct memopt_extent *extent, struct device *dev, int node,
		    u64 bytes);
	void (*give)(struct memopt_extent *extent, struct device *dev);
	bool per_node;
	bool pinnable;
};

extern const struct memopt_backend memopt_contig_backend;
extern const struct memopt_backend memopt_cma_backend;

/**
 * struct memopt_region - memory of one kind on one node
 * @backend: kind
 * @node: of the memory
 * @dev: what the memory was taken for
 * @lock: the pools, and together with @list_lock every change of @free
 * @extents: fixed while the region lives
 * @list_lock: everything below; taken inside @lock and in any context
 * @total: bytes, equal to the sum of the next four
 * @free: bytes in the pools, zeroed
 * @used: bytes in ranges that are somebody's
 * @quarantined: bytes in freed ranges seen pinned at the last look
 * @dirty: bytes in other freed ranges
 * @progress: counts how often @dirty shrank
 * @freed: ranges that are quarantined or dirty, unless the worker holds them
 * @reclaim: the worker
 * @delay_ms: to the next look at quarantined ranges; only the worker uses it
 * @progress_wait: for a change of @progress
 */
struct memopt_region {
	const struct memopt_backend *backend;
	int node;
	struct device *dev;

	struct mutex lock; /* pools */
	struct list_head extents;

	spinlock_t list_lock; /* counts and lists */
	u64 total;
	u64 free;
	u64 used;
	u64 quarantined;
	u64 dirty;
	unsigned long progress;
	struct list_head freed;

	struct delayed_work reclaim;
	unsigned int delay_ms;
	wait_queue_head_t progress_wait;
};

/* ---- region.c ---- */

/* Set up before the device can be opened, torn down after its last close. */
extern struct memopt_region *memopt_regions[MEMOPT_REGIONS_MAX];
extern unsigned int memopt_nr_regions;

/* ---- region_reclaim.c ---- */

extern struct workqueue_struct *memopt_reclaim_wq;

void memopt_reclaim_init(struct memopt_region *region);
void memopt_reclaim_now(struct memopt_region *region);
/* Stop the worker for good and forget the ranges; nothing is used any more. */
void memopt_reclaim_exit(struct memopt_region *region);

/* Zero pages nobody can see; skips poisoned ones.  May sleep. */
void memopt_pages_zero(struct page *page, unsigned long nr_pages);

static inline struct page *memopt_page_at(struct page *first,
					  unsigned long index)
{
	return pfn_to_page(page_to_pfn(first) + index);
}

static inline u64 memopt_range_bytes(const struct memopt_range *range)
{
	return (u64)range->nr_pages << PAGE_SHIFT;
}

#endif /* _MEMOPT_REGION_INTERNAL_H */
