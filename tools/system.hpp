// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memopt::tool {

/// First line of a file without its line end; nothing if it can not be read.
[[nodiscard]] std::optional<std::string> read_line(const std::string& path);

/// The bracketed word of a sysfs choice: "always" of "[always] madvise never"; empty if none is.
[[nodiscard]] std::string chosen_word(std::string_view line);

/// "/proc/meminfo" as bytes by name ("CmaTotal"); lines without a unit (HugePages_*) are counts.
[[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> parse_meminfo(
    std::string_view text);

/// A pool of huge pages on this machine.
struct huge_page_pool {
  std::uint64_t page_size;  ///< bytes
  std::uint64_t total;      ///< pages
  std::uint64_t free;       ///< pages
};

/// What decides whether memory can be had and registered here.
struct system_facts {
  std::string kernel;                           ///< release
  std::string machine;                          ///< architecture
  std::string transparent_huge_pages;           ///< always, madvise, never; empty if unknown
  std::string governor;                         ///< of CPU 0; empty if there is none
  std::vector<huge_page_pool> huge_pages;       ///< by ascending size
  std::optional<std::uint64_t> cma_total;       ///< bytes; nothing on a kernel without CMA
  std::optional<std::uint64_t> cma_free;        ///< bytes
  std::optional<std::uint64_t> memlock_limit;   ///< bytes; nothing for unlimited
  bool ipc_lock = false;                        ///< CAP_IPC_LOCK in the initial user namespace
  std::map<std::string, std::string> packages;  ///< versions of what was linked or found
};

/// @param root prefix of /proc and /sys, for tests; empty for the real ones
[[nodiscard]] system_facts read_system_facts(const std::string& root = {});

}  // namespace memopt::tool
