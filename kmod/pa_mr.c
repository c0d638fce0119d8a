// SPDX-License-Identifier: GPL-2.0
/*
 * PA-MRs: a range of a buffer registered with a device by physical address, in as
 * few translation entries as the device allows.
 *
 * Bounded by construction: the device checks every access against iova and length
 * of the MR, and the key is worth nothing outside its protection domain.  The iova
 * is drawn at random, because what ib_map_mr_sg() proposes is a bus address, and
 * on a software device even an address of the kernel.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sizes.h>

#include "compat/slab.h"
#include "rdma.h"

/*
 * A software device keeps an entry for each page inside, in one allocation: more
 * than this fails with a warning of the page allocator.
 */
#define MEMOPT_SOFT_MR_MAX SZ_1G

/* Bits of the MR page size; ib_map_mr_sg() takes an unsigned int. */
#define MEMOPT_PAGE_SHIFT_MAX 31

#define MEMOPT_ACCESS_ALL (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE)

int memopt_access_check(u32 access)
{
	if (access & ~MEMOPT_ACCESS_ALL)
		return -EOPNOTSUPP;
	if ((access & (MEMOPT_ACCESS_REMOTE_WRITE |
		       MEMOPT_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & MEMOPT_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

int memopt_access_to_ib(u32 access)
{
	int flags = 0;

	if (access & MEMOPT_ACCESS_LOCAL_WRITE)
		flags |= IB_ACCESS_LOCAL_WRITE;
	if (access & MEMOPT_ACCESS_REMOTE_READ)
		flags |= IB_ACCESS_REMOTE_READ;
	if (access & MEMOPT_ACCESS_REMOTE_WRITE)
		flags |= IB_ACCESS_REMOTE_WRITE;
	if (access & MEMOPT_ACCESS_REMOTE_ATOMIC)
		flags |= IB_ACCESS_REMOTE_ATOMIC;
	return flags;
}

/* ---- mapping for the device ---- */

/* One scatterlist entry, or several if the device's DMA segments are short. */
static int memopt_pa_mr_map(struct memopt_pa_mr *pa_mr, struct ib_device *ibdev,
			    struct page *page)
{
	u32 segment = min_t(u32, ib_dma_max_seg_size(ibdev), SZ_1G) & PAGE_MASK;
	unsigned long pfn = page_to_pfn(page);
	u64 left = pa_mr->length;
	struct scatterlist *sg;
	unsigned int i;
	u64 nr_segments;
	int rc;

	if (!segment)
		segment = PAGE_SIZE;
	nr_segments = DIV_ROUND_UP_ULL(left, segment);
	if (nr_segments > INT_MAX)
		return -EOPNOTSUPP;

	rc = sg_alloc_table(&pa_mr->sgt, nr_segments, GFP_KERNEL);
	if (rc)
		return rc;

	for_each_sg(pa_mr->sgt.sgl, sg, pa_mr->sgt.orig_nents, i) {
		u32 bytes = min_t(u64, left, segment);

		sg_set_page(sg, pfn_to_page(pfn), bytes, 0);
		pfn += bytes >> PAGE_SHIFT;
		left -= bytes;
	}

	rc = ib_dma_map_sg(ibdev, pa_mr->sgt.sgl, pa_mr->sgt.orig_nents,
			   pa_mr->direction);
	if (!rc) {
		sg_free_table(&pa_mr->sgt);
		return -EIO;
	}
	pa_mr->sgt.nents = rc;
	return 0;
}

static void memopt_pa_mr_unmap(struct memopt_pa_mr *pa_mr,
			       struct ib_device *ibdev)
{
	ib_dma_unmap_sg(ibdev, pa_mr->sgt.sgl, pa_mr->sgt.orig_nents,
			pa_mr->direction);
	sg_free_table(&pa_mr->sgt);
}

/* ---- choosing entries ---- */

/*
 * Make an MR of pages of that size.  ib_map_mr_sg() may stop early and leave a
 * short MR that registers without complaint, so both results are compared.
 */
static int memopt_pa_mr_try(struct memopt_pa_mr *pa_mr, struct ib_pd *pd,
			    u32 page_size, u32 entries)
{
	unsigned int nents = pa_mr->sgt.nents;
	struct ib_mr *mr;
	int mapped;

	mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, entries);
	if (IS_ERR(mr))
		return PTR_ERR(mr);

	mapped = ib_map_mr_sg(mr, pa_mr->sgt.sgl, nents, NULL, page_size);
	if (mapped < 0 || mapped != nents || mr->length != pa_mr->length) {
		ib_dereg_mr(mr);
		return mapped < 0 ? mapped : -EOPNOTSUPP;
	}

	pa_mr->mr = mr;
	pa_mr->page_size = page_size;
	pa_mr->entries = entries;
	return 0;
}

/* Does an MR of such pages fit this device?  @entries says how many it takes. */
static bool memopt_pa_mr_fits(const struct memopt_pa_mr *pa_mr,
			      struct ib_device *ibdev, int shift, u64 *entries)
{
	u64 sizes = ibdev->attrs.page_size_cap | PAGE_SIZE;
	u64 base = sg_dma_address(pa_mr->sgt.sgl);
	u64 page_size = BIT_ULL(shift);

	if (!(sizes & page_size))
		return false;
	*entries = DIV_ROUND_UP_ULL((base & (page_size - 1)) + pa_mr->length,
				    page_size);
	if (ib_uses_virt_dma(ibdev) && *entries << shift > MEMOPT_SOFT_MR_MAX)
		return false;
	return *entries <= ibdev->attrs.max_fast_reg_page_list_len;
}

/*
 * The largest pages that the base is aligned to and that are not longer than the
 * range give the fewest entries.  If even those are too many, pages that begin
 * before the range do: the smallest that fit, so that they cover little else.
 * What they cover besides is out of reach all the same, for the device compares
 * every access with iova and length.
 */
static int memopt_pa_mr_build(struct memopt_pa_mr *pa_mr, struct ib_pd *pd)
{
	struct ib_device *ibdev = pd->device;
	u64 base = sg_dma_address(pa_mr->sgt.sgl);
	int aligned, shift, rc = -EOPNOTSUPP;
	u64 entries;

	if (ibdev->attrs.max_mr_size &&
	    pa_mr->length > ibdev->attrs.max_mr_size)
		return -EOPNOTSUPP;

	aligned = min_t(int, ilog2(pa_mr->length), MEMOPT_PAGE_SHIFT_MAX);
	if (base)
		aligned = min_t(int, aligned, __ffs64(base));

	for (shift = aligned; shift >= PAGE_SHIFT; shift--) {
		if (!memopt_pa_mr_fits(pa_mr, ibdev, shift, &entries))
			continue;
		rc = memopt_pa_mr_try(pa_mr, pd, BIT_ULL(shift), entries);
		if (!rc || rc == -ENOMEM)
			return rc;
	}
	for (shift = aligned + 1; shift <= MEMOPT_PAGE_SHIFT_MAX; shift++) {
		if (!memopt_pa_mr_fits(pa_mr, ibdev, shift, &entries))
			continue;
		rc = memopt_pa_mr_try(pa_mr, pd, BIT_ULL(shift), entries);
		if (!rc || rc == -ENOMEM)
			return rc;
	}
	return rc == -EINVAL ? -EOPNOTSUPP : rc;
}

/*
 * Random, not 0, in the lower half of 64 bits, and congruent to what it replaces
 * modulo the page size, as the device takes the low bits from it.
 */
static u64 memopt_pa_mr_draw_iova(const struct memopt_pa_mr *pa_mr)
{
	u64 mask = pa_mr->page_size - 1;
	u64 last = (1ULL << 63) - pa_mr->length;
	u64 low = pa_mr->mr->iova & mask;
	u64 iova;

	do {
		iova = ((get_random_u64() >> 1) & ~mask) | low;
	} while (iova <= mask || iova > last);
	return iova;
}

/* ---- registering ---- */

static int memopt_pa_mr_post(struct memopt_pa_mr *pa_mr)
{
	struct ib_mr *mr = pa_mr->mr;
	struct ib_reg_wr reg = { .wr.opcode = IB_WR_REG_MR };

	mr->iova = memopt_pa_mr_draw_iova(pa_mr);
	/* Not the key that the number stood for last time. */
	ib_update_fast_reg_key(mr, get_random_u8());
	reg.mr = mr;
	reg.key = mr->rkey;
	reg.access = memopt_access_to_ib(pa_mr->access);
	pa_mr->iova = mr->iova;
	pa_mr->rkey = mr->rkey;
	return memopt_service_post(pa_mr->service, &reg.wr, true);
}

static int memopt_pa_mr_register(struct memopt_pa_mr *pa_mr, struct page *page)
{
	struct memopt_service *service = pa_mr->service;
	struct ib_device *ibdev;
	int rc;

	lockdep_assert_held(&service->lock);

	if (memopt_service_dead(service))
		return -ENODEV;

	ibdev = service->pd->device;
	if ((pa_mr->access & MEMOPT_ACCESS_REMOTE_ATOMIC) &&
	    ibdev->attrs.atomic_cap == IB_ATOMIC_NONE)
		return -EOPNOTSUPP;

	rc = memopt_pa_mr_map(pa_mr, ibdev, page);
	if (rc)
		return rc;

	rc = memopt_pa_mr_build(pa_mr, service->pd);
	if (rc) {
		memopt_pa_mr_unmap(pa_mr, ibdev);
		return rc;
	}

	list_add_tail(&pa_mr->entry, &service->mrs);
	rc = memopt_pa_mr_post(pa_mr);
	/* A request that failed or was given up may have been run all the same. */
	if (rc)
		memopt_pa_mr_dereg(pa_mr);
	else
		pa_mr->valid = true;
	return rc;
}

struct memopt_pa_mr *memopt_pa_mr_create(struct memopt_service *service,
					 struct memopt_buffer *buf, u64 offset,
					 u64 length, u32 access)
{
	unsigned long pfn = page_to_pfn(buf->range->page) +
			    (offset >> PAGE_SHIFT);
	struct memopt_pa_mr *pa_mr;
	int rc;

	pa_mr = kzalloc_obj(*pa_mr, GFP_KERNEL_ACCOUNT);
	if (!pa_mr)
		return ERR_PTR(-ENOMEM);

	memopt_service_get(service);
	pa_mr->service = service;
	INIT_LIST_HEAD(&pa_mr->entry);
	kref_get(&buf->obj.ref);
	pa_mr->buf = buf;
	pa_mr->access = access;
	pa_mr->length = length;
	pa_mr->direction = access & MEMOPT_ACCESS_LOCAL_WRITE ?
				   DMA_BIDIRECTIONAL : DMA_TO_DEVICE;

	mutex_lock(&service->lock);
	rc = memopt_pa_mr_register(pa_mr, pfn_to_page(pfn));
	mutex_unlock(&service->lock);
	if (rc) {
		memopt_pa_mr_free(pa_mr);
		return ERR_PTR(rc);
	}
	return pa_mr;
}

/* ---- and back ---- */

/*
 * Best effort: when it fails, the end of the QPs and of the MR does what it did
 * not.  A broken pair is not made anew for it.
 */
void memopt_pa_mr_invalidate(struct memopt_pa_mr *pa_mr)
{
	struct memopt_service *service = pa_mr->service;
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = pa_mr->rkey,
	};
	int rc;

	lockdep_assert_held(&service->lock);

	if (!pa_mr->valid || service->state != MEMOPT_SERVICE_READY)
		return;

	/* Not killable: it runs when a killed process closes its files. */
	rc = memopt_service_post(service, &wr, false);
	if (rc)
		pr_debug("invalidating an MR failed: %d\n", rc);
	pa_mr->valid = false;
}

/*
 * Until the device has let go of the MR, the memory must not have another owner.
 * A device that refuses to let go keeps it, and this module with it, for good.
 */
void memopt_pa_mr_dereg(struct memopt_pa_mr *pa_mr)
{
	struct memopt_service *service = pa_mr->service;
	struct ib_device *ibdev;
	int tries, rc = 0;

	lockdep_assert_held(&service->lock);

	if (!pa_mr->mr)
		return;

	ibdev = pa_mr->mr->device;
	for (tries = 0; tries < 3; tries++) {
		rc = ib_dereg_mr(pa_mr->mr);
		if (!rc)
			break;
		msleep(20);
	}
	list_del_init(&pa_mr->entry);
	pa_mr->mr = NULL;
	pa_mr->valid = false;
	if (rc) {
		service->stuck = true;
		pa_mr->buf = NULL;
		__module_get(THIS_MODULE);
		pr_err_ratelimited("%s does not deregister an MR (%d); %llu bytes are lost\n",
				   dev_name(&ibdev->dev), rc, pa_mr->length);
		return;
	}

	memopt_pa_mr_unmap(pa_mr, ibdev);
	memopt_buffer_put(pa_mr->buf);
	pa_mr->buf = NULL;
}

void memopt_pa_mr_free(struct memopt_pa_mr *pa_mr)
{
	struct memopt_service *service = pa_mr->service;

	mutex_lock(&service->lock);
	memopt_pa_mr_invalidate(pa_mr);
	memopt_pa_mr_dereg(pa_mr);
	mutex_unlock(&service->lock);

	if (pa_mr->buf)
		memopt_buffer_put(pa_mr->buf);
	memopt_service_put(service);
	kfree(pa_mr);
}
