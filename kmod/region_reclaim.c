// SPDX-License-Identifier: GPL-2.0
/*
 * From freed to free.
 *
 * A freed range of pinnable memory may still be pinned by somebody who is no
 * object of ours: a user MR, an io_uring buffer, a pipe.  Its buffer is gone, and
 * with it every mapping, so nobody can take a new reference; the ones that exist
 * show in the page counts.  Until all are gone the range is quarantined and looked
 * at again, less and less often.  A page once seen unpinned stays so, hence a look
 * goes on where the last one stopped.
 *
 * Zeroing holds no lock.  The worker owns the ranges it works on: they are on its
 * own lists and nobody else's.
 */
#include <linux/genalloc.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "region_internal.h"

/* An unpin that is under way takes microseconds; an MR may live for days. */
#define MEMOPT_LOOK_FIRST_MS 4
#define MEMOPT_LOOK_LAST_MS 1000

struct workqueue_struct *memopt_reclaim_wq;

void memopt_pages_zero(struct page *page, unsigned long nr_pages)
{
	unsigned long i;

	for (i = 0; i < nr_pages; i++) {
		struct page *this = memopt_page_at(page, i);

		if (!PageHWPoison(this))
			clear_highpage(this);
		cond_resched();
	}
}

/* Does anybody besides the region hold a page of the range? */
static bool memopt_range_pinned(struct memopt_range *range)
{
	if (!range->region->backend->pinnable)
		return false;

	for (; range->unpinned < range->nr_pages; range->unpinned++) {
		struct page *page = memopt_page_at(range->page, range->unpinned);

		/* The kernel keeps a reference on a page with a memory error. */
		if (page_count(page) != 1 && !PageHWPoison(page))
			return true;
		cond_resched();
	}
	/* What the last holders did to the pages comes before what we do. */
	smp_mb();
	return false;
}

/* Move a range's bytes between the counts if its state changed. */
static void memopt_range_set_quarantined(struct memopt_range *range,
					 bool quarantined)
{
	struct memopt_region *region = range->region;
	u64 bytes = memopt_range_bytes(range);

	if (range->quarantined == quarantined)
		return;
	range->quarantined = quarantined;

	spin_lock_irq(&region->list_lock);
	if (quarantined) {
		region->dirty -= bytes;
		region->quarantined += bytes;
		region->progress++;
	} else {
		region->quarantined -= bytes;
		region->dirty += bytes;
	}
	spin_unlock_irq(&region->list_lock);

	if (quarantined)
		wake_up_all(&region->progress_wait);
}

/* Length of the run from @start on of pages that all are, or are not, poisoned. */
static unsigned long memopt_range_run(const struct memopt_range *range,
				      unsigned long start, bool poisoned)
{
	unsigned long i = start;

	while (i < range->nr_pages &&
	       PageHWPoison(memopt_page_at(range->page, i)) == poisoned)
		i++;
	return i - start;
}

/*
 * Give clean pages to the pool.  Pages with a memory error stay taken for ever and
 * no longer count as part of the region.
 */
static void memopt_range_put_back(struct memopt_range *range)
{
	struct memopt_region *region = range->region;
	struct gen_pool *pool = range->extent->pool;
	unsigned long start = 0, retired = 0, run;

	mutex_lock(&region->lock);
	while (start < range->nr_pages) {
		run = memopt_range_run(range, start, false);
		if (run) {
			struct page *page = memopt_page_at(range->page, start);

			gen_pool_free(pool, page_to_phys(page),
				      run << PAGE_SHIFT);
			start += run;
		}
		run = memopt_range_run(range, start, true);
		retired += run;
		start += run;
	}

	spin_lock_irq(&region->list_lock);
	region->dirty -= memopt_range_bytes(range);
	region->free += memopt_range_bytes(range) -
			((u64)retired << PAGE_SHIFT);
	region->total -= (u64)retired << PAGE_SHIFT;
	region->progress++;
	spin_unlock_irq(&region->list_lock);
	mutex_unlock(&region->lock);

	wake_up_all(&region->progress_wait);
	kfree(range);
}

static void memopt_reclaim_work(struct work_struct *work)
{
	struct memopt_region *region = container_of(to_delayed_work(work),
						    struct memopt_region,
						    reclaim);
	struct memopt_range *range, *next;
	bool again = false, fresh = false;
	LIST_HEAD(freed);
	LIST_HEAD(pinned);

	spin_lock_irq(&region->list_lock);
	list_splice_init(&region->freed, &freed);
	spin_unlock_irq(&region->list_lock);

	/* Look at all before zeroing any, so that the counts are right early. */
	list_for_each_entry_safe(range, next, &freed, entry) {
		bool known = range->quarantined;

		if (memopt_range_pinned(range)) {
			memopt_range_set_quarantined(range, true);
			list_move_tail(&range->entry, &pinned);
			fresh |= !known;
			again = true;
		} else {
			memopt_range_set_quarantined(range, false);
		}
	}

	list_for_each_entry_safe(range, next, &freed, entry) {
		list_del(&range->entry);
		memopt_pages_zero(range->page, range->nr_pages);
		memopt_range_put_back(range);
	}

	if (!again)
		return;

	spin_lock_irq(&region->list_lock);
	list_splice(&pinned, &region->freed);
	spin_unlock_irq(&region->list_lock);

	if (fresh)
		region->delay_ms = MEMOPT_LOOK_FIRST_MS;
	else
		region->delay_ms = min(2 * region->delay_ms,
				       (unsigned int)MEMOPT_LOOK_LAST_MS);
	/* Does nothing if a range was freed meanwhile: the work is queued then. */
	queue_delayed_work(memopt_reclaim_wq, &region->reclaim,
			   msecs_to_jiffies(region->delay_ms));
}

void memopt_reclaim_now(struct memopt_region *region)
{
	mod_delayed_work(memopt_reclaim_wq, &region->reclaim, 0);
}

void memopt_reclaim_init(struct memopt_region *region)
{
	INIT_LIST_HEAD(&region->freed);
	INIT_DELAYED_WORK(&region->reclaim, memopt_reclaim_work);
	region->delay_ms = MEMOPT_LOOK_FIRST_MS;
	init_waitqueue_head(&region->progress_wait);
}

void memopt_reclaim_exit(struct memopt_region *region)
{
	struct memopt_range *range, *next;

	cancel_delayed_work_sync(&region->reclaim);

	list_for_each_entry_safe(range, next, &region->freed, entry) {
		list_del(&range->entry);
		kfree(range);
	}
}
