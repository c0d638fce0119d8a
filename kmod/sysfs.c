// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/misc/rdma_memopt/regions/<kind><node>/<value>: the same figures as
 * REGION_INFO, in bytes, one value a file.  Sizes only, never an address.
 */
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/stddef.h>
#include <linux/sysfs.h>

#include "memopt.h"

static const struct {
	const char *name;
	size_t offset;
} memopt_values[] = {
	{ "total", offsetof(struct memopt_region_info, out_total) },
	{ "free", offsetof(struct memopt_region_info, out_free) },
	{ "used", offsetof(struct memopt_region_info, out_used) },
	{ "quarantined", offsetof(struct memopt_region_info, out_quarantined) },
	{ "dirty", offsetof(struct memopt_region_info, out_dirty) },
	{ "largest_free", offsetof(struct memopt_region_info, out_largest_free) },
};

/**
 * struct memopt_value_attr - one file
 * @attr: what sysfs knows
 * @index: of the region
 * @offset: of the value in struct memopt_region_info
 */
struct memopt_value_attr {
	struct kobj_attribute attr;
	u32 index;
	size_t offset;
};

/**
 * struct memopt_region_dir - the files of one region
 * @group: what sysfs knows
 * @name: "<kind><node>"
 * @attrs: the files, and the end of the list
 * @values: what is behind them
 */
struct memopt_region_dir {
	struct attribute_group group;
	char name[16];
	struct attribute *attrs[ARRAY_SIZE(memopt_values) + 1];
	struct memopt_value_attr values[ARRAY_SIZE(memopt_values)];
};

/* Both are written while the module loads or goes, never in between. */
static struct kobject *memopt_regions_kobj;
static struct memopt_region_dir *memopt_region_dirs;

static ssize_t memopt_value_show(struct kobject *kobj,
				 struct kobj_attribute *attr, char *buf)
{
	const struct memopt_value_attr *value =
		container_of(attr, struct memopt_value_attr, attr);
	struct memopt_region_info info = { .index = value->index };
	int ret;

	ret = memopt_region_query(&info);
	if (ret)
		return ret;
	return sysfs_emit(buf, "%llu\n", *(u64 *)((char *)&info + value->offset));
}

static int memopt_region_dir_create(struct memopt_region_dir *dir, u32 index)
{
	struct memopt_region_info info = { .index = index };
	unsigned int i;
	int ret;

	ret = memopt_region_query(&info);
	if (ret)
		return ret;
	scnprintf(dir->name, sizeof(dir->name), "%s%d",
		  info.out_kind == MEMOPT_KIND_CMA ? "cma" : "contig",
		  info.out_node);

	for (i = 0; i < ARRAY_SIZE(memopt_values); i++) {
		struct memopt_value_attr *value = &dir->values[i];

		sysfs_attr_init(&value->attr.attr);
		value->attr.attr.name = memopt_values[i].name;
		value->attr.attr.mode = 0444;
		value->attr.show = memopt_value_show;
		value->index = index;
		value->offset = memopt_values[i].offset;
		dir->attrs[i] = &value->attr.attr;
	}
	dir->group.name = dir->name;
	dir->group.attrs = dir->attrs;

	return sysfs_create_group(memopt_regions_kobj, &dir->group);
}

int memopt_sysfs_init(struct device *dev)
{
	u32 count = memopt_region_count();
	u32 i;
	int ret;

	memopt_regions_kobj = kobject_create_and_add("regions", &dev->kobj);
	if (!memopt_regions_kobj)
		return -ENOMEM;

	memopt_region_dirs = kcalloc(count, sizeof(*memopt_region_dirs),
				     GFP_KERNEL);
	if (!memopt_region_dirs) {
		ret = -ENOMEM;
		goto err_put_kobj;
	}

	for (i = 0; i < count; i++) {
		ret = memopt_region_dir_create(&memopt_region_dirs[i], i);
		if (ret)
			goto err_remove_dirs;
	}
	return 0;

err_remove_dirs:
	while (i--)
		sysfs_remove_group(memopt_regions_kobj,
				   &memopt_region_dirs[i].group);
	kfree(memopt_region_dirs);
	memopt_region_dirs = NULL;
err_put_kobj:
	kobject_put(memopt_regions_kobj);
	memopt_regions_kobj = NULL;
	return ret;
}

/* Waits for readers, so that the regions can go afterwards. */
void memopt_sysfs_exit(void)
{
	u32 count = memopt_region_count();
	u32 i;

	if (!memopt_regions_kobj)
		return;

	for (i = 0; i < count; i++)
		sysfs_remove_group(memopt_regions_kobj,
				   &memopt_region_dirs[i].group);
	kobject_put(memopt_regions_kobj);
	memopt_regions_kobj = NULL;
	kfree(memopt_region_dirs);
	memopt_region_dirs = NULL;
}
