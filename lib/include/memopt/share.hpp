// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <memopt/access.hpp>
#include <memopt/buffer.hpp>
#include <memopt/error.hpp>

namespace memopt {

/// 128 random bits that admit a peer to a share. An access check on a trusted fabric: it crosses
/// the wire in clear text.
struct share_token {
  std::array<std::uint8_t, 16> bytes{};

  /// 32 hexadecimal digits.
  [[nodiscard]] std::string to_hex() const;
  /// @throws error `invalid_argument` unless it is 32 hexadecimal digits.
  [[nodiscard]] static share_token from_hex(std::string_view text);

  friend bool operator==(const share_token&, const share_token&) = default;
};

struct share_options {
  std::string address;     ///< IPv4 or IPv6 address of the RDMA device to listen on; no wildcard
  std::uint16_t port = 0;  ///< 0 lets the kernel choose
  access rights = access::remote_read;
  std::size_t offset = 0;  ///< first byte, a multiple of the page size
  std::size_t length = 0;  ///< bytes, a multiple of the page size; 0 means up to the end
  bool single_use = false;
  std::chrono::milliseconds expires{0};  ///< 0 means never
  std::uint32_t max_connections = 0;     ///< at a time; 0 means the module's limit
};

struct share_info {
  std::uint32_t connections;  ///< peers connected now
  std::uint64_t accepted;     ///< peers admitted so far
  std::uint64_t rejected;     ///< peers turned away so far
  std::uint64_t length;       ///< bytes
  std::uint32_t entries;      ///< translation entries posted to the device
  std::uint32_t page_size;    ///< bytes each covers
  bool closed;                ///< no new peer is admitted
  bool device_gone;           ///< the RDMA device was removed
  std::string ibdev;          ///< name of the RDMA device
};

/// Lets remote peers read and write a `cma` or `contig` buffer without this process doing anything.
///
/// The listener is in the kernel, in the network namespace of the caller. The destructor revokes:
/// when it returns, the key is dead and no byte of a peer can arrive any more. The buffer may go
/// first: the module keeps its memory until the share has gone. Move-only.
class share {
 public:
  /// @throws error `permission`, `address_unavailable`, `address_in_use`, `invalid_argument`,
  ///         `unsupported`, `object_limit`.
  share(const buffer& memory, const share_options& options);
  [[nodiscard]] static result<share> try_create(const buffer& memory,
                                                const share_options& options) noexcept;

  share(share&&) noexcept;
  share& operator=(share&&) noexcept;
  share(const share&) = delete;
  share& operator=(const share&) = delete;
  ~share();

  [[nodiscard]] const share_token& token() const noexcept { return token_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return rkey_; }
  [[nodiscard]] std::uint64_t iova() const noexcept { return iova_; }
  [[nodiscard]] share_info info() const;

  /// Revoke now instead of at destruction. Doing it twice is fine.
  void revoke() noexcept;

 private:
  share() noexcept = default;

  int fd_ = -1;  // own duplicate of the buffer's descriptor
  std::uint32_t id_ = 0;
  std::uint16_t port_ = 0;
  std::uint32_t rkey_ = 0;
  std::uint64_t iova_ = 0;
  share_token token_;
};

}  // namespace memopt
