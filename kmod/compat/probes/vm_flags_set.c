// SPDX-License-Identifier: GPL-2.0
/* Since 6.3 flags of a VMA are const for everybody else (seen 2026-12). */
#include <linux/mm.h>

void probe_vm_flags_set(struct vm_area_struct *vma);

void probe_vm_flags_set(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTEXPAND);
}
