// SPDX-License-Identifier: GPL-2.0
/* Mappings of buffers: bounds, splitting, fork, lifetime. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ktap.h"
#include "memopt_util.h"

#define PAGE 4096UL
#define MIB (1024UL * 1024)
#define RW (PROT_READ | PROT_WRITE)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t kinds[] = { MEMOPT_KIND_CONTIG, MEMOPT_KIND_CMA };

static int fd;

static void setup(void)
{
	fd = memopt_open();
	require(fd >= 0);
	for (size_t i = 0; i < COUNT(kinds); i++)
		require_eq(region_wait_idle(fd, kinds[i]), 0);
}

/* Return: 0 or -errno; unmaps what it could map. */
static int try_map(int file, size_t len, int prot, int flags, uint64_t offset)
{
	void *mem = mmap(NULL, len, prot, flags, file, (off_t)offset);

	if (mem == MAP_FAILED)
		return -errno;
	require_eq(munmap(mem, len), 0);
	return 0;
}

static unsigned char *map_part(const struct memopt_buf_alloc *buf, size_t at,
			       size_t len)
{
	void *mem = mmap(NULL, len, RW, MAP_SHARED, fd,
			 (off_t)(buf->out_mmap_offset + at));

	require(mem != MAP_FAILED);
	return mem;
}

static uint32_t mappings_of(uint32_t id)
{
	struct memopt_buf_info info;

	require_eq(buf_info(fd, id, &info), 0);
	return info.out_mappings;
}

static void fill(unsigned char *mem, size_t len)
{
	for (size_t i = 0; i < len; i += PAGE)
		memset(mem + i, (int)(i / PAGE % 251 + 1), PAGE);
}

/* Is mem what fill() wrote from byte at of the buffer on? */
static bool is_filled(const unsigned char *mem, size_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != (at + i) / PAGE % 251 + 1)
			return false;
	return true;
}

static void parts_show_the_same(void)
{
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		unsigned char *mem, *part;

		require_eq(buf_alloc(fd, kinds[k], 4 * MIB, 0, &buf), 0);
		mem = map_part(&buf, 0, 4 * MIB);
		fill(mem, 4 * MIB);
		part = map_part(&buf, MIB + PAGE, 2 * MIB);
		require(is_filled(part, MIB + PAGE, 2 * MIB));
		part[5] = 0;
		require_eq(mem[MIB + PAGE + 5], 0);
		part = map_part(&buf, 4 * MIB - PAGE, PAGE);
		require(is_filled(part, 4 * MIB - PAGE, PAGE));
		/* less than a page is a page */
		require_eq(try_map(fd, 1, RW, MAP_SHARED,
				   buf.out_mmap_offset + 4 * MIB - PAGE), 0);
		require_eq(mappings_of(buf.out_buf_id), 3);
	}
}

static void only_shared(void)
{
	struct memopt_buf_alloc buf;
	int fresh = memopt_open();

	setup();
	require(fresh >= 0);
	for (size_t k = 0; k < COUNT(kinds); k++) {
		require_eq(buf_alloc(fd, kinds[k], MIB, 0, &buf), 0);
		require_eq(try_map(fd, MIB, RW, MAP_PRIVATE,
				   buf.out_mmap_offset), -EINVAL);
		require_eq(try_map(fd, MIB, PROT_READ, MAP_PRIVATE,
				   buf.out_mmap_offset), -EINVAL);
		require_eq(try_map(fd, MIB, RW, MAP_PRIVATE | MAP_POPULATE,
				   buf.out_mmap_offset), -EINVAL);
		require_eq(mappings_of(buf.out_buf_id), 0);
		require_eq(try_map(fd, MIB, RW, MAP_SHARED_VALIDATE,
				   buf.out_mmap_offset), 0);
	}
	require_eq(try_map(fresh, MIB, RW, MAP_PRIVATE, 0), -EINVAL);
	require_eq(try_map(fresh, MIB, RW, MAP_SHARED, 0), 0);
}

static void bounds(void)
{
	struct memopt_buf_alloc buf;
	uint64_t at;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		require_eq(buf_alloc(fd, kinds[k], MIB, 0, &buf), 0);
		at = buf.out_mmap_offset;
		require_eq(try_map(fd, MIB, RW, MAP_SHARED, at), 0);
		require_eq(try_map(fd, MIB + 1, RW, MAP_SHARED, at), -EINVAL);
		require_eq(try_map(fd, MIB, RW, MAP_SHARED, at + PAGE),
			   -EINVAL);
		require_eq(try_map(fd, MIB, RW, MAP_SHARED, at - PAGE),
			   -EINVAL);
		require_eq(try_map(fd, PAGE, RW, MAP_SHARED, at + MIB),
			   -EINVAL);
		require_eq(try_map(fd, PAGE, RW, MAP_SHARED, PAGE), -EINVAL);
		require_eq(try_map(fd, PAGE, RW, MAP_SHARED, 1ULL << 44),
			   -EINVAL);
		require(try_map(fd, 1UL << 46, RW, MAP_SHARED, at) != 0);
		/* the last page offsets there are */
		require(try_map(fd, PAGE, RW, MAP_SHARED,
				(1ULL << 63) - PAGE) != 0);
		require(try_map(fd, 2 * PAGE, RW, MAP_SHARED, -PAGE) != 0);
		require_eq(mappings_of(buf.out_buf_id), 0);
	}
}

static void offsets_belong_to_a_file(void)
{
	struct memopt_buf_alloc buf, own;
	unsigned char *mem;
	int other = memopt_open();

	setup();
	require(other >= 0);
	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, MIB, 0, &buf), 0);
	require_eq(try_map(other, MIB, RW, MAP_SHARED, buf.out_mmap_offset),
		   -EINVAL);
	require_eq(buf_alloc(other, MEMOPT_KIND_CONTIG, MIB, 0, &own), 0);
	require_eq(try_map(other, MIB, RW, MAP_SHARED, buf.out_mmap_offset),
		   -EINVAL);

	/* a freed id takes its offset along, not the mapping */
	mem = map_part(&buf, 0, MIB);
	fill(mem, MIB);
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	require_eq(try_map(fd, MIB, RW, MAP_SHARED, buf.out_mmap_offset),
		   -EINVAL);
	require(is_filled(mem, 0, MIB));
}

static void splitting(void)
{
	struct memopt_region_info info;
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		unsigned char *mem, *moved;
		void *target;

		require_eq(buf_alloc(fd, kinds[k], 8 * MIB, 0, &buf), 0);
		mem = map_part(&buf, 0, 8 * MIB);
		fill(mem, 8 * MIB);

		/* before there is a hole it could fill */
		target = mmap(NULL, MIB, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		require(target != MAP_FAILED);

		/* in three by protection, then a hole */
		require_eq(mprotect(mem + 2 * MIB, MIB, PROT_READ), 0);
		require_eq(mappings_of(buf.out_buf_id), 3);
		require_eq(munmap(mem + 5 * MIB, MIB), 0);
		require_eq(mappings_of(buf.out_buf_id), 4);
		require(is_filled(mem, 0, 5 * MIB));
		require(is_filled(mem + 6 * MIB, 6 * MIB, 2 * MIB));

		/* a part moves and still shows its part of the buffer */
		moved = mremap(mem + 6 * MIB, MIB, MIB,
			       MREMAP_MAYMOVE | MREMAP_FIXED, target);
		require(moved == target);
		require(is_filled(moved, 6 * MIB, MIB));
		require_eq(mappings_of(buf.out_buf_id), 5);

		/* never more than was mapped */
		require(mremap(moved, MIB, 2 * MIB, MREMAP_MAYMOVE) ==
			MAP_FAILED);
		require(mremap(moved, MIB, PAGE, 0) == moved);
		require(is_filled(moved, 6 * MIB, PAGE));

		/* the last piece keeps all of it */
		require_eq(munmap(mem, 8 * MIB), 0);
		require_eq(mappings_of(buf.out_buf_id), 1);
		require_eq(buf_free(fd, buf.out_buf_id), 0);
		require_eq(region_find(fd, kinds[k], &info), 0);
		require_eq(info.out_used, 8 * MIB);
		require(is_filled(moved, 6 * MIB, PAGE));
		require_eq(munmap(moved, PAGE), 0);
		require_eq(region_wait_idle(fd, kinds[k]), 0);
	}
}

static int child_status(pid_t pid)
{
	int status;

	require(pid > 0);
	require_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void fork_does_not_inherit(void)
{
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		unsigned char *mem;
		int status;
		pid_t pid;

		require_eq(buf_alloc(fd, kinds[k], MIB, 0, &buf), 0);
		mem = map_part(&buf, 0, MIB);
		fill(mem, MIB);

		pid = fork();
		if (!pid) {
			*(volatile unsigned char *)mem = 0;
			_exit(0);
		}
		status = child_status(pid);
		require(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
		require(is_filled(mem, 0, MIB));

		/* but what the descriptor can do, the child can */
		pid = fork();
		if (!pid) {
			unsigned char *own = map_part(&buf, 0, MIB);

			require(is_filled(own, 0, MIB));
			own[0] = 77;
			_exit(0);
		}
		require_eq(child_status(pid), 0);
		require_eq(mem[0], 77);
		require_eq(mappings_of(buf.out_buf_id), 1);
	}
}

static void madvise_keeps_content(void)
{
	struct memopt_buf_alloc buf;

	setup();
	for (size_t k = 0; k < COUNT(kinds); k++) {
		unsigned char *mem;
		int ret;

		require_eq(buf_alloc(fd, kinds[k], 2 * MIB, 0, &buf), 0);
		mem = map_part(&buf, 0, 2 * MIB);
		fill(mem, 2 * MIB);
		ret = madvise(mem + MIB, MIB, MADV_DONTNEED);
		require(kinds[k] == MEMOPT_KIND_CMA ? ret == -1 : ret == 0);
		require(is_filled(mem, 0, 2 * MIB));
		/* anonymous memory only, or files that can have holes */
		require_eq(madvise(mem, MIB, MADV_FREE), -1);
		require_eq(madvise(mem, MIB, MADV_REMOVE), -1);
		require(is_filled(mem, 0, 2 * MIB));
		require_eq(madvise(mem, MIB, MADV_DONTFORK), 0);
	}
}

static void mapping_outlives_id_and_descriptor(void)
{
	struct memopt_region_info info;
	struct memopt_buf_alloc buf;
	int watch = memopt_open();

	require(watch >= 0);
	for (size_t k = 0; k < COUNT(kinds); k++) {
		unsigned char *mem;

		setup();
		require_eq(buf_alloc(fd, kinds[k], MIB, 0, &buf), 0);
		mem = map_part(&buf, 0, MIB);
		mem[0] = 1;
		require_eq(buf_free(fd, buf.out_buf_id), 0);
		require_eq(close(fd), 0);
		/* pages that were not touched before are there too */
		fill(mem, MIB);
		require(is_filled(mem, 0, MIB));
		require_eq(region_find(watch, kinds[k], &info), 0);
		require_eq(info.out_used, MIB);
		require_eq(munmap(mem, MIB), 0);
		require_eq(region_wait_idle(watch, kinds[k]), 0);
	}
}

static void send_descriptor(int sock, int what)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &what, sizeof(int));
	require_eq(sendmsg(sock, &msg, 0), 1);
}

static int receive_descriptor(int sock)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	int what;

	require_eq(recvmsg(sock, &msg, 0), 1);
	require(CMSG_FIRSTHDR(&msg) != NULL);
	memcpy(&what, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return what;
}

/* Everything belongs to the open file: the maker may be gone. */
static void passed_descriptor(void)
{
	struct memopt_buf_alloc buf;
	struct memopt_buf_info info;
	unsigned char *mem;
	int sock[2];
	pid_t pid;

	setup();
	require_eq(close(fd), 0);
	require_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	pid = fork();
	if (!pid) {
		fd = memopt_open();
		require(fd >= 0);
		require_eq(buf_alloc(fd, MEMOPT_KIND_CMA, MIB, 0, &buf), 0);
		fill(map_part(&buf, 0, MIB), MIB);
		require_eq(write(sock[1], &buf, sizeof(buf)), sizeof(buf));
		send_descriptor(sock[1], fd);
		pause();
	}
	require_eq(read(sock[0], &buf, sizeof(buf)), sizeof(buf));
	fd = receive_descriptor(sock[0]);
	require_eq(kill(pid, SIGKILL), 0);
	child_status(pid);

	require_eq(buf_info(fd, buf.out_buf_id, &info), 0);
	require_eq(info.out_mappings, 0);
	mem = map_part(&buf, 0, MIB);
	require(is_filled(mem, 0, MIB));
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	require(is_filled(mem, 0, MIB));
	require_eq(munmap(mem, MIB), 0);
	require_eq(region_wait_idle(fd, MEMOPT_KIND_CMA), 0);
}

/* ---- implicit buffers ---- */

static void implicit_buffer(void)
{
	struct memopt_buf_info info;
	unsigned char *mem, *part;
	int watch = memopt_open();

	setup();
	require(watch >= 0);
	require_eq(buf_info(fd, 0, &info), -ENOENT);
	/* there is no part of what does not exist */
	require_eq(try_map(fd, PAGE, RW, MAP_SHARED, PAGE), -EINVAL);
	mem = mmap(NULL, 2 * MIB + 1, RW, MAP_SHARED, fd, 0);
	require(mem != MAP_FAILED);
	require_eq(buf_info(fd, 0, &info), 0);
	require_eq(info.out_state, MEMOPT_BUF_STATE_PINNABLE |
		   MEMOPT_BUF_STATE_IMPLICIT);
	require_eq(info.out_length, 2 * MIB + PAGE);
	require_eq(info.out_mmap_offset, 0);
	require_eq(info.out_mappings, 1);
	fill(mem, 2 * MIB + PAGE);

	/* a second one is the same memory, as a whole or in part */
	part = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	require(part != MAP_FAILED);
	require(is_filled(part, 0, MIB));
	part = mmap(NULL, MIB, RW, MAP_SHARED, fd, MIB);
	require(part != MAP_FAILED);
	require(is_filled(part, MIB, MIB));
	require_eq(try_map(fd, 3 * MIB, RW, MAP_SHARED, 0), -EINVAL);
	require_eq(try_map(fd, 2 * MIB, RW, MAP_SHARED, MIB), -EINVAL);
	require_eq(buf_free(fd, 0), -ENOENT);

	/* without a mapping it waits for the next; with the file it ends */
	require_eq(munmap(mem, 2 * MIB + PAGE), 0);
	require_eq(munmap(part, MIB), 0);
	part = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 2 * MIB);
	require(part != MAP_FAILED);
	require(is_filled(part, 2 * MIB, PAGE));
	require_eq(close(fd), 0);
	require(is_filled(part, 2 * MIB, PAGE));
}

static void implicit_buffer_ends(void)
{
	struct memopt_region_info info;
	unsigned char *mem;
	int watch = memopt_open();

	setup();
	mem = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	require(mem != MAP_FAILED);
	require_eq(close(fd), 0);
	mem[MIB - 1] = 1;
	require_eq(region_find(watch, MEMOPT_KIND_CONTIG, &info), 0);
	require_eq(info.out_used, MIB);
	require_eq(munmap(mem, MIB), 0);
	require_eq(region_wait_idle(watch, MEMOPT_KIND_CONTIG), 0);
}

static void implicit_or_allocated(void)
{
	struct memopt_region_info info;
	struct memopt_buf_alloc buf;

	setup();
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, MIB, 0, &buf), 0);
	require_eq(try_map(fd, MIB, RW, MAP_SHARED, 0), -EINVAL);
	require_eq(buf_free(fd, buf.out_buf_id), 0);
	require_eq(try_map(fd, MIB, RW, MAP_SHARED, 0), -EINVAL);
	require_eq(close(fd), 0);

	/* what failed did not count, and too much is refused */
	fd = memopt_open();
	require_eq(buf_alloc(fd, MEMOPT_KIND_ANY, 0, 0, &buf), -EINVAL);
	require_eq(region_find(fd, MEMOPT_KIND_CONTIG, &info), 0);
	require_eq(try_map(fd, info.out_total + PAGE, RW, MAP_SHARED, 0),
		   -ENOMEM);
	require_eq(try_map(fd, MIB, RW, MAP_SHARED, 0), 0);
}

static void implicit_race(void)
{
	setup();
	for (int round = 0; round < 50; round++) {
		struct memopt_region_info info;
		int file = memopt_open();
		int go[2], done[2];
		pid_t pid[2];
		char byte;

		require(file >= 0);
		require_eq(pipe(go), 0);
		require_eq(pipe(done), 0);
		for (int i = 0; i < 2; i++) {
			pid[i] = fork();
			if (pid[i])
				continue;
			unsigned char *mem;

			require_eq(read(go[0], &byte, 1), 1);
			mem = mmap(NULL, MIB, RW, MAP_SHARED, file, 0);
			require(mem != MAP_FAILED);
			mem[(size_t)i * PAGE] = 1;
			require_eq(write(done[1], "", 1), 1);
			/* both see what both wrote: it is one buffer */
			require(eventually(__atomic_load_n(mem,
							   __ATOMIC_RELAXED)));
			require(eventually(__atomic_load_n(mem + PAGE,
							   __ATOMIC_RELAXED)));
			_exit(0);
		}
		require_eq(write(go[1], "ab", 2), 2);
		require_eq(read(done[0], &byte, 1), 1);
		require_eq(read(done[0], &byte, 1), 1);
		require_eq(region_find(fd, MEMOPT_KIND_CONTIG, &info), 0);
		require_eq(info.out_used, MIB);
		for (int i = 0; i < 2; i++)
			require_eq(child_status(pid[i]), 0);
		require_eq(close(file), 0);
		require_eq(region_wait_idle(fd, MEMOPT_KIND_CONTIG), 0);
		for (int i = 0; i < 2; i++) {
			close(go[i]);
			close(done[i]);
		}
	}
}

static void wishes_are_respected(void)
{
	struct memopt_buf_alloc buf;
	unsigned char *room, *mem;

	setup();
	require_eq(buf_alloc(fd, MEMOPT_KIND_CONTIG, 2 * MIB, 0, &buf), 0);
	room = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	require(room != MAP_FAILED);
	mem = mmap(room + 3 * PAGE, 2 * MIB, RW, MAP_SHARED | MAP_FIXED, fd,
		   (off_t)buf.out_mmap_offset);
	require(mem == room + 3 * PAGE);
	fill(mem, 2 * MIB);
	require_eq(munmap(room, 16 * MIB), 0);
	mem = mmap(room + 5 * PAGE, 2 * MIB, RW, MAP_SHARED, fd,
		   (off_t)buf.out_mmap_offset);
	require(mem == room + 5 * PAGE);
	require(is_filled(mem, 0, 2 * MIB));
}

static void read_only_descriptor(void)
{
	int reader = open(MEMOPT_DEVICE, O_RDONLY | O_CLOEXEC);
	struct memopt_buf_alloc buf;

	setup();
	require(reader >= 0);
	require_eq(buf_alloc(reader, MEMOPT_KIND_CMA, MIB, 0, &buf), 0);
	require_eq(try_map(reader, MIB, RW, MAP_SHARED, buf.out_mmap_offset),
		   -EACCES);
	require_eq(try_map(reader, MIB, PROT_READ, MAP_PRIVATE,
			   buf.out_mmap_offset), -EINVAL);
	require_eq(try_map(reader, MIB, PROT_READ, MAP_SHARED | MAP_POPULATE,
			   buf.out_mmap_offset), 0);
}

static const struct ktap_test tests[] = {
	{ "parts show the same memory", parts_show_the_same },
	{ "MAP_PRIVATE is EINVAL", only_shared },
	{ "bounds hold", bounds },
	{ "offsets belong to one file and end with the id",
	  offsets_belong_to_a_file },
	{ "split, moved and shrunk mappings count", splitting },
	{ "fork does not inherit", fork_does_not_inherit },
	{ "madvise does not lose content", madvise_keeps_content },
	{ "a mapping outlives id and descriptor",
	  mapping_outlives_id_and_descriptor },
	{ "a passed descriptor carries everything", passed_descriptor },
	{ "mmap at 0 makes a buffer", implicit_buffer },
	{ "an implicit buffer ends with mapping and file",
	  implicit_buffer_ends },
	{ "a file has an implicit buffer or others", implicit_or_allocated },
	{ "two mappers at 0 get one buffer", implicit_race },
	{ "MAP_FIXED and hints are respected", wishes_are_respected },
	{ "a read-only descriptor maps for reading", read_only_descriptor },
};

int main(void)
{
	return ktap_run(tests, COUNT(tests));
}
