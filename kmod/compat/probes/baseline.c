// SPDX-License-Identifier: GPL-2.0
/* Must always pass: proves that headers, compiler and export list are usable. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

void *probe_baseline(struct ib_device *ibdev);

void *probe_baseline(struct ib_device *ibdev)
{
	return ibdev ? kmalloc(PAGE_SIZE, GFP_KERNEL) : NULL;
}
