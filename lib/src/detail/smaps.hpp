// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace memopt::detail {

/// One mapping as /proc/PID/smaps describes it. Bytes.
struct vma {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string permissions;  ///< "rw-p"
  std::string name;         ///< file or "[heap]"; empty for anonymous memory
  std::size_t kernel_page_size = 0;
  std::size_t resident = 0;
  std::size_t anonymous_huge = 0;  ///< on transparent huge pages, anonymous
  std::size_t file_huge = 0;       ///< the same of files and shared memory
  std::string flags;               ///< two-letter words of VmFlags, each followed by a blank

  [[nodiscard]] bool has_flag(std::string_view two_letters) const noexcept;
  [[nodiscard]] bool writable() const noexcept {
    return permissions.size() > 1 && permissions[1] == 'w';
  }
  [[nodiscard]] bool shared() const noexcept {
    return permissions.size() > 3 && permissions[3] == 's';
  }
};

/// The mappings that overlap [begin, end), ascending. Lines that make no sense are left out.
[[nodiscard]] std::vector<vma> parse_smaps(std::istream& text, std::uintptr_t begin,
                                           std::uintptr_t end);

/// The same of this process, now. Empty if /proc is not there.
[[nodiscard]] std::vector<vma> mappings_of(const void* address, std::size_t length);

}  // namespace memopt::detail
