// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <memopt/access.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/source.hpp>

namespace memopt {

struct hybrid_options {
  /// Bodies, in order of preference; each must have pages of 2 MiB or be contiguous.
  source body{{scheme::hugetlb_2m, scheme::thp}};
  access rights = access::local_write;
};

/// One piece of a hybrid region with its own MR.
struct hybrid_piece {
  void* address;
  std::size_t length;     ///< bytes
  std::size_t page_size;  ///< bytes, verified
  std::uint32_t lkey;
  std::uint32_t rkey;
};

/// One virtually contiguous range whose inner, 2 MiB-aligned part is on huge pages and whose rest
/// is on base pages, so that a length of 2 MiB multiples plus a little costs no whole huge page
/// for the little. Every piece is an MR of its own; find() is the single lookup.
///
/// Owns the memory and the MRs. Move-only. Const members may be called from several threads.
class hybrid_region {
 public:
  /// @param length bytes, more than 0; below 2 MiB there is no body and that is fine
  /// @param offset bytes of the range before the first 2 MiB border, below 2 MiB: what the edge in
  ///        front holds; for data structures with a header in front of aligned data
  /// @throws error of allocation or registration. If no body source works, all is on base pages
  ///         and refusals() says why.
  hybrid_region(const device& dev, std::size_t length, std::size_t offset = 0,
                const hybrid_options& options = {});

  hybrid_region(hybrid_region&&) noexcept;
  hybrid_region& operator=(hybrid_region&&) noexcept;
  hybrid_region(const hybrid_region&) = delete;
  hybrid_region& operator=(const hybrid_region&) = delete;
  ~hybrid_region();

  [[nodiscard]] void* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::span<const hybrid_piece> pieces() const noexcept;
  [[nodiscard]] std::span<const refusal> refusals() const noexcept;

  /// The piece that holds all of [address, address + length), or nullptr if the range is outside
  /// or crosses pieces: a work request can not span MRs, so split it at the piece's end.
  [[nodiscard]] const hybrid_piece* find(const void* address, std::size_t length) const noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace memopt
