// SPDX-License-Identifier: MIT
// What registrations by physical address cost in translation entries, as the module counted them
// and as the library computes them.

#include <cstdint>
#include <optional>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memopt/memopt.hpp>

#include "rdma_fixture.hpp"

using namespace memopt;
using namespace memopt::literals;
using memopt::test::open_device;
using memopt::test::require_memory;

namespace {

constexpr memopt::access all_rights =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

TEST_CASE("64 MiB of contiguous memory need no more than 32 entries", "[kernel_mr][rdma]") {
  const device dev = open_device();
  const scheme which = GENERATE(scheme::cma, scheme::contig);
  INFO("scheme " << to_string(which));
  require_memory(which, 64_MiB);
  const buffer memory = source{which}.allocate(64_MiB);
  const kernel_mr mr{memory, dev.name(), all_rights};
  const kernel_mr_info info = mr.info();
  CHECK(info.length == 64_MiB);
  CHECK(info.entries >= 1);
  CHECK(info.entries <= 32);
  CHECK(std::uint64_t{info.entries} * info.page_size >= info.length);
  CHECK_FALSE(info.device_gone);
  CHECK(mr.rkey() != 0);
}

TEST_CASE("64 MiB of aligned contiguous memory need 1, 32 or 16384 entries", "[kernel_mr][rdma]") {
  const scheme which = GENERATE(scheme::cma, scheme::contig);
  INFO("scheme " << to_string(which));
  require_memory(which, 64_MiB);
  const buffer memory = source{which}.allocate(64_MiB, {.alignment = 64_MiB});
  const std::uint64_t iova = number(memory.data());
  REQUIRE(memory.segments() == 1);
  CHECK(translation_entries(memory, iova, 1_GiB) == 1);
  CHECK(translation_entries(memory, iova, 64_MiB) == 1);
  CHECK(translation_entries(memory, iova, 2_MiB) == 32);
  CHECK(translation_entries(memory, iova, 4_KiB) == 16384);
  // An iova that leaves the physical address at 2 MiB, or at 4 KiB, takes the large pages away.
  CHECK(translation_entries(memory, iova + 2_MiB, 1_GiB) == 32);
  CHECK(translation_entries(memory, iova + 4_KiB, 1_GiB) == 16384);
}

TEST_CASE("memory of malloc needs an entry for every page at any cap", "[kernel_mr][rdma]") {
  const buffer plain = source{scheme::plain}.allocate(64_MiB);
  for (const std::size_t cap : {4_KiB, 2_MiB, 64_MiB, 1_GiB}) {
    CHECK(translation_entries(plain, number(plain.data()), cap) == 16384);
  }
}

TEST_CASE("an MR keeps its memory when the buffer goes first", "[kernel_mr][rdma]") {
  const device dev = open_device();
  require_memory(scheme::cma, 1_MiB);
  std::optional<buffer> memory{source{scheme::cma}.allocate(1_MiB)};
  const kernel_mr mr{*memory, dev.name(), all_rights};
  memory.reset();
  CHECK(mr.info().length == 1_MiB);
  CHECK_FALSE(mr.info().device_gone);
}

TEST_CASE("a device that is not there is named as such", "[kernel_mr][rdma]") {
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  const auto tried = kernel_mr::try_register(memory, "no_such_device", all_rights);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::no_device);
}
