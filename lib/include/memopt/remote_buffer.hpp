// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <memopt/access.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/memory_region.hpp>
#include <memopt/share.hpp>

namespace memopt {

struct remote_options {
  std::string address;     ///< of the share
  std::uint16_t port = 0;  ///< of the share
  share_token token;
  std::chrono::milliseconds timeout{5000};  ///< for connecting and for each operation; more than 0
};

/// The client end of a share: one-sided access to a peer's memory over an RC queue pair.
///
/// Owns the connection, with a PD of its own on the device that the route leads to. RC gives the
/// order of operations; they complete one at a time here. Use from one thread at a time. After an
/// error the connection is unusable (`connected()` is false): make a new object. Move-only.
class remote_buffer {
 public:
  /// @throws error `unreachable`, `rejected` (the text says why), `timeout`, `no_device`.
  explicit remote_buffer(const remote_options& options);
  [[nodiscard]] static result<remote_buffer> try_connect(const remote_options& options) noexcept;

  remote_buffer(remote_buffer&&) noexcept;
  remote_buffer& operator=(remote_buffer&&) noexcept;
  remote_buffer(const remote_buffer&) = delete;
  remote_buffer& operator=(const remote_buffer&) = delete;
  ~remote_buffer();

  [[nodiscard]] bool connected() const noexcept;
  /// Bytes that can be reached.
  [[nodiscard]] std::uint64_t size() const noexcept;
  [[nodiscard]] access rights() const noexcept;
  /// The device of the connection, for registering memory to send from and receive into.
  [[nodiscard]] const device& local_device() const noexcept;

  /// Write `length` bytes at `local` (inside `mr`, registered on local_device()) to `offset`.
  /// Bounds and rights are checked here first (`access_denied`, `invalid_argument`); a share
  /// revoked meanwhile gives `access_denied` or `disconnected`.
  /// @throws error; also `timeout`.
  void write(const memory_region& mr, const void* local, std::size_t length, std::uint64_t offset);
  /// Read `length` bytes at `offset` into `local`. Errors as for write().
  void read(const memory_region& mr, void* local, std::size_t length, std::uint64_t offset);

  [[nodiscard]] result<void> try_write(const memory_region& mr, const void* local,
                                       std::size_t length, std::uint64_t offset) noexcept;
  [[nodiscard]] result<void> try_read(const memory_region& mr, void* local, std::size_t length,
                                      std::uint64_t offset) noexcept;

 private:
  struct connection;
  explicit remote_buffer(std::unique_ptr<connection> c) noexcept;

  std::unique_ptr<connection> connection_;
};

}  // namespace memopt
