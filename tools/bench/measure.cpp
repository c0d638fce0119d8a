// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include <cstring>
#include <random>
#include <stdexcept>

namespace memopt::tool::bench {
namespace {

constexpr std::size_t base_page = 4096;
constexpr std::size_t small_request = 64;
constexpr std::size_t large_request = 1U << 20U;

// Different for every request, so that a request that did nothing can not pass as done.
void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 generator{seed};
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::uint64_t word = generator();
    const std::size_t piece = std::min(sizeof word, bytes.size() - done);
    std::memcpy(bytes.data() + done, &word, piece);
    done += piece;
  }
}

std::uint64_t equal_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) {
    return a.size();
  }
  std::uint64_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    equal += a[i] == b[i] ? 1 : 0;
  }
  return equal;
}

class transfer_run {
 public:
  transfer_run(data_path& path, std::span<const target_piece> pieces)
      : path_{path}, pieces_{pieces} {}

  // Median microseconds of `count` requests after one that warms up.
  double writes(std::size_t length, unsigned count) {
    return requests(length, count, [&](const target_piece& piece, std::size_t offset) {
      fill(path_.staging().first(length), ++seed_);
      const auto start = clock::now();
      path_.write(length, piece, offset);
      return micros_since(start);
    });
  }

  double reads(std::size_t length, unsigned count) {
    return requests(length, count, [&](const target_piece& piece, std::size_t offset) {
      fill({piece.address + offset, length}, ++seed_);
      std::memset(path_.staging().data(), 0, length);
      const auto start = clock::now();
      path_.read(length, piece, offset);
      return micros_since(start);
    });
  }

  std::uint64_t moved() const { return moved_; }
  std::uint64_t verified() const { return verified_; }

 private:
  template <typename Request>
  double requests(std::size_t length, unsigned count, Request&& request) {
    std::vector<const target_piece*> fitting;
    for (const target_piece& piece : pieces_) {
      if (piece.length >= length) {
        fitting.push_back(&piece);
      }
    }
    if (fitting.empty()) {
      throw std::invalid_argument{"no piece of the memory under test holds a whole request"};
    }
    std::vector<double> times;
    for (unsigned i = 0; i <= count; ++i) {
      const target_piece& piece = *fitting[generator_() % fitting.size()];
      const std::size_t offset = generator_() % (piece.length - length + 1);
      const double took = request(piece, offset);
      if (i != 0) {
        times.push_back(took);
      }
      moved_ += length;
      verified_ += equal_bytes(path_.staging().first(length), {piece.address + offset, length});
    }
    return median(std::move(times));
  }

  data_path& path_;
  std::span<const target_piece> pieces_;
  std::mt19937_64 generator_{1};  // NOLINT: the same offsets in every run are wanted
  std::uint64_t seed_ = 0;
  std::uint64_t moved_ = 0;
  std::uint64_t verified_ = 0;
};

double megabytes_per_second(double micros) {
  return micros > 0 ? static_cast<double>(large_request) / micros : 0;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double touch(std::span<std::byte> memory) {
  const auto start = clock::now();
  for (std::size_t i = 0; i < memory.size(); i += base_page) {
    *const_cast<volatile std::byte*>(&memory[i]) = std::byte{1};
  }
  return micros_since(start) / 1000;
}

transfer_figures measure_transfers(data_path& path, std::span<const target_piece> pieces,
                                   const transfer_plan& plan) {
  if (path.staging().size() < large_request) {
    throw std::invalid_argument{"the staging area is smaller than a request"};
  }
  transfer_run run{path, pieces};
  transfer_figures figures;
  figures.write_64b_us = run.writes(small_request, plan.small);
  figures.read_64b_us = run.reads(small_request, plan.small);
  figures.write_1m_mbps = megabytes_per_second(run.writes(large_request, plan.large));
  figures.read_1m_mbps = megabytes_per_second(run.reads(large_request, plan.large));
  figures.moved = run.moved();
  figures.verified = run.verified();
  return figures;
}

}  // namespace memopt::tool::bench
