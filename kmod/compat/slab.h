/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Typed allocation, a macro of <linux/slab.h> in 7.3 and missing in 6.1 and 6.12.
 * Include this instead of <linux/slab.h>.
 */
#ifndef _MEMOPT_COMPAT_SLAB_H
#define _MEMOPT_COMPAT_SLAB_H

#include <linux/slab.h>

#ifndef kzalloc_obj
#define kzalloc_obj(object, gfp)				\
({								\
	typeof(object) *__object = kzalloc(sizeof(object), gfp);	\
								\
	__object;						\
})
#endif

#endif /* _MEMOPT_COMPAT_SLAB_H */
