// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <memopt/device.hpp>
#include <memopt/error.hpp>

namespace memopt::detail {

/// One-sided transfer between two registrations of the same PD.
struct loopback_request {
  enum class kind : std::uint8_t { write, read } what;
  std::uint64_t local;
  std::uint32_t lkey;
  std::uint64_t remote;
  std::uint32_t rkey;
  std::uint32_t length;  ///< bytes; 0 moves nothing and needs no keys
};

struct loopback_options {
  unsigned depth = 1;                       ///< requests under way at a time, at least 1
  std::chrono::milliseconds timeout{5000};  ///< for each wait()
};

/// An RC queue pair connected to another of this process on one port of a device.
///
/// Lets a process move bytes through the real data path of its device without a peer. The
/// constructor proves with an empty WRITE that the path works, and tries other addresses of the
/// device if it does not. Use from one thread at a time. After an error the queue pair is
/// unusable. The destructor ends transfers under way, so destroy it before the registrations
/// they use: declare it after them. Move-only.
class loopback_qp {
 public:
  /// @throws error `unsupported` (no active port, iWARP), `unreachable`, `timeout`,
  ///         `device_limit`, `out_of_memory`.
  explicit loopback_qp(const device& dev, const loopback_options& options = {});

  loopback_qp(loopback_qp&&) noexcept;
  loopback_qp& operator=(loopback_qp&&) noexcept;
  loopback_qp(const loopback_qp&) = delete;
  loopback_qp& operator=(const loopback_qp&) = delete;
  ~loopback_qp();

  /// Start a transfer. @throws error `invalid_argument` if `depth` are under way already.
  void post(const loopback_request& request);
  /// Collect that many completions.
  /// @throws error `access_denied`, `unreachable`, `disconnected`, `timeout`.
  void wait(unsigned completions = 1);
  /// post() and wait().
  void execute(const loopback_request& request);

  /// Bytes of a packet on the wire.
  [[nodiscard]] std::size_t path_mtu() const noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace memopt::detail
