// SPDX-License-Identifier: MIT

#include "odp_probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace memopt::detail {

namespace {

using kind = probe_transfer::kind;

struct shape {
  std::size_t subject_offset;
  std::size_t witness_offset;
  std::size_t length;
};

/// Packets carry 256 to 4096 bytes, a power of two; drivers split copies at pages. Each shape
/// is there for a way in which such a split goes wrong.
constexpr std::array shapes{
    shape{0, 0, probe_page},                                // nothing odd: the base case
    shape{3, 61, 5},                                        // offset inside a page
    shape{probe_page - 7, 130, 14},                         // page border in a packet
    shape{probe_page / 2, 0, probe_page / 2},               // half a page, to its end
    shape{probe_page + 1, 2 * probe_page - 9, probe_page},  // borders apart on both sides
    shape{513, 3, 3 * probe_page + 77},                     // many packets, odd all over
    shape{2 * probe_page, probe_page / 2, 5 * probe_page},  // many packets, whole pages
};

constexpr std::array kinds{kind::write_to_subject, kind::read_from_subject,
                           kind::write_from_subject, kind::read_into_subject};

/// A byte that depends on round, area and place, so that bytes of another place, of another area
/// or of an earlier round are seen as wrong.
std::byte pattern(std::uint32_t seed, std::size_t place) noexcept {
  std::uint32_t mixed = (static_cast<std::uint32_t>(place) + 1) * 0x9e3779b1U ^ seed * 0x85ebca6bU;
  mixed ^= mixed >> 15;
  mixed *= 0x2c1b3c6dU;
  return static_cast<std::byte>(mixed >> 24);
}

void fill(std::span<std::byte> area, std::uint32_t seed) noexcept {
  for (std::size_t i = 0; i < area.size(); ++i) {
    area[i] = pattern(seed, i);
  }
}

/// Where an area differs from what it should be; empty if nowhere.
std::string damage(std::span<const std::byte> area, std::span<const std::byte> expected,
                   std::size_t target, std::size_t length, const char* name) {
  std::size_t inside = 0;
  std::size_t outside = 0;
  std::size_t first = area.size();
  for (std::size_t i = 0; i < area.size(); ++i) {
    if (area[i] != expected[i]) {
      first = std::min(first, i);
      ++(i >= target && i - target < length ? inside : outside);
    }
  }
  if (inside + outside == 0) {
    return {};
  }
  return std::to_string(inside) + " bytes wrong inside and " + std::to_string(outside) +
         " changed outside the target range of the " + name + " memory, the first at offset " +
         std::to_string(first);
}

void check_one(const probe_bench& bench, const probe_transfer& transfer, bool dropped,
               std::uint32_t round, const std::string& operation) {
  fill(bench.subject, 2 * round);
  fill(bench.witness, 2 * round + 1);
  std::vector<std::byte> subject{bench.subject.begin(), bench.subject.end()};
  std::vector<std::byte> witness{bench.witness.begin(), bench.witness.end()};
  if (dropped) {
    bench.forget();
    std::ranges::fill(subject, std::byte{0});
  }
  const bool to_subject = transfer.changes_subject();
  auto& source = to_subject ? witness : subject;
  auto& target = to_subject ? subject : witness;
  const std::size_t from = to_subject ? transfer.witness_offset : transfer.subject_offset;
  const std::size_t to = to_subject ? transfer.subject_offset : transfer.witness_offset;
  std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), transfer.length,
              target.begin() + static_cast<std::ptrdiff_t>(to));

  bench.move(transfer);

  // A source area has no target range: any change in it is one too many.
  std::string found = damage(bench.subject, subject, transfer.subject_offset,
                             to_subject ? transfer.length : 0, "registered");
  if (found.empty()) {
    found = damage(bench.witness, witness, transfer.witness_offset,
                   to_subject ? 0 : transfer.length, "other");
  }
  if (!found.empty()) {
    throw error{EIO, reason::odp_unreliable, operation,
                to_string(transfer) + (dropped ? " without resident pages: " : ": ") + found};
  }
}

}  // namespace

std::string to_string(const probe_transfer& transfer) {
  const auto with = [&transfer](const char* name, const char* preposition) {
    return std::string{name} + " of " + std::to_string(transfer.length) + " bytes " + preposition +
           " offset " + std::to_string(transfer.subject_offset);
  };
  switch (transfer.what) {
    case kind::write_to_subject:
      return with("WRITE", "to");
    case kind::read_from_subject:
      return with("READ", "from");
    case kind::write_from_subject:
      return with("WRITE", "from local");
    case kind::read_into_subject:
      return with("READ", "into local");
  }
  return "unknown transfer";
}

void check_transfers(const probe_bench& bench, const std::string& operation) {
  if (bench.subject.size() != probe_area || bench.witness.size() != probe_area) {
    throw error{EINVAL, reason::invalid_argument, operation, "areas of the wrong size"};
  }
  std::uint32_t round = 0;
  for (const shape& s : shapes) {
    for (const kind what : kinds) {
      for (const bool dropped : {false, true}) {
        check_one(bench, {what, s.subject_offset, s.witness_offset, s.length}, dropped, ++round,
                  operation);
      }
    }
  }
}

}  // namespace memopt::detail
