// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <memopt/buffer.hpp>

namespace memopt {

/// A physically contiguous piece of a range.
struct extent {
  /// Physical address modulo `known_alignment`, a number between 0 and known_alignment - 1.
  std::uint64_t residue;
  std::uint64_t length;  ///< bytes
  /// Power of two up to which the physical address is known. An entry can not be proven to be
  /// larger than this.
  std::uint64_t known_alignment;
};

/// Page size, in bytes, with which a device would translate the range, as the kernel computes it
/// (ib_umem_find_best_pgsz in drivers/infiniband/core/umem.c): the largest power of two up to
/// `page_cap` for which, in every extent, iova and physical address are congruent, and every
/// inner border between extents lies on a page border. A page larger than the smallest one that
/// holds the whole range is not taken, since it would save no entry.
///
/// @param iova address given to the device for the first byte: the user address unless another
///        was passed to ibv_reg_mr_iova
/// @param page_cap largest page the device takes, a power of two of 4096 at least
/// @return 0 if even 4096 does not fit
[[nodiscard]] std::uint64_t best_page_size(std::span<const extent> extents, std::uint64_t iova,
                                           std::uint64_t page_cap) noexcept;

/// Translation (MTT) entries the range needs with pages of `page_size` bytes: the pages from the
/// one that holds the first byte to the one that holds the last.
[[nodiscard]] std::uint64_t entries_for(std::uint64_t iova, std::uint64_t length,
                                        std::uint64_t page_size) noexcept;

/// Entries for registering a whole buffer at an iova (usually its address), from its verified
/// traits: segments, page size, alignment. A lower bound is never claimed: where contiguity is
/// not known, pages count one by one. 0 for an empty buffer.
/// @throws error `invalid_argument` if iova and memory differ in the bits below 4096.
[[nodiscard]] std::uint64_t translation_entries(const buffer& memory, std::uint64_t iova,
                                                std::uint64_t page_cap);

}  // namespace memopt
