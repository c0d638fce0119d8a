// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

namespace memopt::detail {

inline constexpr std::size_t hybrid_huge = std::size_t{2} << 20;
inline constexpr std::size_t hybrid_base = 4096;

/// Where the parts of a hybrid region lie, seen from the 2 MiB border before which `offset` bytes
/// are. All in bytes.
struct hybrid_layout {
  std::size_t front;        ///< bytes of the caller before the body
  std::size_t body;         ///< from the border on, a multiple of 2 MiB; 0 if the range has none
  std::size_t tail;         ///< bytes of the caller behind the body
  std::size_t lead;         ///< unused ones at the start of the first page
  std::size_t front_pages;  ///< whole base pages from the first byte's to the border
  std::size_t tail_pages;   ///< whole base pages behind the body
  std::size_t all_pages;    ///< whole base pages of everything, if no part is on huge pages

  /// Address space to reserve so that a border with all around it is inside, wherever it starts.
  [[nodiscard]] constexpr std::size_t reservation() const noexcept {
    return hybrid_huge + front_pages + body + tail_pages;
  }
};

/// Nothing if the length is 0 or too large for any address space, or the offset not below 2 MiB.
[[nodiscard]] constexpr std::optional<hybrid_layout> lay_out(std::size_t length,
                                                             std::size_t offset) noexcept {
  const auto whole_pages = [](std::size_t bytes) {
    return (bytes + hybrid_base - 1) / hybrid_base * hybrid_base;
  };
  if (length == 0 || length > std::numeric_limits<std::size_t>::max() / 2 ||
      offset >= hybrid_huge) {
    return std::nullopt;
  }
  hybrid_layout layout{};
  layout.front = std::min(offset, length);
  layout.front_pages = whole_pages(offset);
  layout.lead = layout.front_pages - offset;
  layout.body = (length - layout.front) / hybrid_huge * hybrid_huge;
  layout.tail = length - layout.front - layout.body;
  layout.tail_pages = whole_pages(layout.tail);
  layout.all_pages = whole_pages(layout.lead + length);
  return layout;
}

}  // namespace memopt::detail
