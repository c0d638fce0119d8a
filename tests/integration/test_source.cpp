// SPDX-License-Identifier: MIT
// Every scheme as this kernel gives it, with its traits checked against the kernel's own account.

#include <algorithm>
#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memopt/memopt.hpp>

#include "detail/smaps.hpp"
#include "rdma_fixture.hpp"

using namespace memopt;
using namespace memopt::literals;
using memopt::detail::mappings_of;
using memopt::test::fill_pattern;
using memopt::test::free_huge_pages;
using memopt::test::require_memory;

namespace {

bool all_zero(const buffer& memory) {
  return std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t free_bytes(scheme which) {
  std::uint64_t free = 0;
  for (const region_info& region : query_module().regions) {
    free += region.scheme == which ? region.free : 0;
  }
  return free;
}

}  // namespace

TEST_CASE("every scheme gives zeroed memory that can be written to", "[source][kernel]") {
  const scheme which = GENERATE(scheme::plain, scheme::thp, scheme::hugetlb_2m, scheme::hugetlb_1g,
                                scheme::cma, scheme::contig);
  INFO("scheme " << to_string(which));
  require_memory(which, 4_MiB);
  // Twice, so that the second gets what the first has written to.
  for (unsigned round = 0; round < 2; ++round) {
    const buffer memory = source{which}.allocate(4_MiB);
    CHECK(memory.scheme() == which);
    CHECK(memory.size() == 4_MiB);
    CHECK(memory.node() == 0);
    CHECK(memory.pinnable() == (which != scheme::cma));
    CHECK(all_zero(memory));
    fill_pattern(memory.bytes(), round + 1);
  }
}

TEST_CASE("huge pages are the kernel's word, not a hope", "[source][kernel]") {
  SECTION("transparent") {
    require_memory(scheme::thp, 8_MiB);
    const buffer memory = source{scheme::thp}.allocate(8_MiB);
    std::size_t huge = 0;
    for (const auto& mapping : mappings_of(memory.data(), memory.mapped_size())) {
      huge += mapping.anonymous_huge;
    }
    CHECK(huge >= 8_MiB);
    CHECK(memory.page_size() == 2_MiB);
  }
  SECTION("of the pool, 2 MiB") {
    require_memory(scheme::hugetlb_2m, 8_MiB);
    const std::size_t before = free_huge_pages("2048kB");
    const buffer memory = source{scheme::hugetlb_2m}.allocate(8_MiB);
    CHECK(free_huge_pages("2048kB") == before - 4);
    CHECK(mappings_of(memory.data(), 1).at(0).kernel_page_size == 2_MiB);
    CHECK(memory.page_count() == 4);
  }
  SECTION("of the pool, 1 GiB") {
    require_memory(scheme::hugetlb_1g, 1_MiB);
    const std::size_t before = free_huge_pages("1048576kB");
    const buffer memory = source{scheme::hugetlb_1g}.allocate(1_MiB);
    CHECK(free_huge_pages("1048576kB") == before - 1);
    CHECK(memory.mapped_size() == 1_GiB);
    CHECK(memory.page_size() == 1_GiB);
    CHECK(memory.alignment() == 1_GiB);
  }
  SECTION("none, for plain") {
    const buffer memory = source{scheme::plain}.allocate(8_MiB);
    for (const auto& mapping : mappings_of(memory.data(), memory.mapped_size())) {
      CHECK(mapping.anonymous_huge == 0);
      CHECK(mapping.kernel_page_size == 4_KiB);
    }
  }
}

TEST_CASE("a pool of huge pages that is too small is a refusal, not a SIGBUS", "[source][kernel]") {
  require_memory(scheme::hugetlb_2m, 2_MiB);
  const std::size_t available = free_huge_pages("2048kB");
  const auto refused = source{scheme::hugetlb_2m}.try_allocate((available + 1) * 2_MiB);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() == reason::hugetlb_pool);
  CHECK(free_huge_pages("2048kB") == available);
}

TEST_CASE("the module's memory is contiguous and comes back", "[source][kernel]") {
  const scheme which = GENERATE(scheme::cma, scheme::contig);
  INFO("scheme " << to_string(which));
  require_memory(which, 64_MiB);
  const std::uint64_t before = free_bytes(which);
  {
    const buffer memory = source{which}.allocate(64_MiB);
    CHECK(memory.segments() == 1);
    CHECK(memory.alignment() >= 2_MiB);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 2_MiB == 0);
    CHECK(free_bytes(which) == before - 64_MiB);
    const auto mappings = mappings_of(memory.data(), memory.mapped_size());
    REQUIRE(mappings.size() == 1);
    CHECK(mappings[0].has_flag("pf") == (which == scheme::cma));
    fill_pattern(memory.bytes(), 7);
  }
  // Freed memory is zeroed in the background before it counts as free again.
  const buffer again = source{which}.allocate(64_MiB);
  CHECK(all_zero(again));
}

TEST_CASE("more than a region has is refused with what it has", "[source][kernel]") {
  const scheme which = GENERATE(scheme::cma, scheme::contig);
  require_memory(which, 1_MiB);
  const auto refused = source{which}.try_allocate(64_GiB);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() == reason::region_full);
  CHECK(std::string{refused.error().what()}.find("bytes free") != std::string::npos);
}

TEST_CASE("a list falls back to what there is", "[source][kernel]") {
  require_memory(scheme::contig, 1_MiB);
  const buffer memory = source{scheme::contig, scheme::thp, scheme::plain}.allocate(1_GiB);
  CHECK(memory.scheme() != scheme::contig);
  REQUIRE_FALSE(memory.refusals().empty());
  CHECK(memory.refusals()[0].scheme == scheme::contig);
  CHECK(memory.refusals()[0].reason == reason::region_full);
}
