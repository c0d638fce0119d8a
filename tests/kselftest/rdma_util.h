/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the RDMA tests share: plain verbs end points on the test device, a client
 * of a share written with librdmacm alone, a whole region taken by one owner,
 * and patterns that tell whose bytes are where.
 *
 * Functions return 0 or -errno and print nothing: the test says what it expected.
 */
#ifndef _RDMA_UTIL_H
#define _RDMA_UTIL_H

#include <infiniband/verbs.h>
#include <linux/rdma_memopt.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* setup-rxe.sh makes these. */
#define RXE_DEV "rxe0"
#define RXE_NETDEV "d0"
#define RXE_ADDR "10.9.9.1"
#define RXE_GID_INDEX 1 /* index 0 is the link-local address */

#define MIB (1024UL * 1024)

/* Longest wait for something that must happen; a hang, not a measure. */
#define RDMA_PATIENCE_MS 60000

/* ---- patterns ---- */

void pattern_fill(void *buf, size_t len, uint64_t seed);
/* Return: the number of 8-byte words that are not those of pattern_fill(). */
size_t pattern_wrong(const void *buf, size_t len, uint64_t seed);
/* Return: the number of bytes that are not @byte. */
size_t bytes_other_than(const void *buf, size_t len, unsigned char byte);

/* ---- verbs end points ---- */

/**
 * struct rdma_end - one RC queue pair with what it needs
 * @ctx: device, opened by this end unless @borrowed
 * @pd: protection domain
 * @cq: completions of @qp
 * @qp: reset until rdma_end_connect()
 * @borrowed: @ctx and @pd belong to another end
 */
struct rdma_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	bool borrowed;
};

int rdma_end_open(struct rdma_end *end);
/* A second queue pair in the protection domain of @of. */
int rdma_end_open_beside(struct rdma_end *end, const struct rdma_end *of);
/* Wire @end to the queue pair with number @peer_qpn on the same device. */
int rdma_end_connect(struct rdma_end *end, uint32_t peer_qpn);
void rdma_end_close(struct rdma_end *end);

/**
 * struct rdma_op - one RDMA READ or WRITE
 */
struct rdma_op {
	enum ibv_wr_opcode opcode;
	void *local;
	uint32_t lkey;
	uint32_t length;
	uint64_t remote;
	uint32_t rkey;
	uint64_t wr_id;
};

int rdma_post(struct ibv_qp *qp, const struct rdma_op *op);
/* Return: 0 with a completion in @wc, or -ETIMEDOUT. */
int rdma_wait(struct ibv_cq *cq, int timeout_ms, struct ibv_wc *wc);
/* Post one and wait.  Return: an ibv_wc_status, or -errno. */
int rdma_do(struct ibv_qp *qp, struct ibv_cq *cq, const struct rdma_op *op);

/* ---- client of a share ---- */

/**
 * struct share_client - a peer of a share, as anybody could write it
 * @channel: events of @id
 * @id: connection
 * @cq: completions
 * @mr: all of @buf
 * @buf: local memory
 * @len: bytes of @buf
 * @granted: the share accepted; @rkey to @length are valid
 * @rkey: from the grant, host byte order
 * @access: from the grant, host byte order
 * @iova: from the grant, host byte order
 * @length: from the grant, host byte order
 * @refusal: enum memopt_refusal after -ECONNREFUSED, 0 if there was none
 * @private_len: bytes of private data that came with the answer
 * @private_data: these bytes
 */
struct share_client {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned char *buf;
	size_t len;
	bool granted;
	uint32_t rkey;
	uint32_t access;
	uint64_t iova;
	uint64_t length;
	unsigned int refusal;
	size_t private_len;
	unsigned char private_data[256];
};

void share_hello_init(struct memopt_share_hello *hello,
		      const unsigned char *token);

/*
 * Connect to @port of RXE_ADDR with @hello_len bytes of @hello and register
 * @buf_len bytes of local memory.
 *
 * Return: 0, -ECONNREFUSED if the peer rejected, or another -errno.  Close the
 * client in every case.
 */
int share_client_open(struct share_client *c, uint16_t port, const void *hello,
		      size_t hello_len, size_t buf_len);
/* The same with a well-formed hello. */
int share_client_join(struct share_client *c, uint16_t port,
		      const unsigned char *token, size_t buf_len);
/* Move @length bytes between @c->buf and the share.  Return: as rdma_do(). */
int share_client_do(struct share_client *c, enum ibv_wr_opcode opcode,
		    size_t local, uint64_t remote, uint32_t length);
void share_client_close(struct share_client *c);

/* ---- one owner of all free memory of a kind ---- */

struct hoard_piece {
	uint32_t id;
	size_t len;
	void *mem;
};

/**
 * struct hoard - every free byte of one kind, mapped
 * @fd: file that owns it
 * @nr: pieces
 * @bytes: in all pieces
 * @pieces: the buffers
 */
struct hoard {
	int fd;
	unsigned int nr;
	size_t bytes;
	struct hoard_piece *pieces;
};

/* Allocate and map until ENOMEM for a single page. */
int hoard_take(struct hoard *h, uint32_t kind);
void hoard_fill(struct hoard *h, uint64_t seed);
/* Return: words that are not of hoard_fill(). */
size_t hoard_wrong(const struct hoard *h, uint64_t seed);
/* Return: bytes that are not zero. */
size_t hoard_dirty(const struct hoard *h);
void hoard_release(struct hoard *h);

/* ---- processes and the device ---- */

/*
 * Run @argv with output to /dev/null.  A child that does not end in time is
 * killed.  Return: exit status, 128 + signal, or -ETIMEDOUT.
 */
int run_quietly(char *const argv[], int timeout_ms);
/* Wait for a child of ours.  Return: as run_quietly(). */
int wait_child(pid_t pid, int timeout_ms);
void kill_child(pid_t pid);
/* Has it ended?  It stays to be waited for. */
bool child_ended(pid_t pid);

/* Take the test device away, or bring it back and wait for its address. */
int rxe_remove(void);
int rxe_restore(void);
/* Is there a device with RXE_DEV's name and the GID of RXE_ADDR? */
bool rxe_ready(void);

/*
 * Unload the module, or load it as run.sh does and with @parameter if that is not
 * NULL.  Only where module_file() says that it could be loaded again.
 */
int module_unload(void);
int module_load(const char *parameter);
/* The module of this build, or NULL. */
const char *module_file(void);

/* One file descriptor across a socket. */
int send_fd(int sock, int fd);
int recv_fd(int sock);

#endif /* _RDMA_UTIL_H */
