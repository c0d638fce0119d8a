// SPDX-License-Identifier: MIT
#include <memopt/remote_buffer.hpp>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "detail/attempt.hpp"
#include "detail/connection.hpp"

namespace memopt {

struct remote_buffer::connection : detail::connection {
  using detail::connection::connection;
};

namespace {

constexpr std::chrono::milliseconds longest_timeout = std::chrono::hours{24};

void check(const remote_options& options) {
  const std::string operation = "connect to a share";
  if (options.timeout.count() <= 0 || options.timeout > longest_timeout) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "the timeout must be more than 0 and at most a day"};
  }
  if (options.port == 0) {
    throw error{EINVAL, reason::invalid_argument, operation, "there is no port 0"};
  }
}

// Bounds and rights are checked here too, as a refusal by the peer costs the connection.
void check_request(const detail::grant& granted, access needed, const memory_region& mr,
                   const void* local, std::size_t length, std::uint64_t offset,
                   const std::string& operation) {
  if (length == 0 || length > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "the length must be from 1 byte to 2 GiB"};
  }
  if (!has(granted.rights, needed)) {
    throw error{EACCES, reason::access_denied, operation, "the share does not grant it"};
  }
  if (offset > granted.length || length > granted.length - offset) {
    throw error{ERANGE, reason::access_denied, operation,
                "the share ends at " + std::to_string(granted.length)};
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(mr.addr());
  const auto first = reinterpret_cast<std::uintptr_t>(local);
  if (!mr || first < begin || length > mr.length() || first - begin > mr.length() - length) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "the local range is not inside the memory region"};
  }
}

}  // namespace

remote_buffer::remote_buffer(std::unique_ptr<connection> c) noexcept : connection_{std::move(c)} {}

remote_buffer::remote_buffer(const remote_options& options) {
  check(options);
  connection_ =
      std::make_unique<connection>(options.address, options.port, options.token, options.timeout);
}

result<remote_buffer> remote_buffer::try_connect(const remote_options& options) noexcept {
  return detail::attempt("connect to a share", [&] { return remote_buffer{options}; });
}

remote_buffer::remote_buffer(remote_buffer&&) noexcept = default;
remote_buffer& remote_buffer::operator=(remote_buffer&&) noexcept = default;
remote_buffer::~remote_buffer() = default;

bool remote_buffer::connected() const noexcept { return connection_ && connection_->connected(); }

std::uint64_t remote_buffer::size() const noexcept {
  return connection_ ? connection_->granted().length : 0;
}

access remote_buffer::rights() const noexcept {
  return connection_ ? connection_->granted().rights : access::local_read;
}

const device& remote_buffer::local_device() const noexcept { return connection_->local_device(); }

void remote_buffer::write(const memory_region& mr, const void* local, std::size_t length,
                          std::uint64_t offset) {
  const std::string operation =
      "write " + std::to_string(length) + " bytes at " + std::to_string(offset) + " of a share";
  if (!connection_) {
    throw error{ENOTCONN, reason::disconnected, operation};
  }
  check_request(connection_->granted(), access::remote_write, mr, local, length, offset, operation);
  connection_->execute(detail::connection::request::write, reinterpret_cast<std::uintptr_t>(local),
                       mr.lkey(), static_cast<std::uint32_t>(length), offset);
}

void remote_buffer::read(const memory_region& mr, void* local, std::size_t length,
                         std::uint64_t offset) {
  const std::string operation =
      "read " + std::to_string(length) + " bytes at " + std::to_string(offset) + " of a share";
  if (!connection_) {
    throw error{ENOTCONN, reason::disconnected, operation};
  }
  check_request(connection_->granted(), access::remote_read, mr, local, length, offset, operation);
  connection_->execute(detail::connection::request::read, reinterpret_cast<std::uintptr_t>(local),
                       mr.lkey(), static_cast<std::uint32_t>(length), offset);
}

result<void> remote_buffer::try_write(const memory_region& mr, const void* local,
                                      std::size_t length, std::uint64_t offset) noexcept {
  return detail::attempt("write to a share", [&] { write(mr, local, length, offset); });
}

result<void> remote_buffer::try_read(const memory_region& mr, void* local, std::size_t length,
                                     std::uint64_t offset) noexcept {
  return detail::attempt("read from a share", [&] { read(mr, local, length, offset); });
}

}  // namespace memopt
