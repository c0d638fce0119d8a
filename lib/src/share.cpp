// SPDX-License-Identifier: MIT
#include <memopt/share.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "detail/attempt.hpp"
#include "detail/buffer_state.hpp"
#include "detail/module_file.hpp"

namespace memopt {
namespace {

reason reason_of(int failed) {
  switch (failed) {
    case EPERM:
    case EACCES:
      return reason::permission;
    case EADDRNOTAVAIL:
    case ENODEV:
      return reason::address_unavailable;
    case EADDRINUSE:
      return reason::address_in_use;
    default:
      return detail::common_reason(failed);
  }
}

// "10.0.0.1", "2001:db8::1" or "fe80::1%eth0".
void set_address(memopt_share_create& argument, const std::string& text,
                 const std::string& operation) {
  if (inet_pton(AF_INET, text.c_str(), argument.addr) == 1) {
    argument.family = AF_INET;
    return;
  }
  const auto percent = text.find('%');
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), argument.addr) != 1) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "'" + text + "' is no IPv4 or IPv6 address"};
  }
  argument.family = AF_INET6;
  if (percent != std::string::npos) {
    argument.scope_id = if_nametoindex(text.c_str() + percent + 1);
    if (argument.scope_id == 0) {
      throw error{errno, reason::address_unavailable, operation,
                  "there is no interface '" + text.substr(percent + 1) + "'"};
    }
  }
}

std::uint32_t milliseconds(std::chrono::milliseconds time, const std::string& operation) {
  if (time.count() < 0 || time.count() > std::numeric_limits<std::uint32_t>::max()) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "expires is outside 0 to 2^32 - 1 milliseconds"};
  }
  return static_cast<std::uint32_t>(time.count());
}

}  // namespace

std::string share_token::to_hex() const {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

share_token share_token::from_hex(std::string_view text) {
  share_token token;
  bool good = text.size() == 2 * token.bytes.size();
  for (std::size_t i = 0; good && i < token.bytes.size(); ++i) {
    const char* first = text.data() + 2 * i;
    // from_chars alone would take a sign.
    good = std::all_of(first, first + 2, [](unsigned char c) { return std::isxdigit(c) != 0; }) &&
           std::from_chars(first, first + 2, token.bytes[i], 16).ptr == first + 2;
  }
  if (!good) {
    // The text may be a secret with a typing error: it is not repeated here.
    throw error{EINVAL, reason::invalid_argument, "read a token",
                "it must be 32 hexadecimal digits, not " + std::to_string(text.size()) +
                    " characters of something else"};
  }
  return token;
}

share::share(const buffer& memory, const share_options& options) {
  const std::string operation =
      "share on " + options.address + " port " + std::to_string(options.port);
  const detail::buffer_state& state = detail::module_buffer(memory, operation);
  if (!is_valid(options.rights)) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "remote_write and remote_atomic need local_write"};
  }
  if (options.offset > state.mapped_size || options.length > state.mapped_size - options.offset) {
    throw error{EINVAL, reason::invalid_argument, operation, "the range is not inside the buffer"};
  }
  memopt_share_create argument{};
  argument.flags = options.single_use ? MEMOPT_SHARE_F_SINGLE_USE : 0;
  argument.buf_id = state.buffer_id;
  argument.access = detail::module_access(options.rights);
  argument.offset = options.offset;
  argument.length = options.length != 0 ? options.length : state.mapped_size - options.offset;
  argument.port = options.port;
  argument.expires_ms = milliseconds(options.expires, operation);
  argument.max_connections = options.max_connections;
  set_address(argument, options.address, operation);

  detail::module_file file = detail::module_file::duplicate_of(state.file.fd());
  if (const int failed = detail::call_module(file.fd(), MEMOPT_SHARE_CREATE, argument);
      failed != 0) {
    throw error{failed, reason_of(failed), operation};
  }
  fd_ = file.release();
  id_ = argument.out_share_id;
  port_ = argument.out_port;
  rkey_ = argument.out_rkey;
  iova_ = argument.out_iova;
  static_assert(sizeof argument.out_token == sizeof token_.bytes);
  std::memcpy(token_.bytes.data(), argument.out_token, sizeof argument.out_token);
}

result<share> share::try_create(const buffer& memory, const share_options& options) noexcept {
  return detail::attempt("create a share", [&] { return share{memory, options}; });
}

share::share(share&& other) noexcept
    : fd_{std::exchange(other.fd_, -1)},
      id_{std::exchange(other.id_, 0)},
      port_{other.port_},
      rkey_{other.rkey_},
      iova_{other.iova_},
      token_{other.token_} {}

share& share::operator=(share&& other) noexcept {
  share old{std::move(*this)};
  fd_ = std::exchange(other.fd_, -1);
  id_ = std::exchange(other.id_, 0);
  port_ = other.port_;
  rkey_ = other.rkey_;
  iova_ = other.iova_;
  token_ = other.token_;
  return *this;
}

share::~share() { revoke(); }

share_info share::info() const {
  memopt_share_info answer{};
  answer.share_id = id_;
  if (const int failed = detail::call_module(fd_, MEMOPT_SHARE_INFO, answer); failed != 0) {
    throw error{failed, reason_of(failed), "ask the module about a share"};
  }
  answer.out_ibdev[sizeof answer.out_ibdev - 1] = '\0';
  return {.connections = answer.out_connections,
          .accepted = answer.out_accepted,
          .rejected = answer.out_rejected,
          .length = answer.out_length,
          .entries = answer.out_entries,
          .page_size = answer.out_page_size,
          .closed = (answer.out_state & MEMOPT_SHARE_STATE_CLOSED) != 0,
          .device_gone = (answer.out_state & MEMOPT_SHARE_STATE_DEVICE_GONE) != 0,
          .ibdev = answer.out_ibdev};
}

void share::revoke() noexcept {
  const detail::module_file file{std::exchange(fd_, -1)};
  if (const std::uint32_t id = std::exchange(id_, 0); id != 0) {
    memopt_share_destroy argument{};
    argument.share_id = id;
    (void)detail::call_module(file.fd(), MEMOPT_SHARE_DESTROY, argument);
  }
}

}  // namespace memopt
