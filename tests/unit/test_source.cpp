// SPDX-License-Identifier: MIT
// Sources and the buffers they give, on memory of this process and on a module made up.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/source.hpp>
#include <memopt/units.hpp>

#include "expect.hpp"
#include "fake_module.hpp"

using namespace memopt;
using namespace memopt::literals;
using Catch::Matchers::ContainsSubstring;
using memopt::test::error_of;
using memopt::test::fake_module;
using memopt::test::reason_of;

namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

reason refused(const source& from, std::size_t length, const allocation_options& options = {}) {
  return reason_of([&] { (void)from.allocate(length, options); });
}

std::size_t pages_mapped() {
  std::ifstream file{"/proc/self/statm"};
  std::size_t pages = 0;
  file >> pages;
  return pages;
}

}  // namespace

TEST_CASE("scheme names go both ways", "[source]") {
  for (const scheme which : {scheme::plain, scheme::thp, scheme::hugetlb_2m, scheme::hugetlb_1g,
                             scheme::cma, scheme::contig}) {
    CHECK(scheme_from_string(to_string(which)) == which);
  }
  CHECK(to_string(static_cast<scheme>(99)) == "unknown");
  const error failure = error_of([] { (void)scheme_from_string("huge"); });
  CHECK(failure.reason() == reason::invalid_argument);
  CHECK_THAT(failure.what(), ContainsSubstring("hugetlb_2m") && ContainsSubstring("contig"));
}

TEST_CASE("arguments that can not be are refused", "[source]") {
  const fake_module module;
  const std::vector<scheme> none;
  CHECK(reason_of([&] { const source empty{none}; }) == reason::invalid_argument);
  const source plain{scheme::plain};
  CHECK(refused(plain, 0) == reason::invalid_argument);
  CHECK(refused(plain, 4_KiB, {.alignment = 3}) == reason::invalid_argument);
  CHECK(refused(plain, 4_KiB, {.alignment = 6_KiB}) == reason::invalid_argument);
  CHECK(refused(plain, 4_KiB, {.alignment = 2_GiB}) == reason::invalid_argument);
  CHECK(refused(plain, 4_KiB, {.node = -2}) == reason::invalid_argument);
  CHECK(refused(plain, 4_KiB, {.node = 100000}) == reason::invalid_argument);
  CHECK(refused(source{static_cast<scheme>(99)}, 4_KiB) == reason::invalid_argument);
  const auto most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t length : {most, most / 2, most / 4, most - 4094}) {
    for (const scheme which : {scheme::plain, scheme::thp, scheme::hugetlb_2m, scheme::cma}) {
      INFO(to_string(which) << ' ' << length);
      CHECK_FALSE(source{which}.try_allocate(length));
    }
  }
  CHECK(module.clean());
}

TEST_CASE("plain memory is zeroed, whole pages, and goes when its buffer goes", "[source]") {
  const source plain{scheme::plain};
  const std::size_t before = pages_mapped();
  {
    const buffer memory = plain.allocate(8_MiB + 1);
    CHECK(memory.scheme() == scheme::plain);
    CHECK(memory.size() == 8_MiB + 1);
    CHECK(memory.mapped_size() == 8_MiB + 4_KiB);
    CHECK(memory.page_size() == 4_KiB);
    CHECK(memory.page_count() == 2049);
    CHECK(memory.segments() == 2049);
    CHECK(memory.pinnable());
    CHECK(memory.refusals().empty());
    CHECK(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
    CHECK(pages_mapped() >= before + 2049);
  }
  CHECK(pages_mapped() < before + 1024);
}

TEST_CASE("an address is aligned as asked for", "[source]") {
  for (const std::size_t alignment : {std::size_t{1}, 4_KiB, 64_KiB, 2_MiB, 1_GiB}) {
    const buffer memory = source{scheme::plain}.allocate(12_KiB, {.alignment = alignment});
    CHECK(number(memory.data()) % alignment == 0);
    CHECK(number(memory.data()) % 4_KiB == 0);
    memory.bytes().front() = std::byte{1};
    memory.bytes().back() = std::byte{1};
  }
}

TEST_CASE("memory of node 0 is on node 0", "[source]") {
  const buffer memory = source{scheme::plain}.allocate(64_KiB, {.node = 0});
  CHECK(memory.node() == 0);
}

TEST_CASE("an empty buffer is empty in every way", "[source]") {
  buffer first = source{scheme::plain}.allocate(4_KiB);
  const void* address = first.data();
  const buffer second{std::move(first)};
  CHECK(second.data() == address);
  const buffer& moved_from = first;
  CHECK_FALSE(moved_from);
  CHECK(moved_from.data() == nullptr);
  CHECK(moved_from.size() == 0);
  CHECK(moved_from.mapped_size() == 0);
  CHECK(moved_from.page_count() == 0);
  CHECK(moved_from.bytes().empty());
  CHECK(moved_from.node() == any_node);
  CHECK_FALSE(moved_from.pinnable());
}

TEST_CASE("the module's memory has the traits the module reports", "[source]") {
  fake_module module;
  {
    const buffer cma = source{scheme::cma}.allocate(5000);
    CHECK(cma.scheme() == scheme::cma);
    CHECK(cma.size() == 5000);
    CHECK(cma.mapped_size() == 8192);
    CHECK(cma.segments() == 1);
    CHECK(cma.page_size() == 4_KiB);
    CHECK(cma.node() == 0);
    CHECK_FALSE(cma.pinnable());
    const buffer contig = source{scheme::contig}.allocate(4_MiB);
    CHECK(contig.pinnable());
    CHECK(module.buffers() == 2);
    CHECK(module.mappings() == 2);
  }
  CHECK(module.clean());
}

TEST_CASE("known alignment is never more than the user address has", "[source]") {
  fake_module module;
  module.twist = [](unsigned command, void* argument) {
    if (command == MEMOPT_CMD_BUF_ALLOC) {
      static_cast<memopt_buf_alloc*>(argument)->out_alignment = std::uint64_t{1} << 40;
    }
  };
  const buffer memory = source{scheme::cma}.allocate(4_MiB);
  CHECK(memory.alignment() <= (number(memory.data()) & (~number(memory.data()) + 1)));
  CHECK(memory.alignment() >= 2_MiB);
}

TEST_CASE("schemes are tried in order and the refused ones remembered", "[source]") {
  fake_module module;
  module.regions = {{MEMOPT_KIND_CMA, 0, 1_MiB, 1_MiB}};
  const source any{scheme::contig, scheme::cma, scheme::plain};
  const buffer small = any.allocate(64_KiB);
  CHECK(small.scheme() == scheme::cma);
  REQUIRE(small.refusals().size() == 1);
  CHECK(small.refusals()[0].scheme == scheme::contig);
  CHECK(small.refusals()[0].reason == reason::no_region);
  const buffer large = any.allocate(2_MiB);
  CHECK(large.scheme() == scheme::plain);
  CHECK(to_string(large.refusals()) == "contig: no_region, cma: region_full");
}

TEST_CASE("a strict source fails with the first reason and tells them all", "[source]") {
  fake_module module;
  module.regions = {{MEMOPT_KIND_CMA, 0, 1_MiB, 512_KiB}};
  const error failure = error_of([] { (void)source{scheme::contig, scheme::cma}.allocate(2_MiB); });
  CHECK(failure.reason() == reason::no_region);
  CHECK_THAT(failure.what(),
             ContainsSubstring("contig: no_region") && ContainsSubstring("cma: region_full"));
  CHECK(module.clean());
}

TEST_CASE("a permissive source ends with plain memory and says so", "[source]") {
  fake_module module;
  module.open_errno = ENOENT;
  const source permissive{{scheme::cma}, policy::permissive};
  const buffer memory = permissive.allocate(64_KiB);
  CHECK(memory.scheme() == scheme::plain);
  CHECK(to_string(memory.refusals()) == "cma: no_module");
  // Wrong arguments are not a matter of scheme.
  CHECK(refused(permissive, 0) == reason::invalid_argument);
}

TEST_CASE("a kernel without CMA is told from a module without a region", "[source]") {
  fake_module module;
  module.regions.clear();
  CHECK(refused(source{scheme::cma}, 4_KiB) == reason::no_region);
  module.features &= ~std::uint64_t{MEMOPT_FEATURE_KERNEL_CMA};
  CHECK(refused(source{scheme::cma}, 4_KiB) == reason::no_cma);
  CHECK(refused(source{scheme::contig}, 4_KiB) == reason::no_region);
}

TEST_CASE("a full region is described", "[source]") {
  fake_module module;
  module.regions = {{MEMOPT_KIND_CONTIG, 0, 8_MiB, 1_MiB}, {MEMOPT_KIND_CMA, 0, 9_MiB, 2_MiB}};
  const error failure = error_of([] { (void)source{scheme::contig}.allocate(2_MiB); });
  CHECK(failure.reason() == reason::region_full);
  CHECK_THAT(failure.what(), ContainsSubstring("1048576 of 8388608 bytes free"));
  CHECK_THAT(failure.what(), !ContainsSubstring("2097152 of"));
}

TEST_CASE("why the module refuses memory", "[source]") {
  fake_module module;
  const auto refused_with = [&](int errnum) {
    module.fail[MEMOPT_CMD_BUF_ALLOC] = errnum;
    return refused(source{scheme::cma}, 4_KiB);
  };
  CHECK(refused_with(ENODEV) == reason::no_region);
  CHECK(refused_with(ENOMEM) == reason::region_full);
  CHECK(refused_with(ENOSPC) == reason::object_limit);
  CHECK(refused_with(EINVAL) == reason::invalid_argument);
  CHECK(refused_with(ENOTTY) == reason::module_mismatch);
  CHECK(refused_with(EIO) == reason::unknown);
  module.open_errno = EACCES;
  CHECK(refused(source{scheme::cma}, 4_KiB) == reason::module_access);
  CHECK(module.clean());
}

TEST_CASE("whatever fails half-way leaves nothing behind", "[source]") {
  fake_module module;
  const auto leaves_nothing = [&] {
    return !source{scheme::cma}.try_allocate(64_KiB) && module.clean();
  };
  const auto leaves_nothing_with = [&](auto lie) {
    module.twist = [lie](unsigned command, void* argument) {
      if (command == MEMOPT_CMD_BUF_ALLOC) {
        lie(*static_cast<memopt_buf_alloc*>(argument));
      }
    };
    return leaves_nothing();
  };
  SECTION("mapping") {
    module.map_errno = ENOMEM;
    CHECK(leaves_nothing());
  }
  SECTION("asking about the buffer") {
    module.fail[MEMOPT_CMD_BUF_INFO] = EIO;
    CHECK(leaves_nothing());
  }
  SECTION("a buffer other than asked for") {
    CHECK(leaves_nothing_with([](auto& answer) { answer.out_length = 4096; }));
    CHECK(leaves_nothing_with([](auto& answer) { answer.out_kind = MEMOPT_KIND_CONTIG; }));
    CHECK(leaves_nothing_with([](auto& answer) { answer.out_segments = 0; }));
  }
}
