/* SPDX-License-Identifier: GPL-2.0 */
/* Where memory really lies, as root may see in /proc/kcore. */
#ifndef _KCORE_H
#define _KCORE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Look at every multiple of @step of the physical memory for the @len bytes of
 * @magic, at most 64.
 *
 * @physical, @direct: where they are, and the same in the kernel's direct map
 * Return: how often they were found, or -errno without /proc/kcore.
 */
int kcore_find(const void *magic, size_t len, uint64_t step,
	       uint64_t *physical, uint64_t *direct);

/* Return: 0, -ENOENT if that is no memory, or another -errno. */
int kcore_read(uint64_t physical, void *data, size_t len);

#endif /* _KCORE_H */
