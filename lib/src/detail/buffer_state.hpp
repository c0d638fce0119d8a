// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <memopt/buffer.hpp>

#include "module_file.hpp"

namespace memopt::detail {

/// What a buffer owns and knows. Whoever fills it in sets `address` and `mapped_size` as soon as
/// the mapping exists, so that a failure later on unmaps it.
struct buffer_state {
  buffer_state() = default;
  buffer_state(const buffer_state&) = delete;
  buffer_state& operator=(const buffer_state&) = delete;
  ~buffer_state();

  void* address = nullptr;
  std::size_t size = 0;         ///< bytes asked for
  std::size_t mapped_size = 0;  ///< bytes mapped
  memopt::scheme scheme{};
  std::size_t page_size = 0;
  std::size_t mapping_size = 0;
  std::size_t segments = 0;
  std::size_t alignment = 0;
  int node = any_node;
  bool pinnable = true;
  std::vector<refusal> refusals;
  module_file file;             ///< for the module's kinds
  std::uint32_t buffer_id = 0;  ///< valid in `file`
};

/// Move the mapping to `target`, which must be address space the caller has reserved for all of
/// it. Other traits stay, except that alignment is what the new address still allows.
/// @throws error; then the buffer is where it was
void relocate(buffer& memory, void* target);

/// The descriptor and id of a buffer of the module.
/// @throws error `invalid_argument` for any other buffer, naming `operation`
[[nodiscard]] const buffer_state& module_buffer(const buffer& memory, const std::string& operation);

}  // namespace memopt::detail
