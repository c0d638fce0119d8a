// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <memopt/device.hpp>
#include <memopt/memory_region.hpp>
#include <memopt/remote_buffer.hpp>
#include <memopt/share.hpp>

#include <detail/loopback_qp.hpp>

#include "measure.hpp"

namespace memopt::tool::bench {

/// Requests from a queue pair of this process to memory registered on the same PD.
class user_pd_path : public data_path {
 public:
  explicit user_pd_path(const device& dev);
  std::span<std::byte> staging() override;
  void write(std::size_t length, const target_piece& piece, std::size_t offset) override;
  void read(std::size_t length, const target_piece& piece, std::size_t offset) override;

 private:
  void execute(detail::loopback_request::kind what, std::size_t length, const target_piece& piece,
               std::size_t offset);

  memory_region staging_;
  detail::loopback_qp qp_;  // after what it uses
};

/// Requests of a client that knows a share's address and token only.
class share_path : public data_path {
 public:
  share_path(const std::string& address, const share& served);
  std::span<std::byte> staging() override;
  void write(std::size_t length, const target_piece& piece, std::size_t offset) override;
  void read(std::size_t length, const target_piece& piece, std::size_t offset) override;

 private:
  remote_buffer remote_;
  memory_region staging_;
};

/// The first IPv4 address of the device's ports, from its GID table; nothing if it has none.
[[nodiscard]] std::optional<std::string> ipv4_address(const device& dev);

}  // namespace memopt::tool::bench
