// SPDX-License-Identifier: GPL-2.0
/*
 * Take the regions when the module loads, give them back when it goes.
 *
 * A region the administrator asked for by name must be had, or the load fails and
 * leaves nothing behind.  A region of default size that can not be had is only a
 * message: the module is useful with the others.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/genalloc.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/string_helpers.h>

#include "compat/slab.h"
#include "params.h"
#include "region_internal.h"

static void memopt_chunk_clear(struct gen_pool *pool,
			       struct gen_pool_chunk *chunk, void *data)
{
	size_t size = chunk->end_addr - chunk->start_addr + 1;
	unsigned long start, end;

	for_each_set_bitrange(start, end, chunk->bits, size >> PAGE_SHIFT)
		gen_pool_free(pool, chunk->start_addr + (start << PAGE_SHIFT),
			      (end - start) << PAGE_SHIFT);
}

static void memopt_extent_destroy(struct memopt_extent *extent)
{
	struct memopt_region *region = extent->region;

	/*
	 * A pool insists on being empty.  What is still taken is quarantined, not
	 * zeroed yet, or has a memory error; the pages go to the kernel anyway.
	 */
	gen_pool_for_each_chunk(extent->pool, memopt_chunk_clear, NULL);
	gen_pool_destroy(extent->pool);
	region->backend->give(extent, region->dev);
	kfree(extent);
}

static struct memopt_extent *memopt_extent_create(struct memopt_region *region,
						  int node, u64 bytes)
{
	struct memopt_extent *extent;
	int ret;

	extent = kzalloc_obj(*extent, GFP_KERNEL);
	if (!extent)
		return ERR_PTR(-ENOMEM);
	extent->region = region;

	ret = region->backend->take(extent, region->dev, node, bytes);
	if (ret)
		goto err_free_extent;

	memopt_pages_zero(extent->page, extent->nr_pages);

	node = page_to_nid(extent->page);
	extent->pool = gen_pool_create(PAGE_SHIFT, node);
	if (!extent->pool) {
		ret = -ENOMEM;
		goto err_give;
	}
	ret = gen_pool_add(extent->pool, page_to_phys(extent->page), bytes, node);
	if (ret)
		goto err_destroy_pool;

	return extent;

err_destroy_pool:
	gen_pool_destroy(extent->pool);
err_give:
	region->backend->give(extent, region->dev);
err_free_extent:
	kfree(extent);
	return ERR_PTR(ret);
}

static void memopt_region_destroy(struct memopt_region *region)
{
	struct memopt_extent *extent, *next;

	memopt_reclaim_exit(region);
	list_for_each_entry_safe(extent, next, &region->extents, entry) {
		list_del(&extent->entry);
		memopt_extent_destroy(extent);
	}
	mutex_destroy(&region->lock);
	kfree(region);
}

/* The first node that has the memory; ERR_PTR(-ENOMEM) if none has. */
static struct memopt_region *
memopt_region_create(const struct memopt_backend *backend, struct device *dev,
		     u64 bytes)
{
	struct memopt_extent *extent = ERR_PTR(-ENOMEM);
	struct memopt_region *region;
	int node;

	region = kzalloc_obj(*region, GFP_KERNEL);
	if (!region)
		return ERR_PTR(-ENOMEM);
	region->backend = backend;
	region->dev = dev;
	mutex_init(&region->lock);
	spin_lock_init(&region->list_lock);
	INIT_LIST_HEAD(&region->extents);
	memopt_reclaim_init(region);

	for_each_node_state(node, N_MEMORY) {
		extent = memopt_extent_create(region, node, bytes);
		if (extent != ERR_PTR(-ENOMEM) || !backend->per_node)
			break;
	}
	if (IS_ERR(extent)) {
		memopt_region_destroy(region);
		return ERR_CAST(extent);
	}

	list_add_tail(&extent->entry, &region->extents);
	region->node = page_to_nid(extent->page);
	region->total = bytes;
	region->free = bytes;
	return region;
}

static int memopt_region_setup(const struct memopt_backend *backend,
			       struct device *dev,
			       const struct memopt_size_param *size)
{
	struct memopt_region *region;
	const char *why;
	char text[16];

	if (!size->bytes)
		return 0;

	why = backend->unavailable(dev);
	if (why) {
		if (size->given) {
			pr_err("no %s memory: %s; or load without %s_size=\n",
			       backend->name, why, backend->name);
			return -EOPNOTSUPP;
		}
		pr_info("no %s memory: %s\n", backend->name, why);
		return 0;
	}

	region = memopt_region_create(backend, dev, size->bytes);
	if (region == ERR_PTR(-EINTR))
		return -EINTR;
	if (IS_ERR(region)) {
		string_get_size(size->bytes, 1, STRING_UNITS_2, text,
				sizeof(text));
		if (size->given) {
			pr_err("no %s of %s memory in one run; %s\n", text,
			       backend->name, backend->remedy);
			return PTR_ERR(region);
		}
		pr_info("no %s memory: the default of %s is not there in one run; %s\n",
			backend->name, text, backend->remedy);
		return 0;
	}

	memopt_regions[memopt_nr_regions++] = region;
	return 0;
}

int memopt_regions_init(struct device *dev)
{
	int ret;

	memopt_reclaim_wq = alloc_workqueue("rdma_memopt_reclaim", WQ_UNBOUND,
					    0);
	if (!memopt_reclaim_wq)
		return -ENOMEM;

	/* In the order in which MEMOPT_KIND_ANY tries them. */
	ret = memopt_region_setup(&memopt_contig_backend, dev,
				  &memopt_contig_size);
	if (!ret)
		ret = memopt_region_setup(&memopt_cma_backend, dev,
					  &memopt_cma_size);
	if (ret)
		memopt_regions_exit();
	return ret;
}

void memopt_regions_exit(void)
{
	while (memopt_nr_regions)
		memopt_region_destroy(memopt_regions[--memopt_nr_regions]);
	destroy_workqueue(memopt_reclaim_wq);
}
