/* SPDX-License-Identifier: GPL-2.0 */
/* A served CMA buffer, as all tests of shares need one. */
#ifndef _RDMA_SHARE_H
#define _RDMA_SHARE_H

#include <errno.h>
#include <string.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)

enum { FILL = 0x5a };

struct server {
	int fd;
	struct memopt_buf_alloc buf;
	unsigned char *mem;
	struct memopt_share_create share;
};

/* A mapped CMA buffer; what is shared of it is up to the test. */
static inline struct server server_make(uint64_t length)
{
	struct server s = { .fd = memopt_open() };

	require(s.fd >= 0);
	require_eq(buf_alloc(s.fd, MEMOPT_KIND_CMA, length, 0, &s.buf), 0);
	s.mem = buf_map(s.fd, &s.buf);
	require(s.mem != NULL);
	return s;
}

static inline struct server server_share(uint64_t length, uint32_t access)
{
	struct server s = server_make(length);

	share_init(&s.share, s.buf.out_buf_id, access, 0, length);
	require_eq(share_create(s.fd, &s.share), 0);
	memset(s.mem, FILL, length);
	return s;
}

static inline int join(struct share_client *c, const struct server *s)
{
	return share_client_join(c, s->share.out_port, s->share.out_token, MIB);
}

static inline bool untouched(const struct server *s)
{
	return !bytes_other_than(s->mem, s->buf.out_length, FILL);
}

/* What a responder says to a peer without the right or outside the range. */
static inline bool refused(int status)
{
	return status == IBV_WC_REM_ACCESS_ERR ||
	       status == IBV_WC_REM_INV_REQ_ERR;
}

/* The client saw an error, rather than success or nothing at all. */
static inline bool failed(int status)
{
	return status > IBV_WC_SUCCESS;
}

#endif /* _RDMA_SHARE_H */
