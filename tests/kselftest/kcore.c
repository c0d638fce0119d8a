// SPDX-License-Identifier: GPL-2.0
/* /proc/kcore is an ELF file: one segment for each piece of the kernel's memory. */
#include "kcore.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* All @len bytes.  Return: 0 or -errno. */
static int read_at(int fd, void *data, size_t len, uint64_t at)
{
	char *to = data;

	while (len) {
		ssize_t got = pread(fd, to, len, (off_t)at);

		if (got <= 0)
			return got ? -errno : -EIO;
		to += got;
		at += (uint64_t)got;
		len -= (size_t)got;
	}
	return 0;
}

/* The next segment that is physical memory.  Return: 1, 0 at the end, or -errno. */
static int next_segment(int fd, const Elf64_Ehdr *head, unsigned int *next,
			Elf64_Phdr *seg)
{
	while (*next < head->e_phnum) {
		int ret = read_at(fd, seg, sizeof(*seg), head->e_phoff +
				  (uint64_t)(*next)++ * sizeof(*seg));

		if (ret)
			return ret;
		if (seg->p_type == PT_LOAD && seg->p_paddr != (uint64_t)-1)
			return 1;
	}
	return 0;
}

static int find_in(int fd, const Elf64_Phdr *seg, const void *magic, size_t len,
		   uint64_t step, uint64_t *physical, uint64_t *direct)
{
	unsigned char seen[64];
	int found = 0;

	for (uint64_t at = (seg->p_paddr + step - 1) / step * step;
	     at + len <= seg->p_paddr + seg->p_memsz; at += step) {
		uint64_t in = at - seg->p_paddr;

		/* what can not be read is not ours */
		if (read_at(fd, seen, len, seg->p_offset + in) ||
		    memcmp(seen, magic, len))
			continue;
		*physical = at;
		*direct = seg->p_vaddr + in;
		found++;
	}
	return found;
}

int kcore_find(const void *magic, size_t len, uint64_t step,
	       uint64_t *physical, uint64_t *direct)
{
	int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	unsigned int next = 0;
	Elf64_Ehdr head;
	Elf64_Phdr seg;
	int found = 0;
	int ret;

	if (fd < 0)
		return -errno;
	ret = len > 64 ? -EINVAL : read_at(fd, &head, sizeof(head), 0);
	while (!ret && (ret = next_segment(fd, &head, &next, &seg)) > 0) {
		found += find_in(fd, &seg, magic, len, step, physical, direct);
		ret = 0;
	}
	close(fd);
	return ret ? ret : found;
}

int kcore_read(uint64_t physical, void *data, size_t len)
{
	int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	unsigned int next = 0;
	Elf64_Ehdr head;
	Elf64_Phdr seg;
	int ret;

	if (fd < 0)
		return -errno;
	ret = read_at(fd, &head, sizeof(head), 0);
	if (ret)
		goto out;
	while ((ret = next_segment(fd, &head, &next, &seg)) > 0) {
		if (physical < seg.p_paddr ||
		    physical + len > seg.p_paddr + seg.p_memsz)
			continue;
		ret = read_at(fd, data, len,
			      seg.p_offset + (physical - seg.p_paddr));
		goto out;
	}
	if (!ret)
		ret = -ENOENT;
out:
	close(fd);
	return ret;
}
