// SPDX-License-Identifier: GPL-2.0
/* 7.3 takes no mm: it always means the current one (seen 2026-12). */
#include <linux/sched/mm.h>

unsigned long probe_mm_get_unmapped_area(struct file *filp, unsigned long len);

unsigned long probe_mm_get_unmapped_area(struct file *filp, unsigned long len)
{
	return mm_get_unmapped_area(filp, 0, len, 0, 0);
}
