// SPDX-License-Identifier: MIT
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "bench/measure.hpp"

using namespace memopt::tool::bench;

namespace {

// Moves bytes by memcpy, and can be made to do it wrong.
class memory_path : public data_path {
 public:
  enum class fault { none, drop_write, drop_read, short_write };

  explicit memory_path(fault f = fault::none) : fault_{f} {}

  std::span<std::byte> staging() override { return staging_; }

  void write(std::size_t length, const target_piece& piece, std::size_t offset) override {
    inside_ = inside_ && offset + length <= piece.length;
    offsets.insert(piece.remote + offset);
    if (fault_ != fault::drop_write) {
      std::memcpy(piece.address + offset, staging_.data(),
                  fault_ == fault::short_write ? length / 2 : length);
    }
  }

  void read(std::size_t length, const target_piece& piece, std::size_t offset) override {
    inside_ = inside_ && offset + length <= piece.length;
    if (fault_ != fault::drop_read) {
      std::memcpy(staging_.data(), piece.address + offset, length);
    }
  }

  bool inside() const { return inside_; }

  std::set<std::uint64_t> offsets;

 private:
  fault fault_;
  bool inside_ = true;
  std::vector<std::byte> staging_ = std::vector<std::byte>(1U << 20U);
};

struct target {
  std::vector<std::byte> memory = std::vector<std::byte>(4U << 20U);
  std::array<target_piece, 2> pieces{
      {{.address = memory.data(), .length = 3U << 20U, .remote = 0},
       {.address = memory.data() + (3U << 20U), .length = 1U << 20U, .remote = 3U << 20U}}};
};

constexpr transfer_plan plan{.small = 20, .large = 3};
// Each phase runs one request more than planned, to warm up.
constexpr std::uint64_t expected = 2 * 21 * 64 + 2 * 4 * (1U << 20U);

}  // namespace

TEST_CASE("the median is the middle", "[measure]") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("every byte moved is verified when the path is right", "[measure]") {
  target t;
  memory_path path;
  const transfer_figures figures = measure_transfers(path, t.pieces, plan);
  CHECK(figures.moved == expected);
  CHECK(figures.verified == expected);
  CHECK(path.inside());
  CHECK(path.offsets.size() > 10);
  CHECK(figures.write_64b_us > 0);
  CHECK(figures.read_1m_mbps > 0);
}

TEST_CASE("a path that loses bytes is found out", "[measure]") {
  for (const auto fault : {memory_path::fault::drop_write, memory_path::fault::drop_read,
                           memory_path::fault::short_write}) {
    target t;
    memory_path path{fault};
    const transfer_figures figures = measure_transfers(path, t.pieces, plan);
    CHECK(figures.moved == expected);
    CHECK(figures.verified < figures.moved);
  }
}

TEST_CASE("memory without room for a request is refused", "[measure]") {
  target t;
  t.pieces[0].length = t.pieces[1].length = 4096;
  memory_path path;
  CHECK_THROWS_AS(measure_transfers(path, t.pieces, plan), std::invalid_argument);
}

TEST_CASE("registration is timed the first time apart from the others", "[measure]") {
  int made = 0;
  int alive = 0;
  struct registration {
    explicit registration(int& count) : count_{count} { ++count_; }
    ~registration() { --count_; }
    int& count_;
  };
  const registration_times times = time_registration(
      [&] {
        CHECK(alive == 0);
        ++made;
        return std::optional<registration>{std::in_place, alive};
      },
      4);
  CHECK(made == 5);
  CHECK(alive == 0);
  CHECK(times.first_us > 0);
  CHECK(times.again_us > 0);
}

TEST_CASE("touching writes to every page", "[measure]") {
  std::vector<std::byte> memory(3 * 4096);
  CHECK(touch(memory) >= 0);
  CHECK(memory[0] == std::byte{1});
  CHECK(memory[4096] == std::byte{1});
  CHECK(memory[8192] == std::byte{1});
}
