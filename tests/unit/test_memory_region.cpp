// SPDX-License-Identifier: MIT
// Memory regions over a registration that is made up: who owns what, and what is refused.

#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <infiniband/verbs.h>

#include <memopt/memory_region.hpp>
#include <memopt/source.hpp>
#include <memopt/units.hpp>

#include "detail/device_state.hpp"
#include "detail/system_calls.hpp"
#include "expect.hpp"

using namespace memopt;
using namespace memopt::literals;
using Catch::Matchers::ContainsSubstring;
using memopt::test::error_of;
using memopt::test::reason_of;

namespace {

constexpr memopt::access all_rights = memopt::access::local_write | memopt::access::remote_read |
                                      memopt::access::remote_write | memopt::access::remote_atomic;

/// Gives keys, keeps count, and fails when told to. One at a time.
class fake_verbs {
 public:
  fake_verbs() : saved_{detail::sys()} {
    reg_errno = dereg_errno = live = flags = 0;
    detail::sys().reg_mr = [](ibv_pd*, void* address, std::size_t length, int wanted) -> ibv_mr* {
      flags = wanted;
      if (reg_errno != 0) {
        errno = reg_errno > 0 ? reg_errno : 0;
        return nullptr;
      }
      auto mr = std::make_unique<ibv_mr>();
      mr->addr = address;
      mr->length = length;
      mr->lkey = 0x111;
      mr->rkey = 0x222;
      ++live;
      return mr.release();
    };
    detail::sys().dereg_mr = [](ibv_mr* mr) {
      if (dereg_errno != 0) {
        return dereg_errno;
      }
      delete mr;
      --live;
      return 0;
    };
  }
  fake_verbs(const fake_verbs&) = delete;
  fake_verbs& operator=(const fake_verbs&) = delete;
  ~fake_verbs() { detail::sys() = saved_; }

  [[nodiscard]] static device dev(std::uint64_t max_mr_size = ~std::uint64_t{0}) {
    auto state = std::make_shared<detail::device_state>();
    state->name = "fake0";
    state->capabilities.max_mr_size = max_mr_size;
    return detail::device_access::make(std::move(state));
  }

  static inline int reg_errno;  ///< -1: fails without setting errno
  static inline int dereg_errno;
  static inline int live;
  static inline int flags;

 private:
  detail::system_calls saved_;
};

}  // namespace

TEST_CASE("a region has the memory, the keys and the rights it was made with", "[memory_region]") {
  const fake_verbs verbs;
  buffer memory = source{scheme::plain}.allocate(5000);
  void* address = memory.data();
  {
    const memory_region mr{fake_verbs::dev(), std::move(memory), all_rights};
    CHECK(mr.addr() == address);
    CHECK(mr.length() == 5000);
    CHECK(mr.lkey() == 0x111);
    CHECK(mr.rkey() == 0x222);
    CHECK(mr.iova() == reinterpret_cast<std::uintptr_t>(address));
    CHECK(mr.rights() == all_rights);
    CHECK(mr.memory().data() == address);
    CHECK(fake_verbs::live == 1);
  }
  CHECK(fake_verbs::live == 0);
}

TEST_CASE("rights reach verbs one by one", "[memory_region]") {
  const fake_verbs verbs;
  const device dev = fake_verbs::dev();
  std::byte memory[64];
  const auto flags_of = [&](memopt::access rights) {
    const memory_region mr{dev, memory, sizeof memory, rights};
    return fake_verbs::flags;
  };
  CHECK(flags_of(memopt::access::local_read) == 0);
  CHECK(flags_of(memopt::access::local_write) == IBV_ACCESS_LOCAL_WRITE);
  CHECK(flags_of(memopt::access::remote_read) == IBV_ACCESS_REMOTE_READ);
  CHECK(flags_of(memopt::access::local_write | memopt::access::remote_write) ==
        (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  CHECK(flags_of(memopt::access::local_write | memopt::access::remote_atomic) ==
        (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
}

TEST_CASE("a registration that can not be is refused before verbs", "[memory_region]") {
  const fake_verbs verbs;
  fake_verbs::flags = -1;
  device dev = fake_verbs::dev();
  std::byte memory[64];
  const auto refused = [&](void* address, std::size_t length, memopt::access rights) {
    return reason_of([&] {
             const memory_region mr{dev, address, length, rights};
           }) == reason::invalid_argument;
  };
  CHECK(refused(nullptr, 64, all_rights));
  CHECK(refused(memory, 0, all_rights));
  CHECK(refused(memory, std::numeric_limits<std::size_t>::max(), all_rights));
  CHECK(refused(memory, 64, memopt::access::remote_write));
  CHECK(refused(memory, 64, memopt::access::remote_atomic | memopt::access::remote_read));
  CHECK(reason_of([&] {
          const memory_region mr{dev, buffer{}, all_rights};
        }) == reason::invalid_argument);
  const device taken = std::move(dev);
  CHECK(refused(memory, 64, all_rights));
  CHECK(fake_verbs::flags == -1);
}

TEST_CASE("a failure is explained and leaves the buffer to the caller", "[memory_region]") {
  const fake_verbs verbs;
  const device dev = fake_verbs::dev(4_KiB);
  buffer memory = source{scheme::plain}.allocate(64_KiB);
  memory.bytes().back() = std::byte{7};
  fake_verbs::reg_errno = EINVAL;
  const auto tried = memory_region::try_register(dev, std::move(memory), all_rights);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::device_limit);
  CHECK_THAT(tried.error().what(), ContainsSubstring("65536 bytes on fake0"));
  REQUIRE(memory.size() == 64_KiB);
  CHECK(memory.bytes().back() == std::byte{7});

  fake_verbs::reg_errno = 0;
  CHECK(memory_region::try_register(dev, std::move(memory), all_rights));
  CHECK_FALSE(memory);
  CHECK(fake_verbs::live == 0);
}

TEST_CASE("a provider that sets no errno does not look like success", "[memory_region]") {
  const fake_verbs verbs;
  std::byte memory[64];
  fake_verbs::reg_errno = -1;
  const error failure = error_of([&] {
    const memory_region mr{fake_verbs::dev(), memory, sizeof memory, all_rights};
  });
  CHECK(failure.code().value() != 0);
}

TEST_CASE("release gives the buffer back, unless verbs refuse", "[memory_region]") {
  const fake_verbs verbs;
  buffer memory = source{scheme::plain}.allocate(4_KiB);
  const void* address = memory.data();
  memory_region mr{fake_verbs::dev(), std::move(memory), all_rights};
  fake_verbs::dereg_errno = EBUSY;
  const error failure = error_of([&] { (void)mr.release(); });
  CHECK_THAT(failure.what(), ContainsSubstring("memory window"));
  CHECK(mr);
  CHECK(mr.memory().data() == address);

  fake_verbs::dereg_errno = 0;
  const buffer back = mr.release();
  CHECK(back.data() == address);
  CHECK_FALSE(mr);
  CHECK(mr.addr() == nullptr);
  CHECK(mr.length() == 0);
  CHECK(mr.lkey() == 0);
  CHECK(fake_verbs::live == 0);
  // Nothing is left to release.
  CHECK_FALSE(mr.release());
}

TEST_CASE("a region moves, and what it replaces is deregistered", "[memory_region]") {
  const fake_verbs verbs;
  const device dev = fake_verbs::dev();
  const source plain{scheme::plain};
  memory_region first{dev, plain.allocate(4_KiB), all_rights};
  memory_region second{dev, plain.allocate(8_KiB), memopt::access::remote_read};
  void* address = first.addr();
  second = std::move(first);
  CHECK(fake_verbs::live == 1);
  CHECK(second.addr() == address);
  CHECK(second.rights() == all_rights);
  const memory_region third{std::move(second)};
  CHECK(fake_verbs::live == 1);
  CHECK(third.memory().data() == address);
}

TEST_CASE("a region keeps its device", "[memory_region]") {
  const fake_verbs verbs;
  std::weak_ptr<detail::device_state> watched;
  std::byte memory[64];
  {
    memory_region mr{fake_verbs::dev(), memory, sizeof memory, all_rights};
    device dev = fake_verbs::dev();
    watched = dev.state();
    mr = memory_region{dev, memory, sizeof memory, all_rights};
    dev = fake_verbs::dev();
    CHECK_FALSE(watched.expired());
    CHECK_FALSE(mr.release());
    CHECK(watched.expired());
  }
}
