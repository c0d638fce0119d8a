// SPDX-License-Identifier: MIT
// Both ends of a share: bytes move, bounds and tokens hold, and a revoked key is dead.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/memopt.hpp>

#include "rdma_fixture.hpp"

using namespace memopt;
using namespace memopt::literals;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using memopt::test::fill_pattern;
using memopt::test::open_device;
using memopt::test::require_memory;

namespace {

constexpr memopt::access read_write =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

std::string test_address() {
  const char* wanted = std::getenv("MEMOPT_TEST_ADDRESS");
  return wanted != nullptr ? wanted : "10.9.9.1";
}

share_options serving(memopt::access rights = read_write) {
  share_options options;
  options.address = test_address();
  options.rights = rights;
  return options;
}

remote_options going_to(const share& served) {
  remote_options options;
  options.address = test_address();
  options.port = served.port();
  options.token = served.token();
  options.timeout = 10s;
  return options;
}

std::vector<std::byte> copy_of(const buffer& memory) {
  return {memory.bytes().begin(), memory.bytes().end()};
}

memory_region local_memory(const remote_buffer& peer, std::size_t length) {
  return {peer.local_device(), source{scheme::plain}.allocate(length), memopt::access::local_write};
}

reason refused(const remote_options& options) {
  const auto tried = remote_buffer::try_connect(options);
  REQUIRE_FALSE(tried);
  return tried.error().reason();
}

}  // namespace

TEST_CASE("a client writes and reads 1 MiB anywhere in 64 MiB", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 64_MiB);
  const buffer memory = source{scheme::cma}.allocate(64_MiB);
  const share served{memory, serving()};
  remote_buffer peer{going_to(served)};
  CHECK(peer.size() == 64_MiB);
  const memory_region out = local_memory(peer, 1_MiB);
  const memory_region in = local_memory(peer, 1_MiB);

  std::vector<std::byte> expected = copy_of(memory);
  std::mt19937_64 random{20240601};
  for (unsigned round = 0; round < 8; ++round) {
    const std::size_t offset = random() % (63_MiB + 1);
    INFO("offset " << offset);
    fill_pattern(out.memory().bytes(), round);
    peer.write(out, out.addr(), 1_MiB, offset);
    std::memcpy(expected.data() + offset, out.addr(), 1_MiB);
    peer.read(in, in.addr(), 1_MiB, offset);
    CHECK(std::memcmp(in.addr(), out.addr(), 1_MiB) == 0);
  }
  // Where nothing was written nothing has changed.
  CHECK(std::memcmp(memory.data(), expected.data(), expected.size()) == 0);
  const share_info info = served.info();
  CHECK(info.accepted == 1);
  CHECK(info.entries <= 32);
  CHECK(info.length == 64_MiB);
}

TEST_CASE("what the serving side writes the client reads", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::contig, 1_MiB);
  const buffer memory = source{scheme::contig}.allocate(1_MiB);
  fill_pattern(memory.bytes(), 9);
  const share served{memory, serving(memopt::access::remote_read)};
  remote_buffer peer{going_to(served)};
  const memory_region in = local_memory(peer, 64_KiB);
  peer.read(in, in.addr(), 64_KiB, 4097);
  CHECK(std::memcmp(in.addr(), memory.bytes().data() + 4097, 64_KiB) == 0);
  // Rights are those of the share.
  const auto tried = peer.try_write(in, in.addr(), 64, 0);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::access_denied);
}

TEST_CASE("a client is kept inside a share of part of a buffer", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  fill_pattern(memory.bytes(), 4);
  auto options = serving();
  options.offset = 256_KiB;
  options.length = 64_KiB;
  const share served{memory, options};
  remote_buffer peer{going_to(served)};
  CHECK(peer.size() == 64_KiB);
  const memory_region mr = local_memory(peer, 128_KiB);
  const std::vector<std::byte> before = copy_of(memory);
  peer.read(mr, mr.addr(), 64_KiB, 0);
  CHECK(std::memcmp(mr.addr(), before.data() + 256_KiB, 64_KiB) == 0);
  const auto tried = peer.try_write(mr, mr.addr(), 64, 64_KiB - 32);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::access_denied);
  CHECK(copy_of(memory) == before);
}

TEST_CASE("a wrong token is turned away and counted", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  const share served{memory, serving()};
  auto wrong = going_to(served);
  wrong.token.bytes[7] ^= 1;
  const auto tried = remote_buffer::try_connect(wrong);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::rejected);
  CHECK_THAT(tried.error().what(), ContainsSubstring("token"));
  CHECK(served.info().rejected == 1);
  CHECK(served.info().accepted == 0);
  CHECK(remote_buffer{going_to(served)}.connected());
}

TEST_CASE("a token for single use admits one peer", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  auto options = serving();
  options.single_use = true;
  const share served{memory, options};
  const remote_buffer first{going_to(served)};
  CHECK(first.connected());
  CHECK(refused(going_to(served)) == reason::rejected);
}

TEST_CASE("a share takes as many peers as it was told", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  auto options = serving();
  options.max_connections = 2;
  const share served{memory, options};
  const remote_buffer first{going_to(served)};
  const remote_buffer second{going_to(served)};
  const auto tried = remote_buffer::try_connect(going_to(served));
  REQUIRE_FALSE(tried);
  CHECK_THAT(tried.error().what(), ContainsSubstring("as many peers"));
  CHECK(served.info().connections == 2);
}

TEST_CASE("after revoke a peer gets an error and changes no byte", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 4_MiB);
  const buffer memory = source{scheme::cma}.allocate(4_MiB);
  share served{memory, serving()};
  const auto options = going_to(served);
  remote_buffer peer{options};
  const memory_region mr = local_memory(peer, 64_KiB);
  fill_pattern(mr.memory().bytes(), 11);
  peer.write(mr, mr.addr(), 64_KiB, 0);
  served.revoke();
  std::ranges::fill(memory.bytes(), std::byte{0x5a});

  const auto tried = peer.try_write(mr, mr.addr(), 64_KiB, 0);
  REQUIRE_FALSE(tried);
  const reason why = tried.error().reason();
  CHECK(
      (why == reason::access_denied || why == reason::disconnected || why == reason::unreachable));
  CHECK_FALSE(peer.connected());
  CHECK(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0x5a}; }));
  // Nobody listens there any more.
  const reason later = refused(options);
  CHECK((later == reason::rejected || later == reason::unreachable));
}

TEST_CASE("a share outlives its buffer, and its memory is not reused meanwhile", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  buffer memory = source{scheme::cma}.allocate(1_MiB);
  fill_pattern(memory.bytes(), 21);
  const std::vector<std::byte> before = copy_of(memory);
  const share served{memory, serving()};
  memory = buffer{};
  remote_buffer peer{going_to(served)};
  const memory_region mr = local_memory(peer, 1_MiB);
  peer.read(mr, mr.addr(), 1_MiB, 0);
  CHECK(std::memcmp(mr.addr(), before.data(), 1_MiB) == 0);
}

TEST_CASE("addresses that can not be listened on are told apart", "[share][rdma]") {
  (void)open_device();
  require_memory(scheme::cma, 1_MiB);
  const buffer memory = source{scheme::cma}.allocate(1_MiB);
  auto options = serving();
  const share served{memory, options};
  options.port = served.port();
  const auto taken = share::try_create(memory, options);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().reason() == reason::address_in_use);
  options.port = 0;
  options.address = "192.0.2.77";
  const auto foreign = share::try_create(memory, options);
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().reason() == reason::address_unavailable);
  options.address = "0.0.0.0";
  const auto wildcard = share::try_create(memory, options);
  REQUIRE_FALSE(wildcard);
  CHECK(wildcard.error().reason() == reason::invalid_argument);
}
