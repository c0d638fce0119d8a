// SPDX-License-Identifier: GPL-2.0
/*
 * rdma_memopt: physically contiguous memory for RDMA.
 *
 * What is where: docs/design.md, section 3.  This file only puts the parts
 * together, in the order in which they need each other, and takes them apart in
 * the reverse order.  The module can not be unloaded while a file or mapping of
 * it exists, so at exit no buffer, MR or share is left.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>

#include "memopt.h"

/* The same as PACKAGE_VERSION in dkms.conf. */
#define MEMOPT_VERSION "0.1.0"

/* What the cma region is allocated for; contiguous memory needs a device. */
static struct platform_device *memopt_pdev;

static struct miscdevice memopt_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = MEMOPT_DEVICE_NAME,
	.fops = &memopt_fops,
	.mode = 0660,
};

static int __init memopt_init(void)
{
	int ret;

	memopt_pdev = platform_device_register_simple(MEMOPT_DEVICE_NAME,
						      PLATFORM_DEVID_NONE,
						      NULL, 0);
	if (IS_ERR(memopt_pdev))
		return PTR_ERR(memopt_pdev);

	ret = dma_coerce_mask_and_coherent(&memopt_pdev->dev,
					   DMA_BIT_MASK(64));
	if (ret)
		goto err_unregister_pdev;

	ret = memopt_regions_init(&memopt_pdev->dev);
	if (ret)
		goto err_unregister_pdev;

	/*
	 * rdma_cm is loaded already, because this module uses its symbols: our
	 * client comes after its client and is told first when a device goes.
	 */
	ret = memopt_rdma_init();
	if (ret)
		goto err_regions_exit;

	/* From here on programs can open the device: nothing below may fail. */
	ret = misc_register(&memopt_misc);
	if (ret)
		goto err_rdma_exit;

	ret = memopt_sysfs_init(memopt_misc.this_device);
	if (ret)
		pr_warn("no regions directory in sysfs: %d; REGION_INFO has the same figures\n",
			ret);
	return 0;

err_rdma_exit:
	memopt_rdma_exit();
err_regions_exit:
	memopt_regions_exit();
err_unregister_pdev:
	platform_device_unregister(memopt_pdev);
	return ret;
}

static void __exit memopt_exit(void)
{
	memopt_sysfs_exit();
	misc_deregister(&memopt_misc);
	memopt_rdma_exit();
	memopt_regions_exit();
	platform_device_unregister(memopt_pdev);
}

module_init(memopt_init);
module_exit(memopt_exit);

MODULE_AUTHOR("The rdma_memopt authors");
MODULE_DESCRIPTION("Physically contiguous memory and physical-address MRs for RDMA");
MODULE_LICENSE("GPL");
MODULE_VERSION(MEMOPT_VERSION);
