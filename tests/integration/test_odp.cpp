// SPDX-License-Identifier: MIT
// The loopback queue pair and the ODP probe on a real device.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/memopt.hpp>

#include "detail/loopback_qp.hpp"
#include "rdma_fixture.hpp"

using namespace memopt;
using namespace memopt::literals;
using Catch::Matchers::ContainsSubstring;
using memopt::detail::loopback_qp;
using memopt::detail::loopback_request;
using memopt::test::fill_pattern;
using memopt::test::open_device;

namespace {

constexpr memopt::access all_rights =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

loopback_request request(loopback_request::kind what, const memory_region& local,
                         const memory_region& remote, std::size_t offset, std::size_t length) {
  return {what,          reinterpret_cast<std::uintptr_t>(local.addr()) + offset,
          local.lkey(),  remote.iova() + offset,
          remote.rkey(), static_cast<std::uint32_t>(length)};
}

template <typename Action>
reason reason_of(Action&& action) {
  try {
    action();
  } catch (const error& failure) {
    return failure.reason();
  }
  FAIL("nothing was thrown");
  return reason::unknown;
}

}  // namespace

TEST_CASE("a loopback queue pair moves exactly the bytes asked for", "[loopback][rdma]") {
  const device dev = open_device();
  const source plain{scheme::plain};
  const memory_region a{dev, plain.allocate(1_MiB), all_rights};
  const memory_region b{dev, plain.allocate(1_MiB), all_rights};
  loopback_qp qp{dev};

  fill_pattern(a.memory().bytes(), 1);
  qp.execute(request(loopback_request::kind::write, a, b, 4097, 300001));
  const auto written = b.memory().bytes();
  CHECK(
      std::ranges::equal(written.subspan(4097, 300001), a.memory().bytes().subspan(4097, 300001)));
  CHECK(std::ranges::all_of(written.first(4097), [](std::byte x) { return x == std::byte{0}; }));
  CHECK(std::ranges::all_of(written.subspan(4097 + 300001),
                            [](std::byte x) { return x == std::byte{0}; }));

  fill_pattern(b.memory().bytes(), 2);
  qp.execute(request(loopback_request::kind::read, a, b, 0, 1_MiB));
  CHECK(std::ranges::equal(a.memory().bytes(), b.memory().bytes()));
}

TEST_CASE("a loopback queue pair holds as many requests as its depth", "[loopback][rdma]") {
  const device dev = open_device();
  const source plain{scheme::plain};
  const memory_region a{dev, plain.allocate(64_KiB), all_rights};
  const memory_region b{dev, plain.allocate(64_KiB), all_rights};
  loopback_qp qp{dev, {.depth = 4, .timeout = std::chrono::milliseconds{20000}}};
  fill_pattern(a.memory().bytes(), 3);
  for (std::size_t i = 0; i < 4; ++i) {
    qp.post(request(loopback_request::kind::write, a, b, i * 16_KiB, 16_KiB));
  }
  CHECK(reason_of([&] { qp.post(request(loopback_request::kind::write, a, b, 0, 1)); }) ==
        reason::invalid_argument);
  qp.wait(4);
  CHECK(std::ranges::equal(a.memory().bytes(), b.memory().bytes()));
  CHECK(reason_of([&] { qp.wait(1); }) == reason::invalid_argument);
}

TEST_CASE("a wrong key ends a loopback queue pair with access_denied", "[loopback][rdma]") {
  const device dev = open_device();
  const source plain{scheme::plain};
  const memory_region a{dev, plain.allocate(4_KiB), all_rights};
  const memory_region read_only{dev, plain.allocate(4_KiB), memopt::access::remote_read};
  loopback_qp qp{dev};
  const auto write = request(loopback_request::kind::write, a, read_only, 0, 64);
  fill_pattern(a.memory().bytes(), 4);
  CHECK(reason_of([&] { qp.execute(write); }) == reason::access_denied);
  CHECK(std::ranges::all_of(read_only.memory().bytes(),
                            [](std::byte x) { return x == std::byte{0}; }));
  CHECK(reason_of([&] { qp.execute(write); }) == reason::disconnected);
}

TEST_CASE("the probe gives the right verdict on the device's on-demand paging", "[odp][rdma]") {
  const device dev = open_device();
  const auto verdict = probe_odp(dev);
  if (!dev.capabilities().odp_advertised) {
    REQUIRE_FALSE(verdict);
    CHECK(verdict.error().reason() == reason::no_odp);
    return;
  }
  // MEMOPT_ODP_WORKS is set where a driver without the fault of stock rxe runs.
  if (std::getenv("MEMOPT_ODP_WORKS") != nullptr) {
    INFO((verdict ? std::string{} : std::string{verdict.error().what()}));
    REQUIRE(verdict);
    return;
  }
  REQUIRE_FALSE(verdict);
  INFO(verdict.error().what());
  CHECK(verdict.error().reason() == reason::odp_unreliable);
  CHECK_THAT(verdict.error().what(), ContainsSubstring("bytes wrong inside"));
}

TEST_CASE("the probe's answer is kept and bars registration", "[odp][rdma]") {
  const device dev = open_device();
  const auto first = probe_odp(dev);
  const device again = open_device();
  const auto second = probe_odp(again);
  REQUIRE(first.has_value() == second.has_value());
  const buffer memory = source{scheme::plain}.allocate(64_KiB);
  auto mr = try_register_on_demand(dev, memory.data(), memory.size(), all_rights);
  REQUIRE(mr.has_value() == first.has_value());
  if (!first) {
    CHECK(std::string_view{first.error().what()} == second.error().what());
    CHECK(mr.error().reason() == first.error().reason());
    CHECK(reason_of([&] {
            (void)register_on_demand(dev, memory.data(), memory.size(), all_rights);
          }) == first.error().reason());
    return;
  }
  CHECK(mr->length() == memory.size());
  CHECK(mr->addr() == memory.data());
}

TEST_CASE("impossible on-demand registrations are refused before any probe", "[odp][rdma]") {
  const device dev = open_device();
  const buffer memory = source{scheme::plain}.allocate(4_KiB);
  const auto why = [&](void* address, std::size_t length, memopt::access rights) {
    const auto mr = try_register_on_demand(dev, address, length, rights);
    REQUIRE_FALSE(mr);
    return mr.error().reason();
  };
  CHECK(why(nullptr, 4_KiB, all_rights) == reason::invalid_argument);
  CHECK(why(memory.data(), 0, all_rights) == reason::invalid_argument);
  CHECK(why(memory.data(), ~std::size_t{0}, all_rights) == reason::invalid_argument);
  CHECK(why(memory.data(), 4_KiB, memopt::access::remote_write) == reason::invalid_argument);
}
