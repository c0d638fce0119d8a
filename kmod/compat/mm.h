/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _MEMOPT_COMPAT_MM_H
#define _MEMOPT_COMPAT_MM_H

#endif /* _MEMOPT_COMPAT_MM_H */
