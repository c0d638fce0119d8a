// SPDX-License-Identifier: GPL-2.0
#include "memopt_util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "ktap.h"

#define TEST_IBDEV "rxe0"
#define TEST_ADDR "10.9.9.1"

int memopt_open(void)
{
	int fd = open(MEMOPT_DEVICE, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int memopt_ioctl(int fd, unsigned long command, void *arg)
{
	return ioctl(fd, command, arg) ? -errno : 0;
}

/* ---- buffers ---- */

int buf_alloc(int fd, uint32_t kind, uint64_t length, uint64_t alignment,
	      struct memopt_buf_alloc *buf)
{
	*buf = (struct memopt_buf_alloc) {
		.size = sizeof(*buf),
		.kind = kind,
		.node = MEMOPT_NODE_ANY,
		.length = length,
		.alignment = alignment,
	};
	return memopt_ioctl(fd, MEMOPT_BUF_ALLOC, buf);
}

int buf_info(int fd, uint32_t id, struct memopt_buf_info *info)
{
	*info = (struct memopt_buf_info) {
		.size = sizeof(*info),
		.buf_id = id,
	};
	return memopt_ioctl(fd, MEMOPT_BUF_INFO, info);
}

int buf_free(int fd, uint32_t id)
{
	struct memopt_buf_free arg = {
		.size = sizeof(arg),
		.buf_id = id,
	};

	return memopt_ioctl(fd, MEMOPT_BUF_FREE, &arg);
}

void *buf_map(int fd, const struct memopt_buf_alloc *buf)
{
	void *mem = mmap(NULL, buf->out_length, PROT_READ | PROT_WRITE,
			 MAP_SHARED, fd, (off_t)buf->out_mmap_offset);

	return mem == MAP_FAILED ? NULL : mem;
}

/* ---- regions ---- */

int region_info(int fd, uint32_t index, struct memopt_region_info *info)
{
	*info = (struct memopt_region_info) {
		.size = sizeof(*info),
		.index = index,
	};
	return memopt_ioctl(fd, MEMOPT_REGION_INFO, info);
}

int region_find(int fd, uint32_t kind, struct memopt_region_info *info)
{
	uint32_t index = 0;
	int ret;

	do {
		ret = region_info(fd, index++, info);
	} while (!ret && info->out_kind != kind);
	return ret;
}

/* Return: 1 if all of the region is free, 0 if not, or -errno. */
static int region_idle(int fd, uint32_t kind)
{
	struct memopt_region_info info;
	int ret = region_find(fd, kind, &info);

	return ret ? ret : info.out_free == info.out_total;
}

int region_wait_idle(int fd, uint32_t kind)
{
	int idle;

	if (!eventually(region_idle(fd, kind) != 0))
		return -ETIMEDOUT;
	idle = region_idle(fd, kind);
	return idle < 0 ? idle : 0;
}

/* ---- MRs and shares ---- */

int mr_reg(int fd, uint32_t buf_id, uint32_t access, uint64_t offset,
	   uint64_t length, struct memopt_mr_reg *mr)
{
	*mr = (struct memopt_mr_reg) {
		.size = sizeof(*mr),
		.buf_id = buf_id,
		.access = access,
		.offset = offset,
		.length = length,
		.ibdev = TEST_IBDEV,
	};
	return memopt_ioctl(fd, MEMOPT_MR_REG, mr);
}

int mr_info(int fd, uint32_t id, struct memopt_mr_info *info)
{
	*info = (struct memopt_mr_info) {
		.size = sizeof(*info),
		.mr_id = id,
	};
	return memopt_ioctl(fd, MEMOPT_MR_INFO, info);
}

int mr_dereg(int fd, uint32_t id)
{
	struct memopt_mr_dereg arg = {
		.size = sizeof(arg),
		.mr_id = id,
	};

	return memopt_ioctl(fd, MEMOPT_MR_DEREG, &arg);
}

void share_init(struct memopt_share_create *share, uint32_t buf_id,
		uint32_t access, uint64_t offset, uint64_t length)
{
	*share = (struct memopt_share_create) {
		.size = sizeof(*share),
		.buf_id = buf_id,
		.access = access,
		.offset = offset,
		.length = length,
		.family = AF_INET,
	};
	inet_pton(AF_INET, TEST_ADDR, share->addr);
}

int share_create(int fd, struct memopt_share_create *share)
{
	return memopt_ioctl(fd, MEMOPT_SHARE_CREATE, share);
}

int share_info(int fd, uint32_t id, struct memopt_share_info *info)
{
	*info = (struct memopt_share_info) {
		.size = sizeof(*info),
		.share_id = id,
	};
	return memopt_ioctl(fd, MEMOPT_SHARE_INFO, info);
}

int share_destroy(int fd, uint32_t id)
{
	struct memopt_share_destroy arg = {
		.size = sizeof(arg),
		.share_id = id,
	};

	return memopt_ioctl(fd, MEMOPT_SHARE_DESTROY, &arg);
}
