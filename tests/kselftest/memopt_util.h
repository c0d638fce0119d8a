/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Short forms of the module's commands for tests.  Functions return 0 or -errno
 * unless they say otherwise, and print nothing: the test says what it expected.
 */
#ifndef _MEMOPT_UTIL_H
#define _MEMOPT_UTIL_H

#include <linux/rdma_memopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMOPT_DEVICE "/dev/" MEMOPT_DEVICE_NAME

/* Return: a descriptor or -errno. */
int memopt_open(void);
int memopt_ioctl(int fd, unsigned long command, void *arg);

/* ---- buffers ---- */

int buf_alloc(int fd, uint32_t kind, uint64_t length, uint64_t alignment,
	      struct memopt_buf_alloc *buf);
int buf_info(int fd, uint32_t id, struct memopt_buf_info *info);
int buf_free(int fd, uint32_t id);
/* Map all of it.  Return: NULL with errno set if that fails. */
void *buf_map(int fd, const struct memopt_buf_alloc *buf);

/* ---- regions ---- */

int region_info(int fd, uint32_t index, struct memopt_region_info *info);
/* The first region of that kind; -ENOENT if there is none. */
int region_find(int fd, uint32_t kind, struct memopt_region_info *info);
/* Wait until all of a kind is free; -ETIMEDOUT if that does not happen. */
int region_wait_idle(int fd, uint32_t kind);

/* ---- MRs and shares, on the device and address of setup-rxe.sh ---- */

int mr_reg(int fd, uint32_t buf_id, uint32_t access, uint64_t offset,
	   uint64_t length, struct memopt_mr_reg *mr);
int mr_info(int fd, uint32_t id, struct memopt_mr_info *info);
int mr_dereg(int fd, uint32_t id);

void share_init(struct memopt_share_create *share, uint32_t buf_id,
		uint32_t access, uint64_t offset, uint64_t length);
int share_create(int fd, struct memopt_share_create *share);
int share_info(int fd, uint32_t id, struct memopt_share_info *info);
int share_destroy(int fd, uint32_t id);

#endif /* _MEMOPT_UTIL_H */
