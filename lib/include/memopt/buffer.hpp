// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <memopt/error.hpp>

namespace memopt {

/// "No demand" wherever a NUMA node is asked for.
inline constexpr int any_node = -1;

/// Kinds of memory a source can give.
enum class scheme : std::uint8_t {
  plain,       ///< anonymous memory on base pages (4 KiB on x86-64), huge pages excluded
  thp,         ///< anonymous memory on transparent 2 MiB pages
  hugetlb_2m,  ///< 2 MiB pages of the kernel's pool
  hugetlb_1g,  ///< 1 GiB pages of the kernel's pool
  cma,         ///< contiguous memory of the module, not pinnable: for shares and kernel MRs
  contig,      ///< contiguous memory of the module, pinnable: for any registration
};

/// Stable lower-case name ("hugetlb_2m").
[[nodiscard]] std::string_view to_string(scheme which) noexcept;

/// The scheme of that name. @throws error `invalid_argument` that lists the names.
[[nodiscard]] scheme scheme_from_string(std::string_view name);

/// One scheme of a fall-back list that could not be had, and why.
struct refusal {
  memopt::scheme scheme;
  memopt::reason reason;
  std::string detail;  ///< what was found on the spot, for a person to read
};

/// "thp: thp_unavailable, hugetlb_2m: hugetlb_pool"; empty for an empty list.
[[nodiscard]] std::string to_string(std::span<const refusal> refusals);

namespace detail {
struct buffer_state;
}

/// Zeroed memory with traits that were verified in the kernel, never assumed.
///
/// Owns the memory; the destructor unmaps it and, for the module's kinds, gives it back (the
/// module reuses it only when the last registration of it has gone). Move-only; a moved-from
/// buffer is empty: no memory, size 0, `false`. Const members may be called from several threads;
/// who writes to the memory itself is the caller's business.
class buffer {
 public:
  buffer() noexcept;
  explicit buffer(std::unique_ptr<detail::buffer_state> state) noexcept;
  buffer(buffer&&) noexcept;
  buffer& operator=(buffer&&) noexcept;
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer();

  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

  [[nodiscard]] void* data() const noexcept;
  /// Bytes asked for; all of them usable.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Bytes really mapped: size() rounded up to page_size().
  [[nodiscard]] std::size_t mapped_size() const noexcept;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept;

  [[nodiscard]] memopt::scheme scheme() const noexcept;
  /// Bytes of the smallest kernel page behind any part of the buffer, as the kernel reported it
  /// at allocation (smaps for anonymous and hugetlb memory, the module for its own).
  [[nodiscard]] std::size_t page_size() const noexcept;
  /// mapped_size() / page_size().
  [[nodiscard]] std::size_t page_count() const noexcept;
  /// Bytes of the largest CPU page the module's mapping uses; page_size() for other schemes.
  [[nodiscard]] std::size_t mapping_size() const noexcept;
  /// Physically contiguous pieces: exact for the module's kinds, else page_count() as upper bound.
  [[nodiscard]] std::size_t segments() const noexcept;
  /// Power of two to which the physical address of every segment is known to be aligned; data()
  /// is congruent to the physical address modulo this.
  [[nodiscard]] std::size_t alignment() const noexcept;
  /// NUMA node of the memory, `any_node` if unknown.
  [[nodiscard]] int node() const noexcept;
  /// False for `cma`: ibv_reg_mr, O_DIRECT and io_uring fail with EFAULT on it.
  [[nodiscard]] bool pinnable() const noexcept;
  /// Schemes tried before this one.
  [[nodiscard]] std::span<const refusal> refusals() const noexcept;

  /// For the library's own classes.
  [[nodiscard]] detail::buffer_state* state() const noexcept { return state_.get(); }

 private:
  std::unique_ptr<detail::buffer_state> state_;
};

}  // namespace memopt
