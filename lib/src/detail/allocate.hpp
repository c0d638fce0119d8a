// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <memopt/source.hpp>

#include "buffer_state.hpp"

namespace memopt::detail {

/// One scheme, all or nothing. Lengths and alignments have been checked.
/// @throws error
[[nodiscard]] std::unique_ptr<buffer_state> allocate_anonymous(scheme which, std::size_t length,
                                                               const allocation_options& options);
[[nodiscard]] std::unique_ptr<buffer_state> allocate_hugetlb(scheme which, std::size_t length,
                                                             const allocation_options& options);
[[nodiscard]] std::unique_ptr<buffer_state> allocate_from_module(scheme which, std::size_t length,
                                                                 const allocation_options& options);

/// "allocate 4096 bytes of thp memory"
[[nodiscard]] std::string allocation_name(scheme which, std::size_t length);

/// Round up to a power of two. @throws error `invalid_argument` if that does not fit
[[nodiscard]] std::size_t round_up(std::size_t length, std::size_t unit,
                                   const std::string& operation);

/// Bind a mapping that has no pages yet to a node; nothing for any_node.
/// @throws error `invalid_argument` for a node that does not exist
void bind_to_node(void* address, std::size_t length, int node, const std::string& operation);

/// Make sure that pages really are on the node that was asked for.
/// @return the node of the first page, `any_node` if the kernel does not say
/// @throws error if a page is elsewhere
[[nodiscard]] int verify_node(void* address, std::size_t length, std::size_t page_size, int wanted,
                              const std::string& operation);

/// Have every page now, as pages that come later come as SIGBUS when there are none.
/// @return 0 or a positive errno value
[[nodiscard]] int populate(void* address, std::size_t length) noexcept;

}  // namespace memopt::detail
