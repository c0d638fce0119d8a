/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * rdma_memopt: shares, which let remote peers reach a buffer.  Include
 * <linux/rdma_memopt.h>, which says what holds for every command.
 */
#ifndef _UAPI_LINUX_RDMA_MEMOPT_SHARE_H
#define _UAPI_LINUX_RDMA_MEMOPT_SHARE_H

#ifndef _UAPI_LINUX_RDMA_MEMOPT_H
#error "include <linux/rdma_memopt.h>"
#endif

#define MEMOPT_TOKEN_SIZE 16

/* The token admits one connection, then no more. */
#define MEMOPT_SHARE_F_SINGLE_USE (1U << 0)

/**
 * struct memopt_share_create - let remote peers reach a range of a buffer
 * @size: sizeof(struct memopt_share_create)
 * @flags: MEMOPT_SHARE_F_*
 * @buf_id: from BUF_ALLOC
 * @access: MEMOPT_ACCESS_*; at least one remote right
 * @offset: first byte, a multiple of the page size
 * @length: bytes, a multiple of the page size, more than 0
 * @family: AF_INET or AF_INET6
 * @port: to listen on, host byte order; 0 lets the kernel choose.  Below 1024
 *	the caller needs CAP_NET_BIND_SERVICE in its network namespace.
 * @scope_id: interface of a link-local IPv6 address, else 0
 * @addr: address of the RDMA device to listen on, network byte order; IPv4 uses
 *	the first 4 bytes and the rest must be 0.  The wildcard is refused.
 * @expires_ms: milliseconds after which no new peer is admitted; 0 for never
 * @max_connections: at a time; 0 means memopt_query.out_max_connections
 * @out_share_id: the id, never 0
 * @out_port: the port, host byte order
 * @__reserved: must be 0
 * @out_token: 128 random bits a peer must present
 * @out_rkey: remote key, as peers get it
 * @out_iova: address of byte 0 of the range, as peers get it
 *
 * The listener lives in the caller's network namespace.  Creating one takes
 * CAP_NET_ADMIN there unless the administrator allows all (module parameter
 * share_unprivileged): EPERM otherwise.  EADDRNOTAVAIL or ENODEV: no RDMA device
 * with that address is visible here.  EADDRINUSE: the port is taken.
 *
 * The token is an access check on a trusted fabric: it crosses the wire in
 * clear text, and so does the data.
 */
struct memopt_share_create {
	__u32 size;
	__u32 flags;
	__u32 buf_id;
	__u32 access;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u16 family;
	__u16 port;
	__u32 scope_id;
	__u8 addr[16];
	__u32 expires_ms;
	__u32 max_connections;
	__u32 out_share_id;
	__u16 out_port;
	__u16 __reserved;
	__u8 out_token[MEMOPT_TOKEN_SIZE];
	__u32 out_rkey;
	__u32 __reserved2;
	__aligned_u64 out_iova;
};

#define MEMOPT_SHARE_CREATE _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_SHARE_CREATE)

/* The device was removed: no peer can reach the share any more. */
#define MEMOPT_SHARE_STATE_DEVICE_GONE (1U << 0)
/* The token is used up or has expired; peers that are connected stay. */
#define MEMOPT_SHARE_STATE_CLOSED (1U << 1)

/**
 * struct memopt_share_info - describe a share
 * @size: sizeof(struct memopt_share_info)
 * @flags: must be 0
 * @share_id: from SHARE_CREATE
 * @out_state: MEMOPT_SHARE_STATE_*
 * @out_connections: peers connected now
 * @out_access: rights
 * @out_accepted: peers admitted so far
 * @out_rejected: peers turned away so far
 * @out_length: bytes in the range
 * @out_entries: translation entries posted to the device
 * @out_page_size: bytes each of them covers
 * @out_ibdev: name of the device
 */
struct memopt_share_info {
	__u32 size;
	__u32 flags;
	__u32 share_id;
	__u32 out_state;
	__u32 out_connections;
	__u32 out_access;
	__aligned_u64 out_accepted;
	__aligned_u64 out_rejected;
	__aligned_u64 out_length;
	__u32 out_entries;
	__u32 out_page_size;
	char out_ibdev[MEMOPT_IBDEV_NAME_MAX];
};

#define MEMOPT_SHARE_INFO _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_SHARE_INFO)

/**
 * struct memopt_share_destroy - revoke a share
 * @size: sizeof(struct memopt_share_destroy)
 * @flags: must be 0
 * @share_id: from SHARE_CREATE
 * @__reserved: must be 0
 *
 * When the call returns, the key is invalid, every connection is gone and no
 * byte a peer sent can arrive in the buffer any more.
 */
struct memopt_share_destroy {
	__u32 size;
	__u32 flags;
	__u32 share_id;
	__u32 __reserved;
};

#define MEMOPT_SHARE_DESTROY _IO(MEMOPT_IOC_MAGIC, MEMOPT_CMD_SHARE_DESTROY)

/*
 * What a peer and a share say to each other, as rdma_cm private data: the peer
 * sends a memopt_share_hello with its connect request and gets a
 * memopt_share_grant with the accept or a memopt_share_refusal with the reject.
 * The transport may pad private data with zeros.
 */
#define MEMOPT_SHARE_MAGIC 0x4d454d4f /* "MEMO" */
#define MEMOPT_SHARE_PROTOCOL 1

/**
 * struct memopt_share_hello - private data of a connect request
 * @magic: MEMOPT_SHARE_MAGIC
 * @protocol: MEMOPT_SHARE_PROTOCOL
 * @__reserved: 0
 * @token: from memopt_share_create.out_token
 */
struct memopt_share_hello {
	__be32 magic;
	__be16 protocol;
	__be16 __reserved;
	__u8 token[MEMOPT_TOKEN_SIZE];
};

/**
 * struct memopt_share_grant - private data of an accept
 * @magic: MEMOPT_SHARE_MAGIC
 * @protocol: MEMOPT_SHARE_PROTOCOL
 * @__reserved: 0
 * @rkey: remote key
 * @access: MEMOPT_ACCESS_*, the remote rights
 * @iova: remote address of byte 0
 * @length: bytes that can be reached from @iova on
 */
struct memopt_share_grant {
	__be32 magic;
	__be16 protocol;
	__be16 __reserved;
	__be32 rkey;
	__be32 access;
	__be64 iova;
	__be64 length;
};

enum memopt_refusal {
	MEMOPT_REFUSAL_MALFORMED = 1,	/* not a hello, or another protocol */
	MEMOPT_REFUSAL_TOKEN = 2,	/* wrong, used up or expired token */
	MEMOPT_REFUSAL_BUSY = 3,	/* max_connections reached */
	MEMOPT_REFUSAL_INTERNAL = 4,	/* the server ran out of resources */
};

/**
 * struct memopt_share_refusal - private data of a reject
 * @magic: MEMOPT_SHARE_MAGIC
 * @protocol: MEMOPT_SHARE_PROTOCOL, the one the server speaks
 * @reason: enum memopt_refusal
 */
struct memopt_share_refusal {
	__be32 magic;
	__be16 protocol;
	__be16 reason;
};

#endif /* _UAPI_LINUX_RDMA_MEMOPT_SHARE_H */
