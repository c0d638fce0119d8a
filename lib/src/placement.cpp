// SPDX-License-Identifier: MIT
// Populating memory and putting it on a NUMA node.
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

#include "detail/allocate.hpp"
#include "detail/system_calls.hpp"

namespace memopt::detail {
namespace {

// Pages asked about in one call: bounds the vectors to some tens of kilobytes.
constexpr std::size_t batch = 2048;

}  // namespace

void bind_to_node(void* address, std::size_t length, int node, const std::string& operation) {
  if (node == any_node) {
    return;
  }
  if (numa_available() < 0) {
    if (node == 0) {
      return;  // a kernel without NUMA has the one node 0
    }
    throw error{EINVAL, reason::invalid_argument, operation,
                "node " + std::to_string(node) + " on a kernel without NUMA"};
  }
  if (node > numa_max_node()) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "there is no node " + std::to_string(node)};
  }
  bitmask* mask = numa_allocate_nodemask();
  if (mask == nullptr) {
    throw error{ENOMEM, reason::out_of_memory, operation};
  }
  numa_bitmask_setbit(mask, static_cast<unsigned>(node));
  const long failed = mbind(address, length, MPOL_BIND, mask->maskp, mask->size + 1, 0);
  const int failure = failed == 0 ? 0 : errno;
  numa_free_nodemask(mask);
  if (failure != 0) {
    throw error{failure, failure == EINVAL ? reason::invalid_argument : reason::unknown, operation,
                "binding to node " + std::to_string(node)};
  }
}

int verify_node(void* address, std::size_t length, std::size_t page_size, int wanted,
                const std::string& operation) {
  auto* const begin = static_cast<std::byte*>(address);
  int first = any_node;
  for (std::size_t offset = 0; offset < length;) {
    std::vector<void*> pages;
    for (; offset < length && pages.size() < batch; offset += page_size) {
      pages.push_back(begin + offset);
    }
    std::vector<int> nodes(pages.size(), -ENOENT);
    if (move_pages(0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) {
      return wanted;  // no NUMA in this kernel: bind_to_node() has judged the wish already
    }
    if (first == any_node && nodes.front() >= 0) {
      first = nodes.front();
    }
    if (wanted == any_node) {
      return first;
    }
    const auto elsewhere =
        std::ranges::find_if(nodes, [&](int node) { return node >= 0 && node != wanted; });
    if (elsewhere != nodes.end()) {
      throw error{ENOMEM, reason::out_of_memory, operation,
                  "a page came from node " + std::to_string(*elsewhere) + " instead of " +
                      std::to_string(wanted)};
    }
  }
  return first;
}

int populate(void* address, std::size_t length) noexcept {
#ifdef MADV_POPULATE_WRITE
  constexpr int advice = MADV_POPULATE_WRITE;
#else
  constexpr int advice = 23;  // since Linux 5.14; older C libraries have no name for it
#endif
  for (;;) {
    if (sys().madvise(address, length, advice) == 0) {
      return 0;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return errno;
    }
  }
}

}  // namespace memopt::detail
