// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <memopt/device.hpp>

#include "measure.hpp"
#include "row.hpp"

namespace memopt::tool::bench {

struct options {
  std::size_t bytes = 64ULL << 20U;  ///< of every scheme but hugetlb_1g, which takes 1 GiB pages
  unsigned repeats = 5;              ///< of registration
  transfer_plan transfers;
  std::string address;  ///< where the share listens; empty: the device's own
};

/// Names of all schemes in the order of the table.
[[nodiscard]] std::vector<std::string> scheme_names();

/// Measure one scheme. Never throws memopt::error: what keeps the scheme from running becomes the
/// row's reason.
/// @throws std::invalid_argument for a name that is not in scheme_names()
[[nodiscard]] row run_scheme(std::string_view name, const device& dev, const options& given);

}  // namespace memopt::tool::bench
