// SPDX-License-Identifier: MIT
#include "paths.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <arpa/inet.h>

#include <infiniband/verbs.h>

#include <memopt/source.hpp>

namespace memopt::tool::bench {
namespace {

constexpr std::size_t staging_bytes = 1U << 20U;

memory_region make_staging(const device& dev) {
  return {dev, source{scheme::plain}.allocate(staging_bytes), access::local_write};
}

}  // namespace

user_pd_path::user_pd_path(const device& dev) : staging_{make_staging(dev)}, qp_{dev} {}

std::span<std::byte> user_pd_path::staging() { return staging_.memory().bytes(); }

void user_pd_path::write(std::size_t length, const target_piece& piece, std::size_t offset) {
  execute(detail::loopback_request::kind::write, length, piece, offset);
}

void user_pd_path::read(std::size_t length, const target_piece& piece, std::size_t offset) {
  execute(detail::loopback_request::kind::read, length, piece, offset);
}

void user_pd_path::execute(detail::loopback_request::kind what, std::size_t length,
                           const target_piece& piece, std::size_t offset) {
  qp_.execute({.what = what,
               .local = staging_.iova(),
               .lkey = staging_.lkey(),
               .remote = piece.remote + offset,
               .rkey = piece.rkey,
               .length = static_cast<std::uint32_t>(length)});
}

share_path::share_path(const std::string& address, const share& served)
    : remote_{{.address = address, .port = served.port(), .token = served.token()}},
      staging_{make_staging(remote_.local_device())} {}

std::span<std::byte> share_path::staging() { return staging_.memory().bytes(); }

void share_path::write(std::size_t length, const target_piece& piece, std::size_t offset) {
  remote_.write(staging_, staging_.addr(), length, piece.remote + offset);
}

void share_path::read(std::size_t length, const target_piece& piece, std::size_t offset) {
  remote_.read(staging_, staging_.addr(), length, piece.remote + offset);
}

std::optional<std::string> ipv4_address(const device& dev) {
  // RoCE keeps an IPv4 address as the mapped form ::ffff:a.b.c.d of a GID.
  static constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  ibv_device_attr attributes{};
  if (ibv_query_device(dev.context(), &attributes) != 0) {
    return std::nullopt;
  }
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number) {
    const auto port = static_cast<std::uint8_t>(number);
    ibv_port_attr state{};
    if (ibv_query_port(dev.context(), port, &state) != 0 || state.state != IBV_PORT_ACTIVE) {
      continue;
    }
    for (int index = 0; index < state.gid_tbl_len; ++index) {
      ibv_gid gid{};
      if (ibv_query_gid(dev.context(), port, index, &gid) == 0 &&
          std::equal(mapped.begin(), mapped.end(), gid.raw)) {
        std::array<char, INET_ADDRSTRLEN> text{};
        if (inet_ntop(AF_INET, gid.raw + mapped.size(), text.data(), text.size()) != nullptr) {
          return text.data();
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace memopt::tool::bench
