/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the RDMA side know of each other: ibdev.c, service.c,
 * pa_mr.c, mr.c, share.c and share_conn.c.  Lifetimes and the lock order are in
 * docs/design.md, sections 3.3 and 3.4.
 */
#ifndef _MEMOPT_RDMA_H
#define _MEMOPT_RDMA_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "memopt.h"

#define MEMOPT_ACCESS_REMOTE                                  \
	(MEMOPT_ACCESS_REMOTE_READ | MEMOPT_ACCESS_REMOTE_WRITE | \
	 MEMOPT_ACCESS_REMOTE_ATOMIC)

/* ---- ibdev.c: the devices there are ---- */

/**
 * struct memopt_ibdev - one RDMA device, from add to remove
 * @ref: the list's until removal, and one per service
 * @entry: in the list of devices
 * @ibdev: the device; valid while a service of it is not dead
 * @services: what must end before the device goes
 * @gone: removal has begun: no more services
 * @name: follows renames; what a dead object still shows
 */
struct memopt_ibdev {
	struct kref ref;
	struct list_head entry;
	struct ib_device *ibdev;
	struct list_head services;
	bool gone;
	char name[MEMOPT_IBDEV_NAME_MAX];
};

/* Runs what must not run in a handler of rdma_cm: the end of its own id. */
extern struct workqueue_struct *memopt_wq;

/* Look up what @net may use; a reference, or ERR_PTR(-ENODEV). */
struct memopt_ibdev *memopt_ibdev_get(const char *name, struct net *net);
struct memopt_ibdev *memopt_ibdev_get_by_device(struct ib_device *ibdev);
void memopt_ibdev_put(struct memopt_ibdev *dev);
void memopt_ibdev_name(struct memopt_ibdev *dev, char *name);

/* 0 if the device can do what a service needs, else -EOPNOTSUPP. */
int memopt_ibdev_check(struct ib_device *ibdev);

struct memopt_service;
/* Tell the device about a service, so that its removal ends it; or -ENODEV. */
int memopt_ibdev_attach(struct memopt_ibdev *dev,
			struct memopt_service *service);
void memopt_ibdev_detach(struct memopt_service *service);

/* ---- service.c: a protection domain and a way to post to it ---- */

enum memopt_service_state {
	MEMOPT_SERVICE_BROKEN, /* no QP pair: made when the next WR needs it */
	MEMOPT_SERVICE_READY,
	MEMOPT_SERVICE_DEAD, /* for ever; owns no verbs object */
};

/**
 * struct memopt_service - PD, CQs and two QPs connected to each other
 * @ref: the owner's, one per PA-MR, and of who ends it when the device goes
 * @dev: the device
 * @dev_entry: in @dev's list, under the lock of the list of devices
 * @file_entry: in the list of its file, under memopt_file.service_lock
 * @owner: the share it belongs to; NULL if it belongs to a file
 * @stop: ends what @owner does with the service before that is killed
 * @lock: protects what follows, and serializes posting
 * @state: written under @lock; DEAD may be read without
 * @pd: the domain
 * @conn_cq: for the connections of a share, which never complete anything
 * @cq: of the pair
 * @qp: the pair; WRs are posted to the first
 * @mrs: PA-MRs that are registered
 * @stuck: an MR could not be deregistered, so the domain has to stay as well
 * @wr: the only work request under way; here and not on a stack, because it may
 *	complete after nobody waits for it any more
 */
struct memopt_service {
	struct kref ref;
	struct memopt_ibdev *dev;
	struct list_head dev_entry;
	struct list_head file_entry;
	struct memopt_object *owner;
	void (*stop)(struct memopt_service *service);

	struct mutex lock; /* number 3 */
	enum memopt_service_state state;
	struct ib_pd *pd;
	struct ib_cq *conn_cq;
	struct ib_cq *cq;
	struct ib_qp *qp[2];
	struct list_head mrs;
	bool stuck;
	struct {
		struct ib_cqe cqe;
		struct completion done;
		enum ib_wc_status status;
	} wr;
};

/**
 * memopt_service_create - make a service on a device
 * @dev: the device; the service takes a reference of its own
 * @owner: the share it is for, or NULL
 * @stop: called when the device goes, with references to the service and to
 *	@owner held, before the service is killed
 *
 * Return: the service, with one reference, or an ERR_PTR.
 */
struct memopt_service *
memopt_service_create(struct memopt_ibdev *dev, struct memopt_object *owner,
		      void (*stop)(struct memopt_service *service));

/* Invalidate and deregister every MR, destroy every verbs object.  Any number
 * of callers; when one returns, it is done.
 */
void memopt_service_kill(struct memopt_service *service);

/* Kill, forget, and drop the owner's reference. */
void memopt_service_end(struct memopt_service *service);

/* Make every key of the service invalid, and keep everything else. */
void memopt_service_invalidate(struct memopt_service *service);

void memopt_service_get(struct memopt_service *service);
void memopt_service_put(struct memopt_service *service);

/* The file's service on that device, made if need be; with a reference. */
struct memopt_service *memopt_file_service_get(struct memopt_file *mf,
					       const char *ibdev_name);

static inline bool memopt_service_dead(const struct memopt_service *service)
{
	return READ_ONCE(service->state) == MEMOPT_SERVICE_DEAD;
}

/**
 * memopt_service_post - post one WR to the pair and wait for it
 * @service: locked
 * @wr: the work request; its completion members are set here
 * @killable: give up when the calling process is killed
 *
 * Return: 0 when it has succeeded; -ENODEV on a dead service, -EINTR,
 * -ETIMEDOUT, or -EIO.  After a failure the pair is gone; the next post makes a
 * new one.
 */
int memopt_service_post(struct memopt_service *service, struct ib_send_wr *wr,
			bool killable);

/* ---- pa_mr.c: one range of a buffer, registered ---- */

/**
 * struct memopt_pa_mr - a registered range
 * @service: with a reference
 * @entry: in @service's list while registered
 * @buf: with a reference while registered
 * @mr: NULL when deregistered; under the service's lock
 * @sgt: the range, mapped for the device
 * @direction: of that mapping
 * @valid: the key is; under the service's lock
 * @access: MEMOPT_ACCESS_*
 * @rkey: remote key
 * @iova: address of the range's first byte
 * @length: bytes
 * @entries: translation entries posted
 * @page_size: bytes each covers
 */
struct memopt_pa_mr {
	struct memopt_service *service;
	struct list_head entry;
	struct memopt_buffer *buf;
	struct ib_mr *mr;
	struct sg_table sgt;
	enum dma_data_direction direction;
	bool valid;
	u32 access;
	u32 rkey;
	u64 iova;
	u64 length;
	u32 entries;
	u32 page_size;
};

/* 0, -EOPNOTSUPP for an unknown right, -EINVAL for an impossible set. */
int memopt_access_check(u32 access);
int memopt_access_to_ib(u32 access);

/* Register; takes references of its own to @service and @buf. */
struct memopt_pa_mr *memopt_pa_mr_create(struct memopt_service *service,
					 struct memopt_buffer *buf, u64 offset,
					 u64 length, u32 access);
void memopt_pa_mr_free(struct memopt_pa_mr *pa_mr);

/* With the service's lock held. */
void memopt_pa_mr_invalidate(struct memopt_pa_mr *pa_mr);
void memopt_pa_mr_dereg(struct memopt_pa_mr *pa_mr);

/* ---- share.c and share_conn.c ---- */

/**
 * struct memopt_share - a range that peers can reach
 * @obj: head
 * @buf: the memory; its own reference
 * @service: NULL until made; its PD holds this share's keys and QPs only
 * @pa_mr: the registered range
 * @flags: MEMOPT_SHARE_F_*
 * @max_conns: peers connected at a time
 * @expires: no new peer from then on; KTIME_MAX for never
 * @token: what a peer must present
 * @lock: protects what follows
 * @listener: taken out by whoever destroys it
 * @stopping: no new connection may be added to @conns
 * @used: the token of a single-use share has admitted somebody
 * @conns: connections whose id or QP still exists
 * @nr_conns: entries of @conns
 * @nr_live: entries of @conns that are not on their way out
 * @accepted: peers admitted so far
 * @rejected: peers turned away so far
 * @idle: woken when @conns becomes empty
 */
struct memopt_share {
	struct memopt_object obj;
	struct memopt_buffer *buf;
	struct memopt_service *service;
	struct memopt_pa_mr *pa_mr;
	u32 flags;
	u32 max_conns;
	ktime_t expires;
	u8 token[MEMOPT_TOKEN_SIZE];

	struct mutex lock; /* number 4 */
	struct rdma_cm_id *listener;
	bool stopping;
	bool used;
	struct list_head conns;
	u32 nr_conns;
	u32 nr_live;
	u64 accepted;
	u64 rejected;
	wait_queue_head_t idle;
};

/* Handler of the listener: a peer knocks. */
int memopt_share_event(struct rdma_cm_id *id, struct rdma_cm_event *event);

/* Disconnect every peer; return when no connection is left. */
void memopt_share_disconnect(struct memopt_share *share);

static inline bool memopt_share_expired(const struct memopt_share *share)
{
	return ktime_compare(ktime_get(), share->expires) >= 0;
}

#endif /* _MEMOPT_RDMA_H */
