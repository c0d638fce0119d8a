// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <memopt/error.hpp>

namespace memopt::tool::bench {

/// What the kernel really gave.
struct obtained_memory {
  std::size_t page_size = 0;  ///< bytes of the smallest page behind the memory, verified
  std::size_t segments = 0;   ///< physically contiguous pieces; an upper bound for user memory
  std::size_t mapping = 0;    ///< bytes of the largest CPU page it is mapped with
  std::string backend;        ///< scheme that came out of a fall-back list
};

/// Translation entries a device would hold, by the largest page it can use.
struct entry_counts {
  std::uint64_t at_4k = 0;
  std::uint64_t at_2m = 0;
  std::uint64_t at_1g = 0;
};

/// What the module told the device about a physical-address MR.
struct posted_entries {
  std::uint32_t entries;
  std::uint32_t page_size;  ///< bytes each covers
};

/// One line of the comparison. Either every figure is greater than 0 or `why` says what kept
/// the scheme from running.
struct row {
  std::string scheme;
  std::string path = "user_pd";  ///< "user_pd" or "share"
  std::size_t bytes = 0;
  obtained_memory obtained;
  double alloc_ms = 0;        ///< getting the memory, with population where the scheme does that
  double first_touch_ms = 0;  ///< writing one byte of every base page for the first time
  double reg_first_us = 0;
  double reg_again_us = 0;  ///< median of the repeats
  double dereg_us = 0;      ///< median
  entry_counts entries;
  std::optional<posted_entries> posted;
  double write_64b_us = 0;   ///< median, one at a time
  double read_64b_us = 0;    ///< median, one at a time
  double write_1m_mbps = 0;  ///< 10^6 bytes a second, one request of 1 MiB at a time
  double read_1m_mbps = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t bytes_verified = 0;  ///< compared byte by byte and equal
  std::string note;                  ///< what a column means for this scheme; may be empty
  std::optional<reason> why;
  std::string detail;  ///< sentence that goes with `why`
};

struct report {
  std::string device;
  unsigned repeats = 0;
  unsigned transfers = 0;
  std::vector<row> rows;
};

}  // namespace memopt::tool::bench
