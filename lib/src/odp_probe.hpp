// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <memopt/error.hpp>

namespace memopt::detail {

/// One transfer between memory under test ("subject") and memory that is trusted ("witness").
/// The four kinds are all ways in which a registration can serve RC: named remotely by its rkey,
/// or locally by its lkey.
struct probe_transfer {
  enum class kind : std::uint8_t {
    write_to_subject,    ///< WRITE, subject is the remote target
    read_from_subject,   ///< READ, subject is the remote source
    write_from_subject,  ///< WRITE, subject is the local source
    read_into_subject,   ///< READ, subject is the local target
  } what;
  std::size_t subject_offset;
  std::size_t witness_offset;
  std::size_t length;

  [[nodiscard]] bool changes_subject() const noexcept {
    return what == kind::write_to_subject || what == kind::read_into_subject;
  }
};

/// "WRITE of 14 bytes to offset 4089 of the registration".
[[nodiscard]] std::string to_string(const probe_transfer& transfer);

/// What the check works on. Both areas are `probe_area` bytes.
struct probe_bench {
  std::span<std::byte> subject;
  std::span<std::byte> witness;
  std::function<void(const probe_transfer&)> move;  ///< do it, or throw error
  std::function<void()> forget;  ///< drop the subject's pages, so that it reads as zeros
};

inline constexpr std::size_t probe_page = 4096;
inline constexpr std::size_t probe_area = 8 * probe_page;

/// Do transfers of every kind at odd offsets, across pages and packets, into resident and into
/// dropped pages, and compare every byte of both areas after each: those that must have changed
/// and those that must not.
///
/// @param operation for the error
/// @throws error `odp_unreliable` with the transfer and the first wrong byte, or what `move` threw
void check_transfers(const probe_bench& bench, const std::string& operation);

}  // namespace memopt::detail
