// SPDX-License-Identifier: MIT
/*
 * The uapi as numbers. A program built with any version of the header has these in
 * its binary, so none of them may ever change; new members go behind the last one of
 * a struct, and then the new size is one more line here, not an edited one.
 *
 * Compiled by run.sh as C and C++, with and without -m32: 32-bit programs talk to a
 * 64-bit kernel through the same structs. Compiling is the test; nothing is run.
 */
#include <assert.h>
#include <stddef.h>

#include <linux/rdma_memopt.h>

#define SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#define AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define COMMAND(name, number) \
	static_assert((name) == _IO(MEMOPT_IOC_MAGIC, number), #name)
#define VALUE(name, number) static_assert((name) == (number), #name)

SIZE(memopt_query, 40);
AT(memopt_query, size, 0);
AT(memopt_query, flags, 4);
AT(memopt_query, out_features, 8);
AT(memopt_query, out_uapi_version, 16);
AT(memopt_query, out_region_count, 20);
AT(memopt_query, out_max_objects, 24);
AT(memopt_query, out_max_connections, 28);
AT(memopt_query, out_max_watch_slots, 32);
AT(memopt_query, __reserved, 36);

SIZE(memopt_region_info, 104);
AT(memopt_region_info, size, 0);
AT(memopt_region_info, flags, 4);
AT(memopt_region_info, index, 8);
AT(memopt_region_info, out_kind, 12);
AT(memopt_region_info, out_node, 16);
AT(memopt_region_info, __reserved, 20);
AT(memopt_region_info, out_total, 24);
AT(memopt_region_info, out_free, 32);
AT(memopt_region_info, out_used, 40);
AT(memopt_region_info, out_quarantined, 48);
AT(memopt_region_info, out_dirty, 56);
AT(memopt_region_info, out_largest_free, 64);
AT(memopt_region_info, out_huge, 72);
AT(memopt_region_info, out_zeroed, 80);
AT(memopt_region_info, out_waited, 88);
AT(memopt_region_info, out_fragmentation, 96);
AT(memopt_region_info, __reserved2, 100);

SIZE(memopt_buf_alloc, 72);
AT(memopt_buf_alloc, size, 0);
AT(memopt_buf_alloc, flags, 4);
AT(memopt_buf_alloc, kind, 8);
AT(memopt_buf_alloc, node, 12);
AT(memopt_buf_alloc, length, 16);
AT(memopt_buf_alloc, alignment, 24);
AT(memopt_buf_alloc, out_buf_id, 32);
AT(memopt_buf_alloc, out_kind, 36);
AT(memopt_buf_alloc, out_node, 40);
AT(memopt_buf_alloc, out_segments, 44);
AT(memopt_buf_alloc, out_length, 48);
AT(memopt_buf_alloc, out_alignment, 56);
AT(memopt_buf_alloc, out_mmap_offset, 64);

SIZE(memopt_buf_info, 64);
AT(memopt_buf_info, size, 0);
AT(memopt_buf_info, flags, 4);
AT(memopt_buf_info, buf_id, 8);
AT(memopt_buf_info, out_kind, 12);
AT(memopt_buf_info, out_node, 16);
AT(memopt_buf_info, out_segments, 20);
AT(memopt_buf_info, out_length, 24);
AT(memopt_buf_info, out_alignment, 32);
AT(memopt_buf_info, out_mmap_offset, 40);
AT(memopt_buf_info, out_mapping_size, 48);
AT(memopt_buf_info, out_state, 56);
AT(memopt_buf_info, out_mappings, 60);

SIZE(memopt_buf_free, 16);
AT(memopt_buf_free, size, 0);
AT(memopt_buf_free, flags, 4);
AT(memopt_buf_free, buf_id, 8);
AT(memopt_buf_free, __reserved, 12);

SIZE(memopt_buf_export, 40);
AT(memopt_buf_export, size, 0);
AT(memopt_buf_export, flags, 4);
AT(memopt_buf_export, buf_id, 8);
AT(memopt_buf_export, fd_flags, 12);
AT(memopt_buf_export, offset, 16);
AT(memopt_buf_export, length, 24);
AT(memopt_buf_export, out_fd, 32);
AT(memopt_buf_export, __reserved, 36);

SIZE(memopt_stats, 72);
AT(memopt_stats, size, 0);
AT(memopt_stats, flags, 4);
AT(memopt_stats, out_file_bytes, 8);
AT(memopt_stats, out_file_limit, 16);
AT(memopt_stats, out_user_bytes, 24);
AT(memopt_stats, out_user_limit, 32);
AT(memopt_stats, out_userns_bytes, 40);
AT(memopt_stats, out_userns_limit, 48);
AT(memopt_stats, out_buffers, 56);
AT(memopt_stats, out_mrs, 60);
AT(memopt_stats, out_shares, 64);
AT(memopt_stats, out_watches, 68);

SIZE(memopt_mr_reg, 136);
AT(memopt_mr_reg, size, 0);
AT(memopt_mr_reg, flags, 4);
AT(memopt_mr_reg, buf_id, 8);
AT(memopt_mr_reg, access, 12);
AT(memopt_mr_reg, offset, 16);
AT(memopt_mr_reg, length, 24);
AT(memopt_mr_reg, ibdev, 32);
AT(memopt_mr_reg, out_mr_id, 96);
AT(memopt_mr_reg, out_rkey, 100);
AT(memopt_mr_reg, out_iova, 104);
AT(memopt_mr_reg, out_entries, 112);
AT(memopt_mr_reg, out_page_size, 116);
AT(memopt_mr_reg, out_part_length, 120);
AT(memopt_mr_reg, out_parts, 128);
AT(memopt_mr_reg, __reserved, 132);

SIZE(memopt_mr_info, 128);
AT(memopt_mr_info, size, 0);
AT(memopt_mr_info, flags, 4);
AT(memopt_mr_info, mr_id, 8);
AT(memopt_mr_info, out_state, 12);
AT(memopt_mr_info, out_access, 16);
AT(memopt_mr_info, out_rkey, 20);
AT(memopt_mr_info, out_iova, 24);
AT(memopt_mr_info, out_length, 32);
AT(memopt_mr_info, out_entries, 40);
AT(memopt_mr_info, out_page_size, 44);
AT(memopt_mr_info, out_ibdev, 48);
AT(memopt_mr_info, out_part_length, 112);
AT(memopt_mr_info, out_parts, 120);
AT(memopt_mr_info, __reserved, 124);

SIZE(memopt_mr_part, 48);
AT(memopt_mr_part, size, 0);
AT(memopt_mr_part, flags, 4);
AT(memopt_mr_part, mr_id, 8);
AT(memopt_mr_part, index, 12);
AT(memopt_mr_part, out_rkey, 16);
AT(memopt_mr_part, out_entries, 20);
AT(memopt_mr_part, out_iova, 24);
AT(memopt_mr_part, out_offset, 32);
AT(memopt_mr_part, out_length, 40);

SIZE(memopt_mr_dereg, 16);
AT(memopt_mr_dereg, size, 0);
AT(memopt_mr_dereg, flags, 4);
AT(memopt_mr_dereg, mr_id, 8);
AT(memopt_mr_dereg, __reserved, 12);

SIZE(memopt_share_create, 104);
AT(memopt_share_create, size, 0);
AT(memopt_share_create, flags, 4);
AT(memopt_share_create, buf_id, 8);
AT(memopt_share_create, access, 12);
AT(memopt_share_create, offset, 16);
AT(memopt_share_create, length, 24);
AT(memopt_share_create, family, 32);
AT(memopt_share_create, port, 34);
AT(memopt_share_create, scope_id, 36);
AT(memopt_share_create, addr, 40);
AT(memopt_share_create, expires_ms, 56);
AT(memopt_share_create, max_connections, 60);
AT(memopt_share_create, out_share_id, 64);
AT(memopt_share_create, out_port, 68);
AT(memopt_share_create, __reserved, 70);
AT(memopt_share_create, out_token, 72);
AT(memopt_share_create, out_rkey, 88);
AT(memopt_share_create, __reserved2, 92);
AT(memopt_share_create, out_iova, 96);

SIZE(memopt_share_info, 120);
AT(memopt_share_info, size, 0);
AT(memopt_share_info, flags, 4);
AT(memopt_share_info, share_id, 8);
AT(memopt_share_info, out_state, 12);
AT(memopt_share_info, out_connections, 16);
AT(memopt_share_info, out_access, 20);
AT(memopt_share_info, out_accepted, 24);
AT(memopt_share_info, out_rejected, 32);
AT(memopt_share_info, out_length, 40);
AT(memopt_share_info, out_entries, 48);
AT(memopt_share_info, out_page_size, 52);
AT(memopt_share_info, out_ibdev, 56);

SIZE(memopt_share_destroy, 16);
AT(memopt_share_destroy, size, 0);
AT(memopt_share_destroy, flags, 4);
AT(memopt_share_destroy, share_id, 8);
AT(memopt_share_destroy, __reserved, 12);

SIZE(memopt_watch_create, 32);
AT(memopt_watch_create, size, 0);
AT(memopt_watch_create, flags, 4);
AT(memopt_watch_create, slots, 8);
AT(memopt_watch_create, out_watch_id, 12);
AT(memopt_watch_create, out_mmap_offset, 16);
AT(memopt_watch_create, out_mmap_length, 24);

SIZE(memopt_watch_add, 40);
AT(memopt_watch_add, size, 0);
AT(memopt_watch_add, flags, 4);
AT(memopt_watch_add, watch_id, 8);
AT(memopt_watch_add, slot, 12);
AT(memopt_watch_add, start, 16);
AT(memopt_watch_add, length, 24);
AT(memopt_watch_add, out_generation, 32);

SIZE(memopt_watch_del, 24);
AT(memopt_watch_del, size, 0);
AT(memopt_watch_del, flags, 4);
AT(memopt_watch_del, watch_id, 8);
AT(memopt_watch_del, slot, 12);
AT(memopt_watch_del, out_generation, 16);

SIZE(memopt_watch_destroy, 16);
AT(memopt_watch_destroy, size, 0);
AT(memopt_watch_destroy, flags, 4);
AT(memopt_watch_destroy, watch_id, 8);
AT(memopt_watch_destroy, __reserved, 12);

SIZE(memopt_watch_event, 32);
AT(memopt_watch_event, watch_id, 0);
AT(memopt_watch_event, slot, 4);
AT(memopt_watch_event, events, 8);
AT(memopt_watch_event, __reserved, 12);
AT(memopt_watch_event, start, 16);
AT(memopt_watch_event, length, 24);

SIZE(memopt_share_hello, 24);
AT(memopt_share_hello, magic, 0);
AT(memopt_share_hello, protocol, 4);
AT(memopt_share_hello, __reserved, 6);
AT(memopt_share_hello, token, 8);

SIZE(memopt_share_grant, 32);
AT(memopt_share_grant, magic, 0);
AT(memopt_share_grant, protocol, 4);
AT(memopt_share_grant, __reserved, 6);
AT(memopt_share_grant, rkey, 8);
AT(memopt_share_grant, access, 12);
AT(memopt_share_grant, iova, 16);
AT(memopt_share_grant, length, 24);

SIZE(memopt_share_refusal, 8);
AT(memopt_share_refusal, magic, 0);
AT(memopt_share_refusal, protocol, 4);
AT(memopt_share_refusal, reason, 6);

VALUE(MEMOPT_IOC_MAGIC, 0xBC);
COMMAND(MEMOPT_QUERY, 0x00);
COMMAND(MEMOPT_REGION_INFO, 0x01);
COMMAND(MEMOPT_BUF_ALLOC, 0x02);
COMMAND(MEMOPT_BUF_INFO, 0x03);
COMMAND(MEMOPT_BUF_FREE, 0x04);
COMMAND(MEMOPT_BUF_EXPORT, 0x05);
COMMAND(MEMOPT_MR_REG, 0x06);
COMMAND(MEMOPT_MR_INFO, 0x07);
COMMAND(MEMOPT_MR_DEREG, 0x08);
COMMAND(MEMOPT_SHARE_CREATE, 0x09);
COMMAND(MEMOPT_SHARE_INFO, 0x0a);
COMMAND(MEMOPT_SHARE_DESTROY, 0x0b);
COMMAND(MEMOPT_WATCH_CREATE, 0x0c);
COMMAND(MEMOPT_WATCH_ADD, 0x0d);
COMMAND(MEMOPT_WATCH_DEL, 0x0e);
COMMAND(MEMOPT_STATS, 0x0f);
COMMAND(MEMOPT_MR_PART, 0x10);
COMMAND(MEMOPT_WATCH_DESTROY, 0x11);

VALUE(MEMOPT_ACCESS_LOCAL_WRITE, 1U << 0);
VALUE(MEMOPT_ACCESS_REMOTE_READ, 1U << 1);
VALUE(MEMOPT_ACCESS_REMOTE_WRITE, 1U << 2);
VALUE(MEMOPT_ACCESS_REMOTE_ATOMIC, 1U << 3);
VALUE(MEMOPT_FEATURE_CONTIG, 1U << 0);
VALUE(MEMOPT_FEATURE_CMA, 1U << 1);
VALUE(MEMOPT_FEATURE_KERNEL_CMA, 1U << 2);
VALUE(MEMOPT_FEATURE_PA_MR, 1U << 3);
VALUE(MEMOPT_FEATURE_SHARE, 1U << 4);
VALUE(MEMOPT_FEATURE_IMPLICIT_MMAP, 1U << 5);
VALUE(MEMOPT_FEATURE_DMABUF, 1U << 6);
VALUE(MEMOPT_FEATURE_WATCH, 1U << 7);
VALUE(MEMOPT_FEATURE_MR_SPLIT, 1U << 8);
VALUE(MEMOPT_FEATURE_STATS, 1U << 9);
VALUE(MEMOPT_FEATURE_HUGE_CONTIG, 1U << 10);
VALUE(MEMOPT_FEATURE_HUGE_CMA, 1U << 11);
VALUE(MEMOPT_BUF_F_INHERIT, 1U << 0);
VALUE(MEMOPT_BUF_STATE_PINNABLE, 1U << 0);
VALUE(MEMOPT_BUF_STATE_IMPLICIT, 1U << 1);
VALUE(MEMOPT_BUF_STATE_REVOKED, 1U << 2);
VALUE(MEMOPT_BUF_STATE_REVOKE_PENDING, 1U << 3);
VALUE(MEMOPT_WATCH_EVENT_UNMAP, 1U << 0);
VALUE(MEMOPT_WATCH_EVENT_CLEAR, 1U << 1);
VALUE(MEMOPT_MR_F_SPLIT, 1U << 0);
VALUE(MEMOPT_MR_STATE_DEVICE_GONE, 1U << 0);
VALUE(MEMOPT_SHARE_F_SINGLE_USE, 1U << 0);
VALUE(MEMOPT_SHARE_STATE_DEVICE_GONE, 1U << 0);
VALUE(MEMOPT_SHARE_STATE_CLOSED, 1U << 1);
VALUE(MEMOPT_KIND_ANY, 0);
VALUE(MEMOPT_KIND_CMA, 1);
VALUE(MEMOPT_KIND_CONTIG, 2);
VALUE(MEMOPT_KIND_PINNABLE, 3);
VALUE(MEMOPT_REFUSAL_MALFORMED, 1);
VALUE(MEMOPT_REFUSAL_TOKEN, 2);
VALUE(MEMOPT_REFUSAL_BUSY, 3);
VALUE(MEMOPT_REFUSAL_INTERNAL, 4);
VALUE(MEMOPT_NODE_ANY, -1);
VALUE(MEMOPT_MAX_ALIGNMENT, 1ULL << 30);
VALUE(MEMOPT_IBDEV_NAME_MAX, 64);
VALUE(MEMOPT_TOKEN_SIZE, 16);
VALUE(MEMOPT_SHARE_MAGIC, 0x4d454d4f);
VALUE(MEMOPT_SHARE_PROTOCOL, 1);

#ifdef MEMOPT_LAYOUT_MUST_FAIL
/* run.sh compiles this once and wants an error: the asserts above are alive. */
SIZE(memopt_query, 41);
#endif
