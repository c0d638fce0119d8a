// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <memopt/error.hpp>
#include <memopt/module.hpp>

#include "system.hpp"

namespace memopt::tool {

enum class verdict : unsigned char {
  ok,       ///< there
  warning,  ///< missing, but something else can stand in for it
  failed,   ///< missing, and something of memopt does not work without it
};

[[nodiscard]] std::string_view to_string(verdict v) noexcept;

/// One line of `memopt check`.
struct finding {
  std::string subject;
  memopt::tool::verdict verdict;
  std::string found;   ///< what was seen
  std::string remedy;  ///< what to do about it; empty when ok
};

/// An RDMA device as `check` sees it.
struct rdma_device_state {
  std::string name;
  bool usable;         ///< its device node could be opened
  bool active;         ///< a port is active
  std::string detail;  ///< why not usable; may be empty
};

/// Everything the judgement depends on, gathered beforehand so that it can be tested.
struct machine_state {
  system_facts facts;
  result<module_info> module;
  bool module_loaded;     ///< /sys/module/rdma_memopt exists
  bool module_installed;  ///< the file is under /lib/modules of the running kernel
  std::vector<rdma_device_state> devices;
};

[[nodiscard]] machine_state read_machine_state();

/// Why registration or allocation would fail here. In the order a newcomer should fix things.
[[nodiscard]] std::vector<finding> judge(const machine_state& state);

}  // namespace memopt::tool
