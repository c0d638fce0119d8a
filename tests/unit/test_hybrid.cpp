// SPDX-License-Identifier: MIT
// The division of a hybrid region into huge and base pages.

#include <cstddef>
#include <limits>
#include <random>

#include <catch2/catch_test_macros.hpp>

#include <memopt/units.hpp>

#include "hybrid_layout.hpp"

using namespace memopt::literals;
using memopt::detail::hybrid_layout;
using memopt::detail::lay_out;

TEST_CASE("whole 2 MiB multiples are all body", "[hybrid]") {
  const auto layout = lay_out(64_MiB, 0);
  REQUIRE(layout);
  CHECK(layout->front == 0);
  CHECK(layout->body == 64_MiB);
  CHECK(layout->tail == 0);
  CHECK(layout->front_pages == 0);
  CHECK(layout->tail_pages == 0);
}

TEST_CASE("a little more than a multiple costs base pages only", "[hybrid]") {
  const auto layout = lay_out(4_MiB + 100, 0);
  REQUIRE(layout);
  CHECK(layout->body == 4_MiB);
  CHECK(layout->tail == 100);
  CHECK(layout->tail_pages == 4_KiB);
}

TEST_CASE("a header in front does not shift the body off its border", "[hybrid]") {
  const auto layout = lay_out(64 + 6_MiB, 64);
  REQUIRE(layout);
  CHECK(layout->front == 64);
  CHECK(layout->front_pages == 4_KiB);
  CHECK(layout->lead == 4_KiB - 64);
  CHECK(layout->body == 6_MiB);
  CHECK(layout->tail == 0);
}

TEST_CASE("a range below 2 MiB has no body", "[hybrid]") {
  for (const std::size_t offset : {std::size_t{0}, std::size_t{64}, 1_MiB, 2_MiB - 1}) {
    const auto layout = lay_out(2_MiB - 1, offset);
    REQUIRE(layout);
    CHECK(layout->body == 0);
    CHECK(layout->front + layout->tail == 2_MiB - 1);
  }
  // Long enough, but no aligned 2 MiB in it.
  const auto layout = lay_out(3_MiB, 1_MiB + 4_KiB);
  REQUIRE(layout);
  CHECK(layout->body == 0);
  CHECK(layout->all_pages == 3_MiB);
}

TEST_CASE("a range that ends before the border takes no pages up to it", "[hybrid]") {
  const auto layout = lay_out(100, 1_MiB);
  REQUIRE(layout);
  CHECK(layout->front == 100);
  CHECK(layout->body == 0);
  CHECK(layout->tail == 0);
  CHECK(layout->all_pages == 4_KiB);
}

TEST_CASE("every division covers the range and fits its reservation", "[hybrid]") {
  std::mt19937_64 random{7};
  for (int round = 0; round < 5000; ++round) {
    const std::size_t length = 1 + random() % 16_MiB;
    const std::size_t offset = random() % 3 == 0 ? 0 : random() % 2_MiB;
    const auto layout = lay_out(length, offset);
    INFO("length " << length << ", offset " << offset);
    REQUIRE(layout);
    REQUIRE(layout->front + layout->body + layout->tail == length);
    REQUIRE(layout->body % 2_MiB == 0);
    REQUIRE((layout->body == 0 || layout->front == offset));
    REQUIRE(layout->tail < 2_MiB);
    REQUIRE(layout->lead + offset == layout->front_pages);
    REQUIRE(layout->lead < 4_KiB);
    REQUIRE(layout->tail_pages >= layout->tail);
    REQUIRE(layout->tail_pages - layout->tail < 4_KiB);
    REQUIRE(layout->all_pages >= layout->lead + length);
    // From any page, the next border that leaves room in front has room behind it too.
    const std::size_t start = 4_KiB * (random() % 1024);
    const std::size_t border = (start + layout->front_pages + 2_MiB - 1) / 2_MiB * 2_MiB;
    const std::size_t end = start + layout->reservation();
    REQUIRE(border - layout->front_pages >= start);
    REQUIRE(border + layout->body + layout->tail_pages <= end);
    REQUIRE(border - layout->front_pages + layout->all_pages <= end);
  }
}

TEST_CASE("impossible lengths and offsets have no division", "[hybrid]") {
  CHECK_FALSE(lay_out(0, 0));
  CHECK_FALSE(lay_out(4_MiB, 2_MiB));
  CHECK_FALSE(lay_out(std::numeric_limits<std::size_t>::max(), 0));
  CHECK_FALSE(lay_out(std::numeric_limits<std::size_t>::max() - 4_KiB, 64));
}
