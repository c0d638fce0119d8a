// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include <memopt/access.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/memory_region.hpp>

namespace memopt {

/// Find out whether on-demand paging really works: a capability bit is not trusted with data.
///
/// Registers a small ODP MR, connects two queue pairs with each other on the device's port, WRITEs
/// and READs at odd offsets, across pages and across packets, and compares every byte. Takes
/// milliseconds; the answer is kept per device and process. Thread-safe.
///
/// @return nothing on success, else `no_odp` (not advertised, or registration refused),
///         `odp_unreliable` (data differed; the text says where), or why the probe could not run
[[nodiscard]] result<void> probe_odp(const device& dev) noexcept;

/// Register memory of the caller for on-demand paging: nothing is pinned, the device faults pages
/// in. Only after probe_odp() succeeds.
/// @throws error of probe_odp(), or of registering.
[[nodiscard]] memory_region register_on_demand(const device& dev, void* address, std::size_t length,
                                               access rights);
[[nodiscard]] result<memory_region> try_register_on_demand(const device& dev, void* address,
                                                           std::size_t length,
                                                           access rights) noexcept;

}  // namespace memopt
