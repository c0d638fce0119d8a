// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of pages out of the regions.
 *
 * Free memory is zeroed memory, so taking a range only sets bits in a genalloc
 * pool.  Giving one up only moves it to a list, because the last reference to a
 * buffer may go in any context; the rest is done by region_reclaim.c.
 *
 * A pool is searched under region->lock, a mutex, since a search through a large
 * region is long.  The byte counts change together with it or with the lists
 * under region->list_lock, a spinlock; whoever wants to see them all at one
 * instant takes both.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/genalloc.h>
#include <linux/mm.h>

#include "compat/slab.h"
#include "region_internal.h"

struct memopt_region *memopt_regions[MEMOPT_REGIONS_MAX];
unsigned int memopt_nr_regions;

static bool memopt_region_matches(const struct memopt_region *region, u32 kind,
				  int node)
{
	if (node != MEMOPT_NODE_ANY && node != region->node)
		return false;

	switch (kind) {
	case MEMOPT_KIND_ANY:
		return true;
	case MEMOPT_KIND_PINNABLE:
		return region->backend->pinnable;
	default:
		return kind == region->backend->kind;
	}
}

/* Set the range's extent and page; false if there is no such run. */
static bool memopt_region_take(struct memopt_region *region,
			       struct memopt_range *range)
{
	struct genpool_data_align align = { .align = range->alignment };
	u64 bytes = memopt_range_bytes(range);
	struct memopt_extent *extent;
	unsigned long address = 0;

	mutex_lock(&region->lock);
	list_for_each_entry(extent, &region->extents, entry) {
		address = gen_pool_alloc_algo(extent->pool, bytes,
					      gen_pool_first_fit_align, &align);
		if (address)
			break;
	}
	if (address) {
		range->region = region;
		range->extent = extent;
		range->page = pfn_to_page(PHYS_PFN(address));

		spin_lock_irq(&region->list_lock);
		region->free -= bytes;
		region->used += bytes;
		spin_unlock_irq(&region->list_lock);
	}
	mutex_unlock(&region->lock);

	return address;
}

/*
 * Whether zeroing what is dirty could make room for that many bytes.  Quarantined
 * memory does not count: whoever pins it may do so for ever.
 */
static bool memopt_region_may_improve(struct memopt_region *region, u64 bytes,
				      unsigned long *progress)
{
	bool improve;

	spin_lock_irq(&region->list_lock);
	improve = region->dirty && bytes <= region->free + region->dirty;
	*progress = region->progress;
	spin_unlock_irq(&region->list_lock);

	return improve;
}

static int memopt_region_take_wait(struct memopt_region *region,
				   struct memopt_range *range)
{
	unsigned long progress;
	bool improve;
	int ret;

	do {
		/* Look before trying: what is reclaimed meanwhile is not missed. */
		improve = memopt_region_may_improve(region,
						    memopt_range_bytes(range),
						    &progress);
		if (memopt_region_take(region, range))
			return 0;
		if (!improve)
			return -ENOMEM;

		ret = wait_event_killable(region->progress_wait,
					  READ_ONCE(region->progress) !=
						  progress);
	} while (!ret);

	return ret;
}

struct memopt_range *memopt_range_alloc(u32 kind, int node, u64 length,
					u64 alignment, enum memopt_wait wait)
{
	struct memopt_range *range;
	unsigned int i;
	int ret = -ENODEV;

	if (WARN_ON_ONCE(!length || !PAGE_ALIGNED(length) ||
			 !is_power_of_2(alignment) || alignment < PAGE_SIZE ||
			 alignment > MEMOPT_MAX_ALIGNMENT))
		return ERR_PTR(-EINVAL);

	range = kzalloc_obj(*range, GFP_KERNEL_ACCOUNT);
	if (!range)
		return ERR_PTR(-ENOMEM);
	range->nr_pages = length >> PAGE_SHIFT;
	range->alignment = alignment;
	INIT_LIST_HEAD(&range->entry);

	/* What is free at once in any region beats waiting for a better one. */
	for (i = 0; i < memopt_nr_regions; i++) {
		struct memopt_region *region = memopt_regions[i];

		if (!memopt_region_matches(region, kind, node))
			continue;
		if (memopt_region_take(region, range))
			return range;
		ret = -ENOMEM;
	}

	for (i = 0; i < memopt_nr_regions && wait == MEMOPT_MAY_WAIT; i++) {
		struct memopt_region *region = memopt_regions[i];

		if (!memopt_region_matches(region, kind, node))
			continue;
		ret = memopt_region_take_wait(region, range);
		if (!ret)
			return range;
		if (ret != -ENOMEM)
			break;
	}

	kfree(range);
	return ERR_PTR(ret);
}

void memopt_range_release(struct memopt_range *range)
{
	struct memopt_region *region = range->region;
	u64 bytes = memopt_range_bytes(range);
	unsigned long flags;

	spin_lock_irqsave(&region->list_lock, flags);
	list_add_tail(&range->entry, &region->freed);
	region->used -= bytes;
	region->dirty += bytes;
	spin_unlock_irqrestore(&region->list_lock, flags);

	memopt_reclaim_now(region);
}

u32 memopt_range_kind(const struct memopt_range *range)
{
	return range->region->backend->kind;
}

int memopt_range_node(const struct memopt_range *range)
{
	return range->region->node;
}

u32 memopt_region_count(void)
{
	return memopt_nr_regions;
}

u64 memopt_region_features(void)
{
	u64 features = 0;
	unsigned int i;

	if (IS_ENABLED(CONFIG_CMA))
		features |= MEMOPT_FEATURE_KERNEL_CMA;
	for (i = 0; i < memopt_nr_regions; i++) {
		if (memopt_regions[i]->backend->kind == MEMOPT_KIND_CMA)
			features |= MEMOPT_FEATURE_CMA;
		else
			features |= MEMOPT_FEATURE_CONTIG;
	}
	return features;
}

/* Longest run of clear bits; an answer of the moment, under region->lock. */
static void memopt_chunk_largest(struct gen_pool *pool,
				 struct gen_pool_chunk *chunk, void *data)
{
	size_t size = chunk->end_addr - chunk->start_addr + 1;
	unsigned long nr_bits = size >> PAGE_SHIFT;
	unsigned long *largest = data;
	unsigned long start, end;

	for_each_clear_bitrange(start, end, chunk->bits, nr_bits)
		if (end - start > *largest)
			*largest = end - start;
}

int memopt_region_query(struct memopt_region_info *info)
{
	unsigned long largest = 0;
	struct memopt_region *region;
	struct memopt_extent *extent;

	if (info->index >= memopt_nr_regions)
		return -ENOENT;
	region = memopt_regions[info->index];

	info->out_kind = region->backend->kind;
	info->out_node = region->node;

	mutex_lock(&region->lock);
	list_for_each_entry(extent, &region->extents, entry)
		gen_pool_for_each_chunk(extent->pool, memopt_chunk_largest,
					&largest);
	spin_lock_irq(&region->list_lock);
	info->out_total = region->total;
	info->out_free = region->free;
	info->out_used = region->used;
	info->out_quarantined = region->quarantined;
	info->out_dirty = region->dirty;
	spin_unlock_irq(&region->list_lock);
	mutex_unlock(&region->lock);

	info->out_largest_free = (u64)largest << PAGE_SHIFT;
	return 0;
}
