// SPDX-License-Identifier: MIT
// The words that client and share exchange, byte by byte, and what a client refuses beforehand.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/remote_buffer.hpp>

#include "detail/connection.hpp"
#include "expect.hpp"

using namespace memopt;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using memopt::detail::describe_refusal;
using memopt::detail::make_hello;
using memopt::detail::parse_grant;
using memopt::test::reason_of;

namespace {

using bytes = std::vector<std::uint8_t>;

void append(bytes& to, std::uint64_t value, unsigned width) {
  for (unsigned shift = width; shift-- > 0;) {
    to.push_back(static_cast<std::uint8_t>(value >> (8 * shift)));
  }
}

struct grant_fields {
  std::uint32_t magic = 0x4d454d4f;
  std::uint16_t protocol = 1;
  std::uint32_t rkey = 0x11223344;
  std::uint32_t rights = MEMOPT_ACCESS_REMOTE_READ;
  std::uint64_t iova = 0x200000;
  std::uint64_t length = 0x4000000;
};

bytes grant_on_wire(const grant_fields& fields) {
  bytes wire;
  append(wire, fields.magic, 4);
  append(wire, fields.protocol, 2);
  append(wire, 0, 2);
  append(wire, fields.rkey, 4);
  append(wire, fields.rights, 4);
  append(wire, fields.iova, 8);
  append(wire, fields.length, 8);
  return wire;
}

bytes refusal_on_wire(std::uint16_t why, std::uint32_t magic = 0x4d454d4f,
                      std::uint16_t protocol = 1) {
  bytes wire;
  append(wire, magic, 4);
  append(wire, protocol, 2);
  append(wire, why, 2);
  return wire;
}

result<detail::grant> parsed(const grant_fields& fields) {
  const bytes wire = grant_on_wire(fields);
  return parse_grant(wire.data(), wire.size());
}

std::string described(const bytes& wire) { return describe_refusal(wire.data(), wire.size()); }

}  // namespace

TEST_CASE("a hello is 24 bytes in network order", "[connection]") {
  share_token token;
  for (std::size_t i = 0; i < token.bytes.size(); ++i) {
    token.bytes[i] = static_cast<std::uint8_t>(0xf0 + i);
  }
  const memopt_share_hello hello = make_hello(token);
  bytes expected;
  append(expected, 0x4d454d4f, 4);
  append(expected, 1, 2);
  append(expected, 0, 2);
  expected.insert(expected.end(), token.bytes.begin(), token.bytes.end());
  REQUIRE(expected.size() == sizeof hello);
  CHECK(std::memcmp(&hello, expected.data(), sizeof hello) == 0);
}

TEST_CASE("a grant is read from network order", "[connection]") {
  const auto got = parsed({});
  REQUIRE(got);
  CHECK(got->rkey == 0x11223344);
  CHECK(got->iova == 0x200000);
  CHECK(got->length == 0x4000000);
  CHECK(got->rights == memopt::access::remote_read);
}

TEST_CASE("a grant's rights are those of a peer", "[connection]") {
  const auto all = parsed({.rights = MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_READ |
                                     MEMOPT_ACCESS_REMOTE_WRITE | MEMOPT_ACCESS_REMOTE_ATOMIC});
  REQUIRE(all);
  CHECK(all->rights == (memopt::access::remote_read | memopt::access::remote_write |
                        memopt::access::remote_atomic));
  const auto newer = parsed({.rights = 0x80000000U});
  REQUIRE(newer);
  CHECK(newer->rights == memopt::access::local_read);
}

TEST_CASE("a grant may have more behind it, as verbs pad it", "[connection]") {
  bytes wire = grant_on_wire({});
  wire.resize(196);
  CHECK(parse_grant(wire.data(), wire.size()));
  CHECK_FALSE(parse_grant(wire.data(), 31));
  CHECK_FALSE(parse_grant(nullptr, 0));
}

TEST_CASE("an answer that is no sound grant is refused", "[connection]") {
  CHECK_FALSE(parsed({.magic = 0x4d454d4e}));
  CHECK_FALSE(parsed({.protocol = 2}));
  CHECK_FALSE(parsed({.length = 0}));
  // The range must not wrap: offsets are added to it.
  CHECK_FALSE(parsed({.iova = 0xfffffffffffff000, .length = 0x2000}));
  const auto failure = parsed({.protocol = 2});
  REQUIRE_FALSE(failure);
  CHECK(failure.error().reason() == reason::unsupported);
}

TEST_CASE("a refusal says why", "[connection]") {
  CHECK_THAT(described(refusal_on_wire(MEMOPT_REFUSAL_TOKEN)), ContainsSubstring("token"));
  CHECK_THAT(described(refusal_on_wire(MEMOPT_REFUSAL_BUSY)), ContainsSubstring("peers"));
  CHECK_THAT(described(refusal_on_wire(MEMOPT_REFUSAL_INTERNAL)), ContainsSubstring("resources"));
  CHECK_THAT(described(refusal_on_wire(MEMOPT_REFUSAL_MALFORMED, 0x4d454d4f, 9)),
             ContainsSubstring("protocol 9"));
  CHECK_THAT(described(refusal_on_wire(99)), ContainsSubstring("does not know"));
}

TEST_CASE("a refusal by something else is recognised", "[connection]") {
  const std::string nothing = describe_refusal(nullptr, 0);
  CHECK_THAT(nothing, ContainsSubstring("is a share listening"));
  CHECK(described(refusal_on_wire(MEMOPT_REFUSAL_TOKEN, 0)) == nothing);
  bytes cut = refusal_on_wire(MEMOPT_REFUSAL_TOKEN);
  cut.pop_back();
  CHECK(described(cut) == nothing);
}

TEST_CASE("a client checks its options before it goes out", "[connection]") {
  const auto connecting = [](std::uint16_t port, std::chrono::milliseconds timeout) {
    return reason_of([&] {
      const remote_buffer peer{
          {.address = "127.0.0.1", .port = port, .token = {}, .timeout = timeout}};
    });
  };
  CHECK(connecting(0, 1s) == reason::invalid_argument);
  CHECK(connecting(1, 0ms) == reason::invalid_argument);
  CHECK(connecting(1, -1ms) == reason::invalid_argument);
  CHECK(connecting(1, 25h) == reason::invalid_argument);
  CHECK(connecting(1, std::chrono::milliseconds::max()) == reason::invalid_argument);
}
