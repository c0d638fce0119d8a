// SPDX-License-Identifier: GPL-2.0
/* 6.12 takes the mm; 6.1 has a pointer in it instead (seen 2026-12). */
#include <linux/sched.h>
#include <linux/sched/mm.h>

unsigned long probe_mm_get_unmapped_area(struct file *filp, unsigned long len);

unsigned long probe_mm_get_unmapped_area(struct file *filp, unsigned long len)
{
	return mm_get_unmapped_area(current->mm, filp, 0, len, 0, 0);
}
