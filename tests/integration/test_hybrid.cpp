// SPDX-License-Identifier: MIT
// Hybrid regions on a real device: pages as promised, keys that work, nothing left behind.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
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
using memopt::test::free_huge_pages;
using memopt::test::open_device;
using memopt::test::require_memory;

namespace {

constexpr memopt::access all_rights =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Bytes of [begin, end) on huge pages of any kind, by the kernel's own account. Mappings are
/// taken whole: a piece that shares one with other memory is not expected here.
std::size_t huge_bytes(std::uintptr_t begin, std::uintptr_t end) {
  std::ifstream smaps{"/proc/self/smaps"};
  std::size_t huge = 0;
  std::size_t length = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream fields{line};
    std::string first;
    fields >> first;
    const auto dash = first.find('-');
    if (first.back() != ':' && dash != std::string::npos) {
      const std::uintptr_t from = std::stoull(first.substr(0, dash), nullptr, 16);
      const std::uintptr_t to = std::stoull(first.substr(dash + 1), nullptr, 16);
      inside = from >= begin && to <= end;
      length = to - from;
      continue;
    }
    std::size_t kib = 0;
    fields >> kib;
    if (inside && first == "AnonHugePages:") {
      huge += kib << 10;
    } else if (inside && first == "KernelPageSize:" && kib >= 2048) {
      huge += length;
    }
  }
  return huge;
}

std::size_t mapped_kib() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmSize:")) {
      return std::stoull(line.substr(7));
    }
  }
  return 0;
}

/// Pieces in order, without gap or overlap, over the whole range, each found by the lookup.
void check_pieces(const hybrid_region& region) {
  auto next = number(region.data());
  for (const hybrid_piece& piece : region.pieces()) {
    CHECK(number(piece.address) == next);
    CHECK(region.find(piece.address, piece.length) == &piece);
    CHECK(region.find(piece.address, piece.length + 1) == nullptr);
    auto* last = static_cast<std::byte*>(piece.address) + piece.length - 1;
    CHECK(region.find(last, 1) == &piece);
    CHECK(region.find(last, 2) == nullptr);
    next += piece.length;
  }
  CHECK(next == number(region.data()) + region.size());
  CHECK(region.find(static_cast<std::byte*>(region.data()) - 1, 1) == nullptr);
  CHECK(region.find(static_cast<std::byte*>(region.data()) + region.size(), 0) == nullptr);
  CHECK(region.find(region.data(), SIZE_MAX) == nullptr);
}

/// WRITE a pattern into every piece by its rkey and see it in the memory.
void check_keys(const device& dev, const hybrid_region& region) {
  const memory_region from{dev, source{scheme::plain}.allocate(region.size()), all_rights};
  fill_pattern(from.memory().bytes(), 9);
  loopback_qp qp{dev};
  for (const hybrid_piece& piece : region.pieces()) {
    const std::size_t offset = number(piece.address) - number(region.data());
    qp.execute({loopback_request::kind::write, number(from.addr()) + offset, from.lkey(),
                number(piece.address), piece.rkey, static_cast<std::uint32_t>(piece.length)});
  }
  CHECK(std::memcmp(region.data(), from.addr(), region.size()) == 0);
}

}  // namespace

TEST_CASE("a hybrid region has huge pages inside and base pages at its ends", "[hybrid][rdma]") {
  const device dev = open_device();
  const scheme which = GENERATE(scheme::thp, scheme::hugetlb_2m);
  INFO("scheme " << to_string(which));
  require_memory(which, 4_MiB);
  const hybrid_region region{dev, 100 + 4_MiB + 5000, 100, {source{which}, all_rights}};
  INFO("refused: " << to_string(region.refusals()));
  REQUIRE(region.pieces().size() == 3);
  CHECK(region.refusals().empty());
  CHECK(region.size() == 100 + 4_MiB + 5000);
  const auto pieces = region.pieces();
  CHECK(pieces[0].length == 100);
  CHECK(pieces[1].length == 4_MiB);
  CHECK(pieces[2].length == 5000);
  CHECK(number(pieces[1].address) % 2_MiB == 0);
  CHECK(pieces[0].page_size == 4_KiB);
  CHECK(pieces[1].page_size == 2_MiB);
  CHECK(pieces[2].page_size == 4_KiB);
  CHECK(huge_bytes(number(pieces[1].address), number(pieces[2].address)) == 4_MiB);
  CHECK(huge_bytes(number(pieces[0].address) - 2_MiB, number(pieces[1].address)) == 0);
  CHECK(huge_bytes(number(pieces[2].address), number(pieces[2].address) + 2_MiB) == 0);
  const auto* bytes = static_cast<const std::byte*>(region.data());
  CHECK(std::all_of(bytes, bytes + region.size(), [](std::byte x) { return x == std::byte{0}; }));
  check_pieces(region);
  check_keys(dev, region);
}

TEST_CASE("a contiguous body serves a hybrid region", "[hybrid][rdma][module]") {
  const device dev = open_device();
  require_memory(scheme::contig, 4_MiB);
  const hybrid_region region{dev, 4_MiB + 64, 64, {source{scheme::contig}, all_rights}};
  INFO("refused: " << to_string(region.refusals()));
  REQUIRE(region.pieces().size() == 2);
  CHECK(number(region.pieces()[1].address) % 2_MiB == 0);
  check_pieces(region);
  check_keys(dev, region);
}

TEST_CASE("whole multiples are one piece, short ranges one of base pages", "[hybrid][rdma]") {
  const device dev = open_device();
  require_memory(scheme::thp, 4_MiB);
  const hybrid_region whole{dev, 4_MiB, 0, {source{scheme::thp}, all_rights}};
  REQUIRE(whole.pieces().size() == 1);
  CHECK(whole.pieces()[0].page_size == 2_MiB);
  check_pieces(whole);

  const hybrid_region little{dev, 70000, 1000, {source{scheme::thp}, all_rights}};
  REQUIRE(little.pieces().size() == 1);
  CHECK(little.pieces()[0].page_size == 4_KiB);
  CHECK(little.refusals().empty());
  CHECK((number(little.data()) + 1000) % 2_MiB == 0);
  check_pieces(little);
  check_keys(dev, little);
}

TEST_CASE("without a body all is on base pages and the refusals say why", "[hybrid][rdma]") {
  const device dev = open_device();
  const std::size_t length = 64_MiB + 300;
  // Take what the pool has, so that nothing is left for the region.
  const std::size_t available = free_huge_pages("2048kB") * 2_MiB;
  buffer taken;
  if (available != 0) {
    taken = source{scheme::hugetlb_2m}.allocate(available);
  }
  const hybrid_region region{
      dev, length, 0, {source{scheme::hugetlb_2m, scheme::cma}, memopt::access::local_write}};
  REQUIRE(region.refusals().size() == 2);
  CHECK(region.refusals()[0].scheme == scheme::hugetlb_2m);
  CHECK(region.refusals()[0].reason == reason::hugetlb_pool);
  CHECK(region.refusals()[1].scheme == scheme::cma);
  REQUIRE(region.pieces().size() == 1);
  CHECK(region.pieces()[0].page_size == 4_KiB);
  CHECK(region.pieces()[0].length == length);
  check_pieces(region);
}

TEST_CASE("a hybrid region leaves nothing behind", "[hybrid][rdma]") {
  const device dev = open_device();
  require_memory(scheme::thp, 4_MiB);
  const auto once = [&dev] {
    hybrid_region first{dev, 4_MiB + 5000, 100, {source{scheme::thp}, memopt::access::local_write}};
    hybrid_region second{std::move(first)};
    CHECK(first.pieces().empty());
    CHECK(first.find(second.data(), 1) == nullptr);
    CHECK(second.pieces().size() == 3);
  };
  once();
  const std::size_t before = mapped_kib();
  for (int i = 0; i < 20; ++i) {
    once();
  }
  // Twenty reservations of 6 MiB would show; what the allocator does in passing does not.
  CHECK(mapped_kib() < before + (8_MiB >> 10));
}

TEST_CASE("impossible hybrid regions are refused", "[hybrid][rdma]") {
  const device dev = open_device();
  const auto why = [&dev](std::size_t length, std::size_t offset, const source& body) {
    try {
      const hybrid_region region{dev, length, offset, {body, memopt::access::local_write}};
    } catch (const error& failure) {
      return failure.reason();
    }
    return reason::unknown;
  };
  CHECK(why(0, 0, source{scheme::thp}) == reason::invalid_argument);
  CHECK(why(4_MiB, 2_MiB, source{scheme::thp}) == reason::invalid_argument);
  CHECK(why(SIZE_MAX, 0, source{scheme::thp}) == reason::invalid_argument);
  CHECK(why(4_MiB, 0, source{scheme::plain}) == reason::invalid_argument);
  CHECK(why(4_MiB, 0, source{scheme::hugetlb_1g}) == reason::invalid_argument);
}
