// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <memopt/device.hpp>
#include <memopt/source.hpp>

namespace memopt::test {

/// The device of the tests, MEMOPT_TEST_DEVICE or rxe0. Skips the test where there is none.
inline device open_device() {
  const char* wanted = std::getenv("MEMOPT_TEST_DEVICE");
  auto dev = device::try_open(wanted != nullptr ? wanted : "rxe0");
  if (!dev) {
    if (dev.error().reason() == reason::no_device) {
      SKIP(dev.error().what());
    }
    throw error{dev.error()};
  }
  return std::move(*dev);
}

/// Skips the test where so much memory of the scheme can not be had for want of set-up.
inline void require_memory(scheme which, std::size_t length) {
  const auto memory = source{which}.try_allocate(length);
  if (memory) {
    return;
  }
  switch (memory.error().reason()) {
    case reason::hugetlb_pool:
    case reason::thp_unavailable:
    case reason::no_module:
    case reason::no_region:
      SKIP(memory.error().what());
    default:
      throw error{memory.error()};
  }
}

/// Free pages of the kernel's pool of that size, "2048kB" or "1048576kB".
inline std::size_t free_huge_pages(const char* size) {
  std::ifstream file{std::string{"/sys/kernel/mm/hugepages/hugepages-"} + size + "/free_hugepages"};
  std::size_t pages = 0;
  file >> pages;
  return pages;
}

/// Bytes that differ by place and seed.
inline void fill_pattern(std::span<std::byte> area, unsigned seed) {
  unsigned state = seed * 2654435761U + 1;
  for (std::byte& byte : area) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
}

}  // namespace memopt::test
