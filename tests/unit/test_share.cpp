// SPDX-License-Identifier: MIT
// Shares: tokens, addresses and ranges as they reach the module, and how errors come back.

#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <arpa/inet.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/share.hpp>
#include <memopt/source.hpp>
#include <memopt/units.hpp>

#include "expect.hpp"
#include "fake_module.hpp"

using namespace memopt;
using namespace memopt::literals;
using Catch::Matchers::ContainsSubstring;
using memopt::test::error_of;
using memopt::test::fake_module;
using memopt::test::reason_of;

namespace {

buffer cma_memory(std::size_t length = 64_MiB) { return source{scheme::cma}.allocate(length); }

reason refused(const buffer& memory, const share_options& options) {
  return reason_of([&] { const share refused_share{memory, options}; });
}

share_options at(std::string address) {
  share_options options;
  options.address = std::move(address);
  return options;
}

}  // namespace

TEST_CASE("a token survives being written down", "[share]") {
  share_token token;
  for (std::size_t i = 0; i < token.bytes.size(); ++i) {
    token.bytes[i] = static_cast<std::uint8_t>(i * 17);
  }
  CHECK(token.to_hex() == "00112233445566778899aabbccddeeff");
  CHECK(share_token::from_hex(token.to_hex()) == token);
  CHECK(share_token::from_hex("00112233445566778899AABBCCDDEEFF") == token);
}

TEST_CASE("what is no token is refused and not repeated", "[share]") {
  for (const std::string text :
       {"", "00112233445566778899aabbccddeef", "00112233445566778899aabbccddeefff",
        "00112233445566778899aabbccddeefg", "-0112233445566778899aabbccddeeff",
        "0 112233445566778899aabbccddeeff", "0x112233445566778899aabbccddeeff"}) {
    INFO(text);
    const error failure = error_of([&] { (void)share_token::from_hex(text); });
    CHECK(failure.reason() == reason::invalid_argument);
    if (!text.empty()) {
      CHECK(std::string{failure.what()}.find(text) == std::string::npos);
    }
  }
}

TEST_CASE("a share asks for what its options say", "[share]") {
  fake_module module;
  const buffer memory = cma_memory();
  const share served{memory,
                     {.address = "10.9.9.1",
                      .port = 7000,
                      .rights = memopt::access::local_write | memopt::access::remote_write,
                      .offset = 4_KiB,
                      .length = 1_MiB,
                      .single_use = true,
                      .expires = std::chrono::seconds{2},
                      .max_connections = 3}};
  const memopt_share_create& asked = module.last_share;
  CHECK(asked.family == AF_INET);
  CHECK(std::memcmp(asked.addr, "\x0a\x09\x09\x01", 4) == 0);
  CHECK(asked.port == 7000);
  CHECK(asked.access == (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_WRITE));
  CHECK(asked.offset == 4_KiB);
  CHECK(asked.length == 1_MiB);
  CHECK(asked.flags == MEMOPT_SHARE_F_SINGLE_USE);
  CHECK(asked.expires_ms == 2000);
  CHECK(asked.max_connections == 3);
  CHECK(served.port() == 7000);
  CHECK(served.rkey() == 0x5678);
  CHECK(served.iova() == 0x400000);
  CHECK(served.token().to_hex() == "abababababababababababababababab");
}

TEST_CASE("no length means up to the end", "[share]") {
  fake_module module;
  const buffer memory = cma_memory(1_MiB);
  auto options = at("10.9.9.1");
  options.offset = 256_KiB;
  const share served{memory, options};
  CHECK(module.last_share.length == 768_KiB);
  CHECK(served.port() == 4791);
}

TEST_CASE("IPv6 addresses are understood, with their scope", "[share]") {
  fake_module module;
  const buffer memory = cma_memory();
  const share plain{memory, at("2001:db8::1")};
  CHECK(module.last_share.family == AF_INET6);
  in6_addr expected{};
  REQUIRE(inet_pton(AF_INET6, "2001:db8::1", &expected) == 1);
  CHECK(std::memcmp(module.last_share.addr, &expected, sizeof expected) == 0);
  CHECK(module.last_share.scope_id == 0);
  const share scoped{memory, at("fe80::1%lo")};
  CHECK(module.last_share.scope_id == 1);
  CHECK(refused(memory, at("fe80::1%no-such-link")) == reason::address_unavailable);
}

TEST_CASE("a share that can not be is refused without asking", "[share]") {
  fake_module module;
  const buffer memory = cma_memory(1_MiB);
  for (const char* address : {"", "localhost", "10.9.9", "10.9.9.1 ", "10.9.9.1%lo", "::1::"}) {
    INFO(address);
    CHECK(refused(memory, at(address)) == reason::invalid_argument);
  }
  const auto refused_with = [&](auto change) {
    share_options options = at("10.9.9.1");
    change(options);
    return refused(memory, options) == reason::invalid_argument;
  };
  CHECK(refused_with([](auto& o) { o.rights = memopt::access::remote_write; }));
  CHECK(refused_with([](auto& o) { o.offset = 2_MiB; }));
  CHECK(refused_with([](auto& o) {
    o.offset = 512_KiB;
    o.length = 1_MiB;
  }));
  CHECK(refused_with([](auto& o) {  // the end wraps around
    o.offset = 4_KiB;
    o.length = std::numeric_limits<std::size_t>::max();
  }));
  CHECK(refused_with([](auto& o) { o.expires = std::chrono::milliseconds{-1}; }));
  CHECK(
      refused_with([](auto& o) { o.expires = std::chrono::milliseconds{std::int64_t{1} << 32}; }));
  CHECK(refused(buffer{}, at("10.9.9.1")) == reason::invalid_argument);
  CHECK(refused(source{scheme::plain}.allocate(4_KiB), at("10.9.9.1")) == reason::invalid_argument);
  CHECK(module.last_share.size == 0);
  CHECK(module.open_files() == 1);
}

TEST_CASE("why the module refuses a share", "[share]") {
  fake_module module;
  const buffer memory = cma_memory();
  const std::map<int, reason> meaning{{EPERM, reason::permission},
                                      {EACCES, reason::permission},
                                      {EADDRNOTAVAIL, reason::address_unavailable},
                                      {ENODEV, reason::address_unavailable},
                                      {EADDRINUSE, reason::address_in_use},
                                      {EINVAL, reason::invalid_argument},
                                      {EOPNOTSUPP, reason::unsupported},
                                      {ENOSPC, reason::object_limit},
                                      {ENOMEM, reason::out_of_memory},
                                      {ENOTTY, reason::module_mismatch},
                                      {EIO, reason::unknown}};
  for (const auto& [errnum, why] : meaning) {
    INFO(errnum);
    module.fail[MEMOPT_CMD_SHARE_CREATE] = errnum;
    const auto tried = share::try_create(memory, at("10.9.9.1"));
    REQUIRE_FALSE(tried);
    CHECK(tried.error().reason() == why);
    CHECK_THAT(tried.error().what(), ContainsSubstring("10.9.9.1"));
  }
  CHECK(module.open_files() == 1);
}

TEST_CASE("what the module says of a share is passed on", "[share]") {
  fake_module module;
  const buffer memory = cma_memory();
  const share served{memory, at("10.9.9.1")};
  const share_info info = served.info();
  CHECK(info.connections == 2);
  CHECK(info.accepted == 5);
  CHECK(info.rejected == 7);
  CHECK(info.closed);
  CHECK_FALSE(info.device_gone);
  // The name has no end in the module's answer.
  CHECK(info.ibdev == std::string(MEMOPT_IBDEV_NAME_MAX - 1, 'x'));
}

TEST_CASE("revoking twice is fine, asking afterwards is an error", "[share]") {
  fake_module module;
  {
    const buffer memory = cma_memory();
    share served{memory, at("10.9.9.1")};
    CHECK(module.shares() == 1);
    served.revoke();
    CHECK(module.shares() == 0);
    CHECK(module.open_files() == 1);
    served.revoke();
    CHECK_THROWS_AS(served.info(), error);
  }
  CHECK(module.clean());
}

TEST_CASE("a share outlives its buffer, moves, and leaves nothing behind", "[share]") {
  fake_module module;
  {
    std::optional<buffer> memory{cma_memory()};
    share first{*memory, at("10.9.9.1")};
    share second{*memory, at("10.9.9.1")};
    memory.reset();
    CHECK(module.buffers() == 0);
    CHECK(module.shares() == 2);
    second = std::move(first);
    CHECK(module.shares() == 1);
    const share third{std::move(second)};
    CHECK(third.info().accepted == 5);
    CHECK(third.token().to_hex() == "abababababababababababababababab");
  }
  CHECK(module.clean());
}
