// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <memopt/access.hpp>
#include <memopt/error.hpp>

#include "smaps.hpp"

namespace memopt::detail {

/// What was seen right after a registration failed.
struct registration_scene {
  int errnum;  ///< positive errno value
  std::uintptr_t begin;
  std::size_t length;  ///< bytes
  access rights;
  std::vector<vma> mappings;                   ///< of the range
  std::optional<std::uint64_t> memlock_limit;  ///< bytes; nothing for unlimited
  std::uint64_t locked;                        ///< bytes this process has locked or pinned
  bool ipc_lock;                               ///< CAP_IPC_LOCK is in the effective set
  bool in_user_namespace;                      ///< not in the initial one
  std::size_t mapping_count;                   ///< of the process
  std::size_t max_map_count;                   ///< vm.max_map_count; 0 if unknown
  std::uint64_t max_mr_size;                   ///< bytes the device takes; 0 if unknown
};

struct diagnosis {
  reason why;
  std::string detail;
};

/// Tell the causes of one errno apart. Pure, so that every cause can be tested.
[[nodiscard]] diagnosis diagnose(const registration_scene& scene);

/// Look around.
[[nodiscard]] registration_scene look_around(int errnum, const void* address, std::size_t length,
                                             access rights, std::uint64_t max_mr_size);

}  // namespace memopt::detail
