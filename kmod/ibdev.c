// SPDX-License-Identifier: GPL-2.0
/*
 * The RDMA devices there are, and what must end when one goes.
 *
 * Every service is in the list of its device before it makes the first verbs
 * object, so removal finds all of them.  Removal takes them out one by one and
 * ends each with no lock held: a share waits for handlers of rdma_cm, and those
 * take locks of their own.
 *
 * This module needs rdma_cm, so it registers its client later, so it is told of a
 * removal before rdma_cm: the ids of a share are gone when rdma_cm looks for them.
 */
#include <linux/module.h>
#include <linux/string.h>

#include "compat/slab.h"
#include "rdma.h"

struct workqueue_struct *memopt_wq;

static DEFINE_MUTEX(memopt_ibdev_lock);
static LIST_HEAD(memopt_ibdevs);
static struct ib_client memopt_ib_client;

static void memopt_ibdev_release(struct kref *ref)
{
	kfree(container_of(ref, struct memopt_ibdev, ref));
}

void memopt_ibdev_put(struct memopt_ibdev *dev)
{
	kref_put(&dev->ref, memopt_ibdev_release);
}

struct memopt_ibdev *memopt_ibdev_get(const char *name, struct net *net)
{
	struct memopt_ibdev *dev;

	mutex_lock(&memopt_ibdev_lock);
	list_for_each_entry(dev, &memopt_ibdevs, entry) {
		if (strcmp(dev->name, name) ||
		    !rdma_dev_access_netns(dev->ibdev, net))
			continue;
		kref_get(&dev->ref);
		mutex_unlock(&memopt_ibdev_lock);
		return dev;
	}
	mutex_unlock(&memopt_ibdev_lock);
	return ERR_PTR(-ENODEV);
}

struct memopt_ibdev *memopt_ibdev_get_by_device(struct ib_device *ibdev)
{
	struct memopt_ibdev *dev;

	mutex_lock(&memopt_ibdev_lock);
	list_for_each_entry(dev, &memopt_ibdevs, entry) {
		if (dev->ibdev != ibdev)
			continue;
		kref_get(&dev->ref);
		mutex_unlock(&memopt_ibdev_lock);
		return dev;
	}
	mutex_unlock(&memopt_ibdev_lock);
	return ERR_PTR(-ENODEV);
}

void memopt_ibdev_name(struct memopt_ibdev *dev, char *name)
{
	mutex_lock(&memopt_ibdev_lock);
	strscpy_pad(name, dev->name, MEMOPT_IBDEV_NAME_MAX);
	mutex_unlock(&memopt_ibdev_lock);
}

/*
 * Kernel MRs are an optional part of verbs, and connecting two QPs by hand works
 * where the kernel's connection manager for IB and RoCE does; an iWARP QP needs a
 * TCP connection instead.
 */
int memopt_ibdev_check(struct ib_device *ibdev)
{
	u32 port;

	if (!ibdev->kverbs_provider || !ibdev->ops.alloc_mr ||
	    !ibdev->ops.map_mr_sg)
		return -EOPNOTSUPP;
	if (!(ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;

	rdma_for_each_port(ibdev, port)
		if (rdma_ib_or_roce(ibdev, port))
			return 0;
	return -EOPNOTSUPP;
}

int memopt_ibdev_attach(struct memopt_ibdev *dev,
			struct memopt_service *service)
{
	int rc = 0;

	mutex_lock(&memopt_ibdev_lock);
	if (dev->gone)
		rc = -ENODEV;
	else
		list_add_tail(&service->dev_entry, &dev->services);
	mutex_unlock(&memopt_ibdev_lock);
	return rc;
}

/*
 * Removal may have taken the service out already, to end it as well.  It holds
 * references, and it waits for the service to be dead.
 */
void memopt_ibdev_detach(struct memopt_service *service)
{
	mutex_lock(&memopt_ibdev_lock);
	list_del_init(&service->dev_entry);
	mutex_unlock(&memopt_ibdev_lock);
}

/* ---- what the core tells us ---- */

static int memopt_ib_add(struct ib_device *ibdev)
{
	struct memopt_ibdev *dev;

	BUILD_BUG_ON(MEMOPT_IBDEV_NAME_MAX < IB_DEVICE_NAME_MAX);

	dev = kzalloc_obj(*dev, GFP_KERNEL);
	if (!dev)
		return -ENOMEM;

	kref_init(&dev->ref);
	INIT_LIST_HEAD(&dev->services);
	dev->ibdev = ibdev;
	ib_set_client_data(ibdev, &memopt_ib_client, dev);

	mutex_lock(&memopt_ibdev_lock);
	strscpy_pad(dev->name, ibdev->name, sizeof(dev->name));
	list_add_tail(&dev->entry, &memopt_ibdevs);
	mutex_unlock(&memopt_ibdev_lock);
	return 0;
}

static void memopt_ib_rename(struct ib_device *ibdev, void *client_data)
{
	struct memopt_ibdev *dev = client_data;

	if (!dev)
		return;

	mutex_lock(&memopt_ibdev_lock);
	strscpy_pad(dev->name, ibdev->name, sizeof(dev->name));
	mutex_unlock(&memopt_ibdev_lock);
}

/* When this returns, nothing of ours exists on the device. */
static void memopt_ib_remove(struct ib_device *ibdev, void *client_data)
{
	struct memopt_ibdev *dev = client_data;
	struct memopt_service *service;
	struct memopt_object *owner;

	if (!dev)
		return;

	mutex_lock(&memopt_ibdev_lock);
	dev->gone = true;
	list_del(&dev->entry);
	while (!list_empty(&dev->services)) {
		service = list_first_entry(&dev->services,
					   struct memopt_service, dev_entry);
		list_del_init(&service->dev_entry);

		/*
		 * As long as the service was in the list, its owner had not yet
		 * dropped the reference it keeps for itself.
		 */
		memopt_service_get(service);
		owner = service->owner;
		if (owner)
			kref_get(&owner->ref);
		mutex_unlock(&memopt_ibdev_lock);

		if (owner)
			service->stop(service);
		memopt_service_kill(service);
		memopt_service_put(service);
		if (owner)
			memopt_object_put(owner);

		mutex_lock(&memopt_ibdev_lock);
	}
	mutex_unlock(&memopt_ibdev_lock);

	memopt_ibdev_put(dev);
}

static struct ib_client memopt_ib_client = {
	.name = MEMOPT_DEVICE_NAME,
	.add = memopt_ib_add,
	.remove = memopt_ib_remove,
	.rename = memopt_ib_rename,
	/* To tell a device that can not do it from one that does not exist. */
	.no_kverbs_req = 1,
};

int memopt_rdma_init(void)
{
	int rc;

	memopt_wq = alloc_workqueue(MEMOPT_DEVICE_NAME, WQ_UNBOUND, 0);
	if (!memopt_wq)
		return -ENOMEM;

	rc = ib_register_client(&memopt_ib_client);
	if (rc)
		destroy_workqueue(memopt_wq);
	return rc;
}

void memopt_rdma_exit(void)
{
	ib_unregister_client(&memopt_ib_client);
	/* A work item may still be in the last lines of its function. */
	destroy_workqueue(memopt_wq);
}
