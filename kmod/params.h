/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _MEMOPT_PARAMS_H
#define _MEMOPT_PARAMS_H

#include <linux/types.h>

/**
 * struct memopt_size_param - a region's size as a module parameter
 * @bytes: a multiple of the page size; 0 for no such region
 * @given: the administrator asked for it, so failing to get it is an error
 */
struct memopt_size_param {
	u64 bytes;
	bool given;
};

extern struct memopt_size_param memopt_contig_size;
extern struct memopt_size_param memopt_cma_size;

/* All of these are fixed while the module is loaded. */
extern bool memopt_share_unprivileged;
extern unsigned int memopt_max_connections; /* of one share, at a time */
extern unsigned int memopt_max_shares; /* in the module */

#endif /* _MEMOPT_PARAMS_H */
