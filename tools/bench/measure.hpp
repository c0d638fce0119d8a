// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace memopt::tool::bench {

using clock = std::chrono::steady_clock;

[[nodiscard]] inline double micros_since(clock::time_point start) {
  return std::chrono::duration<double, std::micro>(clock::now() - start).count();
}

/// Middle value; the mean of the two middle ones for an even count. 0 for an empty list.
[[nodiscard]] double median(std::vector<double> values);

struct registration_times {
  double first_us = 0;
  double again_us = 0;
  double dereg_us = 0;
};

/// Time making and destroying a registration: once, then `repeats` times more (at least once).
/// @param make returns a std::optional of a move-only registration
template <typename Make>
[[nodiscard]] registration_times time_registration(Make&& make, unsigned repeats) {
  registration_times times;
  std::vector<double> again;
  std::vector<double> dereg;
  for (unsigned i = 0; i <= std::max(repeats, 1U); ++i) {
    const auto start = clock::now();
    auto registration = make();
    const double took = micros_since(start);
    if (i == 0) {
      times.first_us = took;
    } else {
      again.push_back(took);
    }
    const auto ending = clock::now();
    registration.reset();
    dereg.push_back(micros_since(ending));
  }
  times.again_us = median(std::move(again));
  times.dereg_us = median(std::move(dereg));
  return times;
}

/// Write one byte of every base page. @return milliseconds
double touch(std::span<std::byte> memory);

/// A part of the memory under test that one key covers.
struct target_piece {
  std::byte* address = nullptr;  ///< where this process sees it
  std::size_t length = 0;        ///< bytes
  std::uint64_t remote = 0;      ///< address of byte 0 on the wire, or offset in a share
  std::uint32_t rkey = 0;
};

/// Moves bytes between a staging area and the memory under test by RDMA, one request at a time.
class data_path {
 public:
  virtual ~data_path() = default;
  /// Registered memory of the initiator.
  [[nodiscard]] virtual std::span<std::byte> staging() = 0;
  /// WRITE the first `length` bytes of the staging area to `offset` of the piece.
  virtual void write(std::size_t length, const target_piece& piece, std::size_t offset) = 0;
  /// READ `length` bytes at `offset` of the piece into the staging area.
  virtual void read(std::size_t length, const target_piece& piece, std::size_t offset) = 0;
};

struct transfer_plan {
  unsigned small = 100;  ///< requests of 64 B each way
  unsigned large = 32;   ///< requests of 1 MiB each way
};

struct transfer_figures {
  double write_64b_us = 0;
  double read_64b_us = 0;
  double write_1m_mbps = 0;
  double read_1m_mbps = 0;
  std::uint64_t moved = 0;
  std::uint64_t verified = 0;
};

/// Run the plan at pseudo-random offsets and compare every byte that was moved; comparing and
/// filling is outside the timed part. A piece must hold at least 1 MiB to take part in the large
/// requests; at least one must.
[[nodiscard]] transfer_figures measure_transfers(data_path& path,
                                                 std::span<const target_piece> pieces,
                                                 const transfer_plan& plan);

}  // namespace memopt::tool::bench
