// SPDX-License-Identifier: GPL-2.0
/*
 * SHARE_CREATE: who may create a listener, where, and which arguments it takes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"
#include "rdma_util.h"

#define RW (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ | \
	    MEMOPT_ACCESS_REMOTE_WRITE)

struct subject {
	int fd;
	struct memopt_buf_alloc buf;
	struct memopt_share_create share;
};

static struct subject subject_make(void)
{
	struct subject s = { .fd = memopt_open() };

	require(s.fd >= 0);
	require_eq(buf_alloc(s.fd, MEMOPT_KIND_CONTIG, MIB, 0, &s.buf), 0);
	share_init(&s.share, s.buf.out_buf_id, RW, 0, MIB);
	return s;
}

/* Create with one thing changed; the subject itself stays as it is. */
#define create_with(s, member, value)					\
	({								\
		struct memopt_share_create changed = (s)->share;	\
									\
		changed.member = (value);				\
		share_create((s)->fd, &changed);			\
	})

static void drop_capability(unsigned int cap)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	require_eq(syscall(SYS_capget, &head, data), 0);
	data[cap / 32].effective &= ~(1U << cap % 32);
	data[cap / 32].permitted &= ~(1U << cap % 32);
	data[cap / 32].inheritable = 0;
	require_eq(syscall(SYS_capset, &head, data), 0);
}

static void arguments_are_validated(void)
{
	struct subject s = subject_make();

	require_eq(create_with(&s, access, 0), -EINVAL);
	require_eq(create_with(&s, access, MEMOPT_ACCESS_LOCAL_WRITE), -EINVAL);
	require_eq(create_with(&s, access, MEMOPT_ACCESS_REMOTE_WRITE),
		   -EINVAL);
	require_eq(create_with(&s, access, MEMOPT_ACCESS_REMOTE_ATOMIC),
		   -EINVAL);
	require_eq(create_with(&s, access, RW | 1U << 16), -EOPNOTSUPP);
	require_eq(create_with(&s, flags, 1U << 16), -EOPNOTSUPP);
	require_eq(create_with(&s, buf_id, s.buf.out_buf_id + 1000), -ENOENT);
	require_eq(create_with(&s, offset, 100), -EINVAL);
	require_eq(create_with(&s, offset, 4096), -EINVAL);
	require_eq(create_with(&s, offset, -4096ULL), -EOVERFLOW);
	require_eq(create_with(&s, length, 0), -EINVAL);
	require_eq(create_with(&s, length, 100), -EINVAL);
	require_eq(create_with(&s, length, 2 * MIB), -EINVAL);
	require_eq(create_with(&s, family, AF_UNIX), -EOPNOTSUPP);
	/* and without a change it works */
	require_eq(create_with(&s, flags, 0), 0);
}

static void addresses_are_validated(void)
{
	struct subject s = subject_make();
	struct memopt_share_create share = s.share;
	int ret;

	memset(share.addr, 0, sizeof(share.addr));
	require_eq(share_create(s.fd, &share), -EINVAL);
	share.family = AF_INET6;
	require_eq(share_create(s.fd, &share), -EINVAL);
	require_eq(create_with(&s, addr[15], 1), -EINVAL);

	/* loopback is no address of an RDMA device, nor is a stranger's */
	share = s.share;
	inet_pton(AF_INET, "127.0.0.1", share.addr);
	ret = share_create(s.fd, &share);
	require(ret == -EADDRNOTAVAIL || ret == -ENODEV);
	inet_pton(AF_INET, "10.99.99.99", share.addr);
	ret = share_create(s.fd, &share);
	require(ret == -EADDRNOTAVAIL || ret == -ENODEV);
}

static void ports_are_exclusive(void)
{
	struct subject s = subject_make();
	struct memopt_share_create first = s.share, second = s.share;

	first.port = 18515;
	require_eq(share_create(s.fd, &first), 0);
	require_eq(first.out_port, 18515);
	second.port = 18515;
	require_eq(share_create(s.fd, &second), -EADDRINUSE);
	require_eq(share_destroy(s.fd, first.out_share_id), 0);
	require_eq(share_create(s.fd, &second), 0);

	/* the kernel's choice is another port for each share */
	first.port = 0;
	require_eq(share_create(s.fd, &first), 0);
	require(first.out_port >= 1024);
	require(first.out_port != second.out_port);
	require(memcmp(first.out_token, second.out_token, MEMOPT_TOKEN_SIZE));
}

static void privileged_ports_take_privilege(void)
{
	struct subject s = subject_make();
	struct memopt_share_create share = s.share;

	share.port = 801;
	require_eq(share_create(s.fd, &share), 0);
	require_eq(share.out_port, 801);
	require_eq(share_destroy(s.fd, share.out_share_id), 0);
	drop_capability(CAP_NET_BIND_SERVICE);
	require_eq(create_with(&s, port, 801), -EACCES);
	require_eq(create_with(&s, port, 0), 0);
}

static void listeners_take_net_admin(void)
{
	struct subject s = subject_make();

	drop_capability(CAP_NET_ADMIN);
	require_eq(create_with(&s, flags, 0), -EPERM);
}

/* What is allowed is a listener, not a port of the administrator's. */
static void listen_without_privilege(void)
{
	struct subject s = subject_make();

	drop_capability(CAP_NET_ADMIN);
	drop_capability(CAP_NET_BIND_SERVICE);
	require_eq(create_with(&s, flags, 0), 0);
	require_eq(create_with(&s, port, 801), -EACCES);
	_exit(0);
}

static void administrator_may_allow_all(void)
{
	int ret;
	pid_t pid;

	if (!module_file())
		ktap_skip("no module to load with another parameter");
	require(eventually(!module_unload()));
	require_eq(module_load("share_unprivileged=1"), 0);
	pid = fork();
	require(pid >= 0);
	if (!pid)
		listen_without_privilege();
	ret = wait_child(pid, RDMA_PATIENCE_MS);
	/* First as it was before, for the next test. */
	require_eq(module_unload(), 0);
	require_eq(module_load(NULL), 0);
	require_eq(ret, 0);
}

static void addresses_belong_to_a_namespace(void)
{
	struct subject s = subject_make();
	int ret;

	require_eq(unshare(CLONE_NEWNET), 0);
	ret = create_with(&s, flags, 0);
	require(ret == -EADDRNOTAVAIL || ret == -ENODEV);
}

static void root_of_a_user_namespace_is_nobody(void)
{
	struct subject s = subject_make();

	/* CAP_NET_ADMIN over a namespace of one's own is none over this one */
	if (unshare(CLONE_NEWUSER))
		ktap_skip("no user namespaces");
	require_eq(create_with(&s, flags, 0), -EPERM);
}

static void shares_are_bounded(void)
{
	struct subject s = subject_make();
	struct memopt_query query = { .size = sizeof(query) };
	uint32_t created = 0;
	int ret = 0;

	require_eq(memopt_ioctl(s.fd, MEMOPT_QUERY, &query), 0);
	require_eq(create_with(&s, max_connections,
			       query.out_max_connections + 1), -EINVAL);
	while (created < query.out_max_objects) {
		ret = create_with(&s, flags, 0);
		if (ret)
			break;
		created++;
	}
	require_eq(ret, -ENOSPC);
	require(created > 0);
}

static void share_needs_zeroed_reserve(void)
{
	struct subject s = subject_make();

	require_eq(create_with(&s, __reserved, 1), -EOPNOTSUPP);
	require_eq(create_with(&s, __reserved2, 1), -EOPNOTSUPP);
}

static const struct ktap_test tests[] = {
	{ "arguments are validated", arguments_are_validated },
	{ "reserved members must be zero", share_needs_zeroed_reserve },
	{ "wildcard and foreign addresses are refused",
	  addresses_are_validated },
	{ "a port belongs to one share", ports_are_exclusive },
	{ "a privileged port takes CAP_NET_BIND_SERVICE",
	  privileged_ports_take_privilege },
	{ "a listener takes CAP_NET_ADMIN", listeners_take_net_admin },
	{ "share_unprivileged lets everybody listen",
	  administrator_may_allow_all },
	{ "an address is invisible in another network namespace",
	  addresses_belong_to_a_namespace },
	{ "root of a user namespace may not listen outside it",
	  root_of_a_user_namespace_is_nobody },
	{ "the number of shares is bounded", shares_are_bounded },
};

int main(void)
{
	if (rxe_restore())
		return ktap_skip_all("no " RXE_DEV " with " RXE_ADDR);
	return ktap_run(tests, sizeof(tests) / sizeof(tests[0]));
}
