// SPDX-License-Identifier: MIT
// A pool on a real device: keys that work, no registration on the way.

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memopt/memopt.hpp>

#include "detail/loopback_qp.hpp"
#include "rdma_fixture.hpp"

using namespace memopt;
using namespace memopt::literals;
using memopt::detail::loopback_qp;
using memopt::detail::loopback_request;
using memopt::test::fill_pattern;
using memopt::test::open_device;
using memopt::test::require_memory;

namespace {

constexpr memopt::access all_rights =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

std::span<std::byte> bytes_of(const block& b) {
  return {static_cast<std::byte*>(b.address), b.length};
}

}  // namespace

TEST_CASE("blocks carry keys with which bytes move", "[pool][rdma]") {
  const device dev = open_device();
  const scheme which = GENERATE(scheme::plain, scheme::thp, scheme::hugetlb_2m);
  INFO("scheme " << to_string(which));
  // A slab for each of the three size classes below.
  require_memory(which, 6_MiB);
  pool blocks{dev, {.hot = source{which}, .bytes = 6_MiB, .slab = 2_MiB, .rights = all_rights}};
  loopback_qp qp{dev};
  for (const std::size_t length : {64U, 4096U, 100000U}) {
    const block from = blocks.get(length);
    const block to = blocks.get(length);
    fill_pattern(bytes_of(from), static_cast<unsigned>(length));
    std::ranges::fill(bytes_of(to), std::byte{0});
    qp.execute({loopback_request::kind::write, reinterpret_cast<std::uintptr_t>(from.address),
                from.lkey, reinterpret_cast<std::uintptr_t>(to.address), to.rkey,
                static_cast<std::uint32_t>(length)});
    CHECK(std::memcmp(from.address, to.address, length) == 0);
    // Lengths that are no size class leave the rest of the block alone.
    CHECK(std::ranges::all_of(bytes_of(to).subspan(length),
                              [](std::byte x) { return x == std::byte{0}; }));
    blocks.put(from);
    blocks.put(to);
  }
  const auto seen = blocks.statistics();
  CHECK(seen.registered == 6_MiB);
  CHECK(seen.registrations == 3);
  CHECK(seen.in_use == 0);
}

TEST_CASE("a pool registers when it grows and at no other time", "[pool][rdma]") {
  const device dev = open_device();
  pool blocks{dev, {.bytes = 128_KiB, .limit = 256_KiB, .slab = 64_KiB}};
  std::vector<block> held;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 32; ++i) {
      held.push_back(blocks.get(4_KiB));
    }
    CHECK(blocks.statistics().registrations == 2);
    while (!held.empty()) {
      blocks.put(held.back());
      held.pop_back();
    }
  }
  for (int i = 0; i < 64; ++i) {
    held.push_back(blocks.get(4_KiB));
  }
  CHECK(blocks.statistics().registrations == 4);
  const auto refused = blocks.try_get(4_KiB);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() == reason::pool_exhausted);
}

TEST_CASE("threads share a pool on a device", "[pool][rdma]") {
  const device dev = open_device();
  pool blocks{dev, {.bytes = 1_MiB, .limit = 4_MiB, .slab = 256_KiB}};
  std::vector<std::thread> threads;
  std::atomic<unsigned> clashes{0};
  for (unsigned id = 1; id <= 4; ++id) {
    threads.emplace_back([&blocks, &clashes, id] {
      for (unsigned i = 0; i < 500; ++i) {
        const block b = blocks.get(256U << (i % 6));
        auto* words = static_cast<std::atomic_ref<unsigned>::value_type*>(b.address);
        std::atomic_ref<unsigned> owner{*words};
        owner.store(id);
        std::this_thread::yield();
        clashes += owner.load() != id ? 1 : 0;
        blocks.put(b);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(clashes == 0);
  const auto seen = blocks.statistics();
  CHECK(seen.gets == 2000);
  CHECK(seen.puts == 2000);
  CHECK(seen.in_use == 0);
}
