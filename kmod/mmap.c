// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of buffers into user space.
 *
 * A contig buffer is mapped page by page as ordinary memory, so that the kernel
 * can pin it.  Two traps lie there: a mapping that is marked VM_MIXEDMAP loses
 * references when it is split, and vm_insert_page() needs that mark.  Handing
 * the page to the fault handler's caller needs neither.
 *
 * A cma buffer is mapped by frame number only.  The kernel refuses to pin such a
 * mapping at once; mapped as ordinary memory it would try to move the pages out
 * of the CMA area, for ever.
 *
 * Both kinds are mapped shared only: the helpers that insert frame numbers end in
 * a BUG for a private mapping.
 */
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>

#include "compat/compat.h"
#include "memopt.h"

/* ---- the mapping ---- */

static struct memopt_buffer *vma_to_buffer(const struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

/* A VMA was split or moved: the new one counts for itself. */
static void memopt_vma_open(struct vm_area_struct *vma)
{
	struct memopt_buffer *buf = vma_to_buffer(vma);

	kref_get(&buf->obj.ref);
	atomic_inc(&buf->nr_mappings);
}

static void memopt_vma_close(struct vm_area_struct *vma)
{
	struct memopt_buffer *buf = vma_to_buffer(vma);

	atomic_dec(&buf->nr_mappings);
	memopt_buffer_put(buf);
}

static void memopt_note_mapping(struct memopt_buffer *buf, unsigned long size)
{
	/* Every fault comes here: do not write what is there already. */
	if (atomic_long_read(&buf->mapping_size) < size)
		atomic_long_set(&buf->mapping_size, size);
}

static vm_fault_t memopt_contig_fault(struct vm_fault *vmf)
{
	struct memopt_buffer *buf = vma_to_buffer(vmf->vma);
	unsigned long index = vmf->pgoff - buf->pgoff;

	if (WARN_ON_ONCE(index >= buf->range->nr_pages))
		return VM_FAULT_SIGBUS;

	vmf->page = pfn_to_page(page_to_pfn(buf->range->page) + index);
	get_page(vmf->page);
	memopt_note_mapping(buf, PAGE_SIZE);
	return 0;
}

static const struct vm_operations_struct memopt_contig_vm_ops = {
	.open = memopt_vma_open,
	.close = memopt_vma_close,
	.fault = memopt_contig_fault,
};

static vm_fault_t memopt_cma_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct memopt_buffer *buf = vma_to_buffer(vma);
	unsigned long index = vmf->pgoff - buf->pgoff;
	unsigned long pfn = page_to_pfn(buf->range->page) + index;
	unsigned long addr, end;
	vm_fault_t ret;

	if (WARN_ON_ONCE(index >= buf->range->nr_pages))
		return VM_FAULT_SIGBUS;

	ret = vmf_insert_pfn(vma, vmf->address, pfn);
	if (ret != VM_FAULT_NOPAGE)
		return ret;
	memopt_note_mapping(buf, PAGE_SIZE);

	/*
	 * Whoever touches one page touches the next: fill the rest of the page
	 * table.  It is there already, so this takes no memory and a failure
	 * only means one more fault.
	 */
	end = min(ALIGN(vmf->address + 1, PMD_SIZE), vma->vm_end);
	for (addr = vmf->address + PAGE_SIZE; addr < end; addr += PAGE_SIZE)
		if (vmf_insert_pfn(vma, addr, ++pfn) != VM_FAULT_NOPAGE)
			break;
	return VM_FAULT_NOPAGE;
}

static const struct vm_operations_struct memopt_cma_vm_ops = {
	.open = memopt_vma_open,
	.close = memopt_vma_close,
	.fault = memopt_cma_fault,
};

/* ---- implicit buffers ---- */

/*
 * The alignment that lets a device with large pages translate the whole length
 * with one entry, if the memory is there.
 */
static u64 memopt_natural_alignment(u64 length)
{
	return clamp_t(u64, rounddown_pow_of_two((unsigned long)length),
		       PAGE_SIZE, MEMOPT_MAX_ALIGNMENT);
}

static struct memopt_buffer *memopt_implicit_alloc(struct memopt_file *mf,
						   u64 length)
{
	const u64 natural = memopt_natural_alignment(length);
	const u64 alignments[] = {
		natural, min_t(u64, natural, SZ_2M), PAGE_SIZE
	};
	struct memopt_buffer *buf;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(alignments); i++) {
		/* Under mmap_lock: what is not free and zeroed is not there. */
		buf = memopt_buffer_create(mf, MEMOPT_KIND_PINNABLE,
					   MEMOPT_NODE_ANY, length,
					   alignments[i], MEMOPT_NOWAIT);
		if (!IS_ERR(buf) || PTR_ERR(buf) != -ENOMEM)
			break;
	}
	if (!IS_ERR(buf))
		buf->implicit = true;
	return buf;
}

/* The file's implicit buffer, made now if the file has no buffer at all. */
static struct memopt_buffer *memopt_implicit_get(struct memopt_file *mf,
						 u64 length)
{
	struct memopt_buffer *buf, *new;

	buf = memopt_buffer_implicit(mf);
	if (buf)
		return buf;
	if (READ_ONCE(mf->has_buffer))
		return ERR_PTR(-EINVAL);

	new = memopt_implicit_alloc(mf, length);
	if (IS_ERR(new))
		return new;

	/* Another process that has the file may have been faster. */
	spin_lock(&mf->implicit_lock);
	if (!mf->implicit && !mf->has_buffer) {
		mf->implicit = new;
		new = NULL;
	}
	buf = mf->implicit;
	if (buf)
		kref_get(&buf->obj.ref);
	spin_unlock(&mf->implicit_lock);

	if (new)
		memopt_buffer_put(new);
	return buf ?: ERR_PTR(-EINVAL);
}

/* ---- mmap ---- */

/* The buffer that has all of these offsets, with a reference. */
static struct memopt_buffer *memopt_mmap_buffer(struct memopt_file *mf,
						unsigned long pgoff,
						unsigned long nr_pages)
{
	struct memopt_buffer *buf;
	unsigned long first;

	if (pgoff >= MEMOPT_PGOFF_MIN)
		buf = memopt_buffer_by_pgoff(mf, pgoff);
	else if (!pgoff && nr_pages <= MEMOPT_PGOFF_MIN)
		buf = memopt_implicit_get(mf, (u64)nr_pages << PAGE_SHIFT);
	else
		buf = memopt_buffer_implicit(mf);
	if (IS_ERR(buf))
		return buf;
	if (!buf)
		return ERR_PTR(-EINVAL);

	first = pgoff - buf->pgoff;
	if (first >= buf->range->nr_pages ||
	    nr_pages > buf->range->nr_pages - first) {
		memopt_buffer_put(buf);
		return ERR_PTR(-EINVAL);
	}
	return buf;
}

int memopt_mmap(struct file *filp, struct vm_area_struct *vma)
{
	/*
	 * DONTCOPY: a child that inherits the memory by accident would keep it
	 * from being reused; it can map the descriptor it inherits.
	 */
	unsigned long flags = VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY;
	struct memopt_buffer *buf;

	/* VM_SHARED is missing too if the file was opened for reading only. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;

	buf = memopt_mmap_buffer(filp->private_data, vma->vm_pgoff,
				 vma_pages(vma));
	if (IS_ERR(buf))
		return PTR_ERR(buf);

	if (memopt_buffer_pinnable(buf)) {
		vma->vm_ops = &memopt_contig_vm_ops;
	} else {
		flags |= VM_PFNMAP;
		vma->vm_ops = &memopt_cma_vm_ops;
	}
	memopt_vma_flags_set(vma, flags);
	/* The VMA takes over the reference. */
	vma->vm_private_data = buf;
	atomic_inc(&buf->nr_mappings);
	return 0;
}

/*
 * How far apart addresses may be that suit a mapping equally well, and where
 * between two of them it starts.  Known from the buffer's alignment, never from
 * its physical address.
 */
static unsigned long memopt_mmap_alignment(struct memopt_file *mf,
					   unsigned long len,
					   unsigned long pgoff,
					   unsigned long *offset)
{
	unsigned long useful = MEMOPT_MAX_ALIGNMENT;
	unsigned long alignment;
	struct memopt_buffer *buf;

	if (pgoff >= MEMOPT_PGOFF_MIN)
		buf = memopt_buffer_by_pgoff(mf, pgoff);
	else
		buf = memopt_buffer_implicit(mf);

	if (buf) {
		*offset = (pgoff - buf->pgoff) << PAGE_SHIFT;
		alignment = buf->range->alignment;
		memopt_buffer_put(buf);
	} else {
		*offset = 0;
		alignment = memopt_natural_alignment(len);
	}

	/* One translation entry that covers the length: more gains nothing. */
	if (len < useful)
		useful = roundup_pow_of_two(len);
	return min(alignment, useful);
}

/*
 * A device can use a large page only if virtual and physical address agree in
 * the bits below its size, so a mapping starts at the same distance from a
 * multiple of the alignment as its memory does.
 */
unsigned long memopt_get_unmapped_area(struct file *filp, unsigned long addr,
				       unsigned long len, unsigned long pgoff,
				       unsigned long flags)
{
	unsigned long alignment, offset, padded, found;

	if (addr || (flags & MAP_FIXED))
		goto as_usual;

	alignment = memopt_mmap_alignment(filp->private_data, len, pgoff,
					  &offset);
	if (check_add_overflow(len, alignment - PAGE_SIZE, &padded))
		goto as_usual;

	found = memopt_default_unmapped_area(filp, 0, padded, pgoff, flags);
	if (IS_ERR_VALUE(found))
		goto as_usual;
	return found + ((offset - found) & (alignment - 1));

as_usual:
	return memopt_default_unmapped_area(filp, addr, len, pgoff, flags);
}
