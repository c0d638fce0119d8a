// SPDX-License-Identifier: MIT
/// @file
/// All of libmemopt. Each header can also be included alone.
#pragma once

#include <memopt/access.hpp>
#include <memopt/buffer.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/hybrid.hpp>
#include <memopt/kernel_mr.hpp>
#include <memopt/memory_region.hpp>
#include <memopt/module.hpp>
#include <memopt/odp.hpp>
#include <memopt/pool.hpp>
#include <memopt/remote_buffer.hpp>
#include <memopt/share.hpp>
#include <memopt/source.hpp>
#include <memopt/translation.hpp>
#include <memopt/units.hpp>
