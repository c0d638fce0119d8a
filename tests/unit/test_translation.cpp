// SPDX-License-Identifier: MIT
// Page sizes and entries against a reference that looks at every 512 bytes of a range.

#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <memopt/translation.hpp>
#include <memopt/units.hpp>

using namespace memopt;
using namespace memopt::literals;

namespace {

constexpr std::uint64_t granule = 512;

std::uint64_t total_length(const std::vector<extent>& extents) {
  std::uint64_t total = 0;
  for (const auto& e : extents) {
    total += e.length;
  }
  return total;
}

/// Pages touched, found by walking.
std::uint64_t count_pages(std::uint64_t iova, std::uint64_t length, std::uint64_t page) {
  std::set<std::uint64_t> pages;
  for (std::uint64_t done = 0; done < length; done += granule) {
    pages.insert((iova + done) / page);
  }
  return pages.size();
}

/// Does one translation entry per page of this size describe the range? Each device page must
/// lie in one extent, and each granule must sit at the same place in its device page and in
/// its physical page.
bool fits(const std::vector<extent>& extents, std::uint64_t iova, std::uint64_t page) {
  std::set<std::uint64_t> pages_of_earlier_extents;
  std::uint64_t va = iova;
  for (const auto& e : extents) {
    if (page > e.known_alignment) {
      return false;
    }
    std::set<std::uint64_t> own;
    for (std::uint64_t done = 0; done < e.length; done += granule, va += granule) {
      if (pages_of_earlier_extents.contains(va / page) || (e.residue + done) % page != va % page) {
        return false;
      }
      own.insert(va / page);
    }
    pages_of_earlier_extents.merge(own);
  }
  return true;
}

std::uint64_t reference(const std::vector<extent>& extents, std::uint64_t iova, std::uint64_t cap) {
  std::uint64_t page = cap;
  while (page >= 4096 && !fits(extents, iova, page)) {
    page /= 2;
  }
  if (page < 4096) {
    return 0;
  }
  while (page > 4096 && count_pages(iova, total_length(extents), page / 2) == 1) {
    page /= 2;
  }
  return page;
}

std::uint64_t entries(const std::vector<extent>& extents, std::uint64_t iova, std::uint64_t cap) {
  return entries_for(iova, total_length(extents), best_page_size(extents, iova, cap));
}

}  // namespace

TEST_CASE("best page size agrees with the reference on random ranges", "[translation]") {
  std::mt19937_64 random{20240607};
  const auto pick = [&random](std::uint64_t below) { return random() % below; };
  unsigned large = 0;
  unsigned none = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::uint64_t known = 4096ULL << pick(5);
    // Mostly congruent, on a border of some size; now and then off by half a page or less.
    const std::uint64_t step = 4096ULL << pick(5);
    std::uint64_t iova = 0x7f0000000000 + step * pick(16);
    if (pick(4) == 0) {
      iova += granule * pick(8);
    }
    std::vector<extent> extents;
    std::uint64_t va = iova;
    for (std::uint64_t i = 0, n = 1 + pick(4); i < n; ++i) {
      const std::uint64_t skew = pick(6) == 0 ? granule << pick(8) : 0;
      std::uint64_t length = step * (1 + pick(6));
      if (pick(6) == 0) {
        length += granule * pick(8);
      }
      extents.push_back({(va + skew) % known, length, known});
      va += length;
    }
    const std::uint64_t cap = 4096ULL << pick(7);
    const std::uint64_t expected = reference(extents, iova, cap);
    large += expected > 4096 ? 1 : 0;
    none += expected == 0 ? 1 : 0;
    INFO("round " << round << ", iova " << iova << ", cap " << cap << ", extents "
                  << extents.size());
    REQUIRE(best_page_size(extents, iova, cap) == expected);
    if (expected != 0) {
      const std::uint64_t length = total_length(extents);
      REQUIRE(entries_for(iova, length, expected) == count_pages(iova, length, expected));
    }
  }
  // The generator must reach both kinds, else the comparison proves little.
  CHECK(large > 400);
  CHECK(none > 400);
}

TEST_CASE("an aligned contiguous 64 MiB needs as few entries as the device allows",
          "[translation]") {
  const std::vector<extent> contiguous{{0, 64_MiB, 64_MiB}};
  const std::uint64_t iova = 0x7f0000000000;
  CHECK(entries(contiguous, iova, 1_GiB) == 1);
  CHECK(entries(contiguous, iova, 64_MiB) == 1);
  CHECK(entries(contiguous, iova, 32_MiB) == 2);
  CHECK(entries(contiguous, iova, 2_MiB) == 32);
  CHECK(entries(contiguous, iova, 4_KiB) == 16384);
}

TEST_CASE("knowledge of the physical address bounds the page size", "[translation]") {
  const std::vector<extent> half_known{{0, 64_MiB, 2_MiB}};
  CHECK(best_page_size(half_known, 0x7f0000000000, 1_GiB) == 2_MiB);
  CHECK(entries(half_known, 0x7f0000000000, 1_GiB) == 32);
}

TEST_CASE("scattered base pages take one entry each whatever the device can", "[translation]") {
  std::vector<extent> scattered(16384, extent{0, 4_KiB, 4_KiB});
  for (const std::uint64_t cap : {4_KiB, 2_MiB, 64_MiB, 1_GiB}) {
    CHECK(entries(scattered, 0x7f0000000000, cap) == 16384);
    // The heap gives addresses a little behind a border: the last page is one more.
    scattered.front() = {16, 4_KiB - 16, 4_KiB};
    scattered.push_back({0, 16, 4_KiB});
    CHECK(entries(scattered, 0x7f0000000010, cap) == 16385);
    scattered.pop_back();
    scattered.front() = {0, 4_KiB, 4_KiB};
  }
}

TEST_CASE("an iova that is not congruent costs page size", "[translation]") {
  const std::vector<extent> contiguous{{0, 64_MiB, 64_MiB}};
  CHECK(best_page_size(contiguous, 0x7f0000000000 + 2_MiB, 1_GiB) == 2_MiB);
  CHECK(best_page_size(contiguous, 0x7f0000000000 + 64_KiB, 1_GiB) == 64_KiB);
  CHECK(best_page_size(contiguous, 0x7f0000000000 + 100, 1_GiB) == 0);
}

TEST_CASE("a range that starts inside a page takes one entry more", "[translation]") {
  const std::uint64_t iova = 0x7f0000000000 + 1_MiB;
  const std::vector<extent> inside{{1_MiB, 64_MiB, 64_MiB}};
  CHECK(entries(inside, iova, 2_MiB) == 33);
  CHECK(entries(inside, iova, 64_MiB) == 2);
  CHECK(entries(inside, iova, 4_KiB) == 16384);
  const std::vector<extent> odd{{1_MiB + 100, 64_MiB, 64_MiB}};
  CHECK(entries(odd, iova + 100, 4_KiB) == 16385);
}

TEST_CASE("extents that are empty do not make borders", "[translation]") {
  const std::vector<extent> with{{0, 3_MiB, 4_MiB}, {17, 0, 4_KiB}, {3_MiB, 1_MiB, 4_MiB}};
  const std::vector<extent> without{{0, 3_MiB, 4_MiB}, {3_MiB, 1_MiB, 4_MiB}};
  CHECK(best_page_size(with, 0x40000000, 4_MiB) == best_page_size(without, 0x40000000, 4_MiB));
  CHECK(best_page_size(without, 0x40000000, 4_MiB) == 1_MiB);
}

TEST_CASE("nothing to translate and impossible caps give no page size", "[translation]") {
  const std::vector<extent> empty{{0, 0, 4_KiB}};
  const std::vector<extent> some{{0, 8_KiB, 4_KiB}};
  CHECK(best_page_size({}, 0, 4_KiB) == 0);
  CHECK(best_page_size(empty, 0, 4_KiB) == 0);
  CHECK(best_page_size(some, 0, 2_KiB) == 0);
  CHECK(entries_for(0, 0, 4_KiB) == 0);
  CHECK(entries_for(0, 4_KiB, 0) == 0);
}

TEST_CASE("counting does not wrap at the ends of the address space", "[translation]") {
  constexpr std::uint64_t all = ~std::uint64_t{0};
  CHECK(entries_for(all - 4095, 4096, 4096) == 1);
  CHECK(entries_for(4095, 2, 4096) == 2);
  CHECK(entries_for(0, all, 4096) == std::uint64_t{1} << 52);
  CHECK(entries_for(4095, all, 4096) == (std::uint64_t{1} << 52) + 1);
  const std::vector<extent> high{{0, 2_MiB, 1_GiB}};
  CHECK(best_page_size(high, all - 2_MiB + 1, 1_GiB) == 2_MiB);
  CHECK(best_page_size(high, all - 1_MiB + 1, 1_GiB) == 0);
  const std::vector<extent> too_long{{0, all, 4_KiB}, {4095, 2, 4_KiB}};
  CHECK(best_page_size(too_long, 0, 4_KiB) == 0);
}
