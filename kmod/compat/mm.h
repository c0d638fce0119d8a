/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _MEMOPT_COMPAT_MM_H
#define _MEMOPT_COMPAT_MM_H

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

static inline void memopt_vma_flags_set(struct vm_area_struct *vma,
					unsigned long flags)
{
#ifdef MEMOPT_HAVE_VM_FLAGS_SET
	vm_flags_set(vma, flags);
#else
	/* Before per-VMA locks, mmap_lock alone protected them. */
	vma->vm_flags |= flags;
#endif
}

/* The address the kernel would choose for a file without a wish of its own. */
static inline unsigned long
memopt_default_unmapped_area(struct file *filp, unsigned long addr,
			     unsigned long len, unsigned long pgoff,
			     unsigned long flags)
{
#if defined(MEMOPT_HAVE_MM_GET_UNMAPPED_AREA)
	return mm_get_unmapped_area(filp, addr, len, pgoff, flags);
#elif defined(MEMOPT_HAVE_MM_GET_UNMAPPED_AREA_OF_MM)
	return mm_get_unmapped_area(current->mm, filp, addr, len, pgoff, flags);
#else
	return current->mm->get_unmapped_area(filp, addr, len, pgoff, flags);
#endif
}

#endif /* _MEMOPT_COMPAT_MM_H */
