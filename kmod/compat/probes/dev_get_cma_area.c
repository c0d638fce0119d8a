// SPDX-License-Identifier: GPL-2.0
/* Exported by 7.3.  In 6.1 and 6.12 an inline over a variable that is not
 * exported when CMA is built in (seen 2026-12).
 */
#include <linux/device.h>
#include <linux/dma-map-ops.h>

bool probe_dev_get_cma_area(struct device *dev);

bool probe_dev_get_cma_area(struct device *dev)
{
	return dev_get_cma_area(dev);
}
