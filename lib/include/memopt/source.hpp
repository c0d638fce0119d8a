// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include <memopt/buffer.hpp>
#include <memopt/error.hpp>

namespace memopt {

struct allocation_options {
  /// Of the address, and for the module's kinds of the physical address too: 0, or a power of two
  /// up to 1 GiB. 0 means the scheme's page size, and for the module's kinds the largest power of
  /// two not above the length, at most 2 MiB.
  std::size_t alignment = 0;
  /// A demand, not a hint: memory on another node is a refusal.
  int node = any_node;
};

/// What to do when every scheme of the list was refused.
enum class policy : std::uint8_t {
  strict,      ///< fail with the reason of the first refusal
  permissive,  ///< give plain memory; the buffer says so
};

/// Where buffers come from: schemes in order of preference.
///
/// A value; copy it freely. allocate() is const and may be called from several threads.
class source {
 public:
  /// @throws error `invalid_argument` for an empty list.
  source(std::initializer_list<scheme> preference, policy otherwise = policy::strict);
  explicit source(std::span<const scheme> preference, policy otherwise = policy::strict);
  explicit source(scheme only) : source{{only}} {}

  /// Zeroed, fully populated memory: a pointer handed out never raises SIGBUS for want of pages.
  /// @param length bytes, more than 0
  /// @throws error with the reason of the first scheme in the list; its text names all of them.
  [[nodiscard]] buffer allocate(std::size_t length, const allocation_options& options = {}) const;
  [[nodiscard]] result<buffer> try_allocate(std::size_t length,
                                            const allocation_options& options = {}) const noexcept;

  [[nodiscard]] std::span<const scheme> preference() const noexcept { return preference_; }

 private:
  std::vector<scheme> preference_;
  policy otherwise_;
};

}  // namespace memopt
