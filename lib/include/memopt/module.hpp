// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <memopt/buffer.hpp>
#include <memopt/error.hpp>

namespace memopt {

/// State of one region of the kernel module, at one instant. Bytes.
struct region_info {
  memopt::scheme scheme;  ///< `cma` or `contig`
  int node;
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
  std::uint64_t quarantined;  ///< freed, but still pinned by somebody
  std::uint64_t dirty;        ///< freed, waiting to be zeroed
  std::uint64_t largest_free;
};

/// What the loaded kernel module is and has.
struct module_info {
  std::uint32_t uapi_version;
  bool kernel_cma;  ///< the kernel has CMA built in
  bool pa_mr;       ///< kernel_mr works
  bool shares;      ///< share works
  std::vector<region_info> regions;
};

/// Ask the module. @throws error `no_module`, `module_access`, `module_mismatch`.
[[nodiscard]] module_info query_module();
[[nodiscard]] result<module_info> try_query_module() noexcept;

}  // namespace memopt
