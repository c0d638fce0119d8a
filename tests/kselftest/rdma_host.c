// SPDX-License-Identifier: GPL-2.0
/* See rdma_util.h: memory, patterns, processes and the test device. */
#include "rdma_util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memopt_util.h"

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int minus_errno(void)
{
	return errno ? -errno : -EIO;
}

/* ---- patterns ---- */

static uint64_t pattern_word(uint64_t seed, size_t index)
{
	return (seed ^ (index + 1)) * 0x9e3779b97f4a7c15ULL;
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	uint64_t *words = buf;

	for (size_t i = 0; i < len / sizeof(*words); i++)
		words[i] = pattern_word(seed, i);
}

size_t pattern_wrong(const void *buf, size_t len, uint64_t seed)
{
	const uint64_t *words = buf;
	size_t wrong = 0;

	for (size_t i = 0; i < len / sizeof(*words); i++)
		wrong += words[i] != pattern_word(seed, i);
	return wrong;
}

size_t bytes_other_than(const void *buf, size_t len, unsigned char byte)
{
	const unsigned char *bytes = buf;
	size_t wrong = 0;

	for (size_t i = 0; i < len; i++)
		wrong += bytes[i] != byte;
	return wrong;
}

/* ---- one owner of all free memory of a kind ---- */

/* Return: 0, -ENOMEM if no run of @len is free, or another -errno. */
static int hoard_add(struct hoard *h, uint32_t kind, size_t len)
{
	struct memopt_buf_alloc buf;
	struct hoard_piece *more;
	void *mem;
	int ret;

	ret = buf_alloc(h->fd, kind, len, 4096, &buf);
	if (ret)
		return ret;
	mem = buf_map(h->fd, &buf);
	if (!mem)
		return minus_errno();
	more = realloc(h->pieces, (h->nr + 1) * sizeof(*more));
	if (!more) {
		munmap(mem, len);
		return -ENOBUFS;
	}
	h->pieces = more;
	h->pieces[h->nr++] = (struct hoard_piece) {
		.id = buf.out_buf_id,
		.len = len,
		.mem = mem,
	};
	h->bytes += len;
	return 0;
}

int hoard_take(struct hoard *h, uint32_t kind)
{
	int ret = 0;

	memset(h, 0, sizeof(*h));
	h->fd = memopt_open();
	if (h->fd < 0)
		return h->fd;
	for (size_t len = 64 * MIB; len >= 4096; len /= 2) {
		do {
			ret = hoard_add(h, kind, len);
		} while (!ret);
		if (ret != -ENOMEM)
			break;
	}
	if (ret == -ENOMEM)
		return 0;
	hoard_release(h);
	return ret;
}

void hoard_fill(struct hoard *h, uint64_t seed)
{
	for (unsigned int i = 0; i < h->nr; i++)
		pattern_fill(h->pieces[i].mem, h->pieces[i].len, seed + i);
}

size_t hoard_wrong(const struct hoard *h, uint64_t seed)
{
	size_t wrong = 0;

	for (unsigned int i = 0; i < h->nr; i++)
		wrong += pattern_wrong(h->pieces[i].mem, h->pieces[i].len,
				       seed + i);
	return wrong;
}

size_t hoard_dirty(const struct hoard *h)
{
	size_t wrong = 0;

	for (unsigned int i = 0; i < h->nr; i++)
		wrong += bytes_other_than(h->pieces[i].mem, h->pieces[i].len,
					  0);
	return wrong;
}

void hoard_release(struct hoard *h)
{
	for (unsigned int i = 0; i < h->nr; i++)
		munmap(h->pieces[i].mem, h->pieces[i].len);
	free(h->pieces);
	if (h->fd >= 0)
		close(h->fd);
	memset(h, 0, sizeof(*h));
	h->fd = -1;
}

/* ---- processes and the device ---- */

bool child_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid == pid;
}

int wait_child(pid_t pid, int timeout_ms)
{
	const int64_t end = now_ms() + timeout_ms;
	const struct timespec nap = { .tv_nsec = 5000000 };
	int status;

	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			break;
		if (got < 0)
			return minus_errno();
		if (now_ms() > end) {
			kill_child(pid);
			return -ETIMEDOUT;
		}
		nanosleep(&nap, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) :
				   128 + WTERMSIG(status);
}

void kill_child(pid_t pid)
{
	const struct timespec nap = { .tv_nsec = 20000000 };

	kill(pid, SIGKILL);
	/*
	 * A task stuck in the kernel does not end: give up after ten seconds,
	 * so that the test can still say what happened.
	 */
	for (int i = 0; i < 500 && !waitpid(pid, NULL, WNOHANG); i++)
		nanosleep(&nap, NULL);
}

int run_quietly(char *const argv[], int timeout_ms)
{
	pid_t pid = fork();

	if (pid < 0)
		return minus_errno();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	return wait_child(pid, timeout_ms);
}

int rxe_remove(void)
{
	char *const argv[] = { "rdma", "link", "delete", RXE_DEV, NULL };

	return run_quietly(argv, 30000);
}

int rxe_restore(void)
{
	char *const argv[] = { "rdma", "link", "add", RXE_DEV, "type", "rxe",
			       "netdev", RXE_NETDEV, NULL };
	const struct timespec nap = { .tv_nsec = 100000000 };
	int ret;

	if (rxe_ready())
		return 0;
	ret = run_quietly(argv, 30000);
	for (int i = 0; i < 100; i++) {
		if (rxe_ready())
			return 0;
		nanosleep(&nap, NULL);
	}
	return ret ? ret : -ENODEV;
}

const char *module_file(void)
{
	static char path[512];
	const char *build = getenv("MEMOPT_BUILD");

	if (!build)
		return NULL;
	snprintf(path, sizeof(path), "%s/kmod/rdma_memopt.ko", build);
	return access(path, R_OK) ? NULL : path;
}

int module_unload(void)
{
	char *const argv[] = { "rmmod", MEMOPT_DEVICE_NAME, NULL };

	return run_quietly(argv, RDMA_PATIENCE_MS);
}

int module_load(const char *parameter)
{
	char *const argv[] = { "insmod", (char *)module_file(),
			       "contig_size=128M", "cma_size=128M",
			       (char *)parameter, NULL };

	return run_quietly(argv, RDMA_PATIENCE_MS);
}

int send_fd(int sock, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : minus_errno();
}

int recv_fd(int sock)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *cmsg;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return minus_errno();
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}
