// SPDX-License-Identifier: MIT
// Contiguous memory of the kernel module.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "detail/allocate.hpp"
#include "detail/system_calls.hpp"

namespace memopt::detail {
namespace {

constexpr std::size_t base_page = 4096;

std::string node_text(int node) {
  return node == any_node ? std::string{} : " on node " + std::to_string(node);
}

// What the regions of the kind have, for a person to read.
std::string describe_regions(int fd, std::uint32_t kind) {
  std::string text;
  try {
    const memopt_query all = query(fd);
    for (std::uint32_t index = 0; index < all.out_region_count; ++index) {
      const memopt_region_info found = region(fd, index);
      if (found.out_kind == kind) {
        text += text.empty() ? "" : "; ";
        text += "node " + std::to_string(found.out_node) + " has " +
                std::to_string(found.out_free) + " of " + std::to_string(found.out_total) +
                " bytes free, the longest run " + std::to_string(found.out_largest_free);
      }
    }
  } catch (const error&) {
    return text;  // the failure to explain matters more than this one
  }
  return text;
}

reason reason_without_region(int fd, scheme which) {
  if (which != scheme::cma) {
    return reason::no_region;
  }
  try {
    return (query(fd).out_features & MEMOPT_FEATURE_KERNEL_CMA) != 0 ? reason::no_region
                                                                     : reason::no_cma;
  } catch (const error&) {
    return reason::no_region;
  }
}

[[noreturn]] void fail_allocation(int failure, int fd, scheme which, int node,
                                  const std::string& operation) {
  const std::uint32_t kind = which == scheme::cma ? MEMOPT_KIND_CMA : MEMOPT_KIND_CONTIG;
  switch (failure) {
    case ENODEV:
      throw error{failure, reason_without_region(fd, which), operation + node_text(node)};
    case ENOMEM:
      throw error{failure, reason::region_full, operation, describe_regions(fd, kind)};
    case ENOSPC:
      throw error{failure, reason::object_limit, operation};
    case EINVAL:
      throw error{failure, reason::invalid_argument, operation,
                  "the module refuses length, alignment or node"};
    default:
      throw error{failure, is_mismatch(failure) ? reason::module_mismatch : reason::unknown,
                  operation};
  }
}

// Page tables are filled on first use; later a lack of memory for them would be a SIGBUS.
void touch_pages(const void* address, std::size_t length) {
  const auto* bytes = static_cast<const volatile std::byte*>(address);
  for (std::size_t offset = 0; offset < length; offset += base_page) {
    (void)bytes[offset];
  }
}

std::size_t largest_power_in(std::uintptr_t value) { return value & (~value + 1); }

}  // namespace

std::unique_ptr<buffer_state> allocate_from_module(scheme which, std::size_t length,
                                                   const allocation_options& options) {
  const std::string operation = allocation_name(which, length);
  auto state = std::make_unique<buffer_state>();
  state->file = module_file::open();

  memopt_buf_alloc wanted{};
  wanted.kind = which == scheme::cma ? MEMOPT_KIND_CMA : MEMOPT_KIND_CONTIG;
  wanted.node = options.node;
  wanted.length = length;
  wanted.alignment = options.alignment == 0 ? 0 : std::max(options.alignment, base_page);
  if (const int failure = call_module(state->file.fd(), MEMOPT_BUF_ALLOC, wanted); failure != 0) {
    fail_allocation(failure, state->file.fd(), which, options.node, operation);
  }
  state->buffer_id = wanted.out_buf_id;
  if (wanted.out_buf_id == 0 || wanted.out_kind != wanted.kind || wanted.out_length < length ||
      wanted.out_length % base_page != 0 || wanted.out_segments == 0 ||
      wanted.out_alignment < base_page) {
    throw error{EPROTO, reason::module_mismatch, operation, "the module's answer makes no sense"};
  }

  void* at = sys().mmap(nullptr, wanted.out_length, PROT_READ | PROT_WRITE, MAP_SHARED,
                        state->file.fd(), static_cast<off_t>(wanted.out_mmap_offset));
  if (at == MAP_FAILED) {
    throw error{errno, errno == ENOMEM ? reason::max_map_count : reason::unknown, operation,
                "mapping it"};
  }
  state->address = at;
  state->mapped_size = wanted.out_length;
  touch_pages(at, wanted.out_length);

  memopt_buf_info info{};
  info.buf_id = wanted.out_buf_id;
  if (const int failure = call_module(state->file.fd(), MEMOPT_BUF_INFO, info); failure != 0) {
    throw error{failure, reason::module_mismatch, operation, "asking about the buffer"};
  }
  state->size = length;
  state->scheme = which;
  state->page_size = base_page;
  state->mapping_size = std::max<std::size_t>(info.out_mapping_size, base_page);
  state->segments = wanted.out_segments;
  // The physical address is a multiple of out_alignment; the two are congruent as far as the
  // user address is one too.
  state->alignment = std::min<std::size_t>(wanted.out_alignment,
                                           largest_power_in(reinterpret_cast<std::uintptr_t>(at)));
  state->node = wanted.out_node;
  state->pinnable = (info.out_state & MEMOPT_BUF_STATE_PINNABLE) != 0;
  return state;
}

}  // namespace memopt::detail
