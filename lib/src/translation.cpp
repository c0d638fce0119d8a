// SPDX-License-Identifier: MIT

#include <memopt/translation.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <string>

namespace memopt {

namespace {

constexpr std::uint64_t smallest_page = 4096;

/// Value of the lowest set bit; for 0 the largest power of two, as 0 is aligned to everything.
constexpr std::uint64_t lowest_bit(std::uint64_t value) noexcept {
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  return value == 0 ? top : value & (~value + 1);
}

/// Smallest page, 4096 at least, that holds all of the range in one. The kernel takes no larger
/// one, since it would not save an entry.
constexpr std::uint64_t covering_page(std::uint64_t iova, std::uint64_t length) noexcept {
  const std::uint64_t varying = (iova + (length - 1)) ^ iova;
  if (varying >= std::uint64_t{1} << 63) {
    return std::uint64_t{1} << 63;
  }
  return std::max(std::bit_ceil(varying + 1), smallest_page);
}

}  // namespace

// The kernel folds every reason against a page size into one mask and takes the trailing zeros.
// Here the limit is lowered step by step instead; the differences from the kernel are only in
// what is known: an extent's physical address up to known_alignment, and extents are taken as
// apart even if they happen to be neighbours.
std::uint64_t best_page_size(std::span<const extent> extents, std::uint64_t iova,
                             std::uint64_t page_cap) noexcept {
  if (page_cap < smallest_page) {
    return 0;
  }
  std::uint64_t limit = std::bit_floor(page_cap);
  std::uint64_t total = 0;
  for (const extent& piece : extents) {
    if (piece.length == 0) {
      continue;
    }
    if (!std::has_single_bit(piece.known_alignment) ||
        piece.length > std::numeric_limits<std::uint64_t>::max() - total) {
      return 0;
    }
    const std::uint64_t va = iova + total;
    const std::uint64_t differing = (va ^ piece.residue) & (piece.known_alignment - 1);
    limit = std::min({limit, piece.known_alignment, lowest_bit(differing)});
    if (total != 0) {
      limit = std::min(limit, lowest_bit(va));
    }
    total += piece.length;
  }
  const bool wraps = total != 0 && iova > std::numeric_limits<std::uint64_t>::max() - (total - 1);
  if (total == 0 || wraps || limit < smallest_page) {
    return 0;
  }
  return std::min(limit, covering_page(iova, total));
}

std::uint64_t entries_for(std::uint64_t iova, std::uint64_t length,
                          std::uint64_t page_size) noexcept {
  if (length == 0 || page_size == 0) {
    return 0;
  }
  // (iova + length - 1) / page_size - iova / page_size + 1, arranged so that nothing wraps.
  const std::uint64_t before = iova % page_size;
  const std::uint64_t last = length - 1;
  const std::uint64_t carry = before >= page_size - last % page_size ? 1 : 0;
  return last / page_size + carry + 1;
}

std::uint64_t translation_entries(const buffer& memory, std::uint64_t iova,
                                  std::uint64_t page_cap) {
  if (!memory) {
    return 0;
  }
  // Pages of unknown neighbourhood need no list: they are alike, so one extent known no further
  // than the page size gives the same answer as each page on its own.
  const std::uint64_t known = memory.segments() == 1
                                  ? std::max(memory.alignment(), memory.page_size())
                                  : memory.page_size();
  const extent whole{.residue = 0, .length = memory.size(), .known_alignment = known};
  const std::uint64_t page = best_page_size({&whole, 1}, iova, page_cap);
  if (page == 0) {
    throw error{EINVAL, reason::invalid_argument,
                "count translation entries at iova " + std::to_string(iova),
                "page cap " + std::to_string(page_cap) +
                    "; iova and memory must agree in the bits below 4096"};
  }
  return entries_for(iova, memory.size(), page);
}

}  // namespace memopt
