// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <utility>

#include <memopt/memory_region.hpp>

namespace memopt::detail {

/// Public only by this door, as memory_region's constructor is private.
struct region_access {
  /// Take over a registration of memory that is the caller's.
  static memory_region make(std::shared_ptr<device_state> dev, ibv_mr* mr, access rights) noexcept {
    return memory_region{std::move(dev), mr, buffer{}, rights};
  }
};

}  // namespace memopt::detail
