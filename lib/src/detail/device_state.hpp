// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include <memopt/device.hpp>

namespace memopt::detail {

/// What everything made on a device shares.
struct device_state {
  device_state() = default;
  device_state(const device_state&) = delete;
  device_state& operator=(const device_state&) = delete;
  ~device_state();

  std::shared_ptr<void> parent;  ///< goes after PD and context; may be empty
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  bool owns_context = false;
  bool owns_pd = false;
  std::string name;
  int node = -1;
  device_capabilities capabilities{};
};

/// A device with a new PD on a context that `parent` keeps open.
/// @throws error
[[nodiscard]] std::shared_ptr<device_state> device_on_context(ibv_context* context,
                                                              std::shared_ptr<void> parent);

/// Public only by this door, as device's constructor is private.
struct device_access {
  static device make(std::shared_ptr<device_state> state);
};

}  // namespace memopt::detail
