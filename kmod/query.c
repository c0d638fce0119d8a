// SPDX-License-Identifier: GPL-2.0
/* QUERY and REGION_INFO: what the module can do, and how full it is. */
#include "memopt.h"
#include "params.h"

int memopt_ioctl_query(struct memopt_call *call)
{
	struct memopt_query *arg = call->arg;

	arg->out_features = memopt_region_features() | MEMOPT_FEATURE_PA_MR |
			    MEMOPT_FEATURE_SHARE;
	/* An implicit buffer is a pinnable one. */
	if (arg->out_features & MEMOPT_FEATURE_CONTIG)
		arg->out_features |= MEMOPT_FEATURE_IMPLICIT_MMAP;
	arg->out_uapi_version = MEMOPT_UAPI_VERSION;
	arg->out_region_count = memopt_region_count();
	arg->out_max_objects = memopt_max_objects;
	arg->out_max_connections = memopt_max_connections;
	return 0;
}

int memopt_ioctl_region_info(struct memopt_call *call)
{
	return memopt_region_query(call->arg);
}
