// SPDX-License-Identifier: MIT
// The pool with registration replaced by a counter: what is handed out, what is refused, and what
// is kept in step when something fails.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <infiniband/verbs.h>

#include <memopt/pool.hpp>
#include <memopt/units.hpp>

#include "detail/device_state.hpp"
#include "detail/system_calls.hpp"
#include "pool_slab.hpp"

using namespace memopt;
using namespace memopt::literals;

namespace {

/// Registers nothing, but gives keys and keeps count. One at a time.
class fake_registration {
 public:
  fake_registration() : saved_{detail::sys()} {
    live_ = 0;
    made_ = 0;
    fail_after_ = -1;
    detail::sys().reg_mr = &reg_mr;
    detail::sys().dereg_mr = &dereg_mr;
  }
  fake_registration(const fake_registration&) = delete;
  fake_registration& operator=(const fake_registration&) = delete;
  ~fake_registration() { detail::sys() = saved_; }

  [[nodiscard]] device dev() const {
    auto state = std::make_shared<detail::device_state>();
    state->name = "fake0";
    state->capabilities.max_mr_size = ~std::uint64_t{0};
    state->capabilities.page_size_cap = ~std::uint64_t{0};
    state->capabilities.max_mr = 1U << 20;
    return detail::device_access::make(std::move(state));
  }
  [[nodiscard]] int live() const { return live_; }
  [[nodiscard]] int made() const { return made_; }
  /// Let so many registrations succeed from now on, then none.
  void fail_after(int successes) { fail_after_ = successes; }
  void never_fail() { fail_after_ = -1; }

 private:
  static ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int) {
    if (fail_after_ == 0) {
      errno = EMFILE;
      return nullptr;
    }
    if (fail_after_ > 0) {
      --fail_after_;
    }
    auto mr = std::make_unique<ibv_mr>();
    mr->pd = pd;
    mr->addr = address;
    mr->length = length;
    // Keys as soft RoCE makes them: an index and some random low bits.
    mr->lkey = static_cast<std::uint32_t>(++made_ << 8) | 0x5a;
    mr->rkey = mr->lkey ^ 0xff;
    ++live_;
    return mr.release();
  }
  static int dereg_mr(ibv_mr* mr) {
    delete mr;
    --live_;
    return 0;
  }

  static inline std::atomic<int> live_;
  static inline std::atomic<int> made_;
  static inline std::atomic<int> fail_after_;
  detail::system_calls saved_;
};

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

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

TEST_CASE("a pool registers its bytes at once, in whole slabs", "[pool]") {
  const fake_registration fake;
  {
    const pool blocks{fake.dev(), {.bytes = 200_KiB, .slab = 64_KiB}};
    CHECK(fake.made() == 4);
    CHECK(blocks.statistics().registered == 256_KiB);
    CHECK(blocks.statistics().registrations == 4);
    CHECK(blocks.max_block() == 64_KiB);
  }
  CHECK(fake.live() == 0);
}

TEST_CASE("a block has the smallest size class that holds it", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 1_MiB, .slab = 64_KiB}};
  const std::map<std::size_t, std::size_t> classes{{1, 256},     {256, 256},   {257, 512},
                                                   {4096, 4096}, {4097, 8192}, {64_KiB, 64_KiB}};
  for (const auto& [asked, given] : classes) {
    const block b = blocks.get(asked);
    CHECK(b.length == given);
    CHECK(number(b.address) % std::min<std::size_t>(given, 4096) == 0);
    CHECK(b.lkey != 0);
    CHECK(b.rkey == (b.lkey ^ 0xff));
  }
  CHECK(reason_of([&] { (void)blocks.get(0); }) == reason::invalid_argument);
  CHECK(reason_of([&] { (void)blocks.get(64_KiB + 1); }) == reason::invalid_argument);
  CHECK(reason_of([&] { (void)blocks.get(SIZE_MAX); }) == reason::invalid_argument);
}

TEST_CASE("blocks handed out at a time never overlap", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 1_MiB, .slab = 64_KiB}};
  std::mt19937 random{3};
  std::map<std::uintptr_t, block> held;
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || random() % 2 == 0) {
      const auto got = blocks.try_get(1 + random() % 16384);
      if (!got) {
        REQUIRE(got.error().reason() == reason::pool_exhausted);
        continue;
      }
      const auto begin = number(got->address);
      const auto next = held.lower_bound(begin);
      REQUIRE((next == held.end() || begin + got->length <= next->first));
      REQUIRE((next == held.begin() ||
               std::prev(next)->first + std::prev(next)->second.length <= begin));
      held.emplace(begin, *got);
    } else {
      const auto at = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      blocks.put(at->second);
      held.erase(at);
    }
  }
  std::size_t bytes = 0;
  for (const auto& [at, b] : held) {
    bytes += b.length;
  }
  const auto seen = blocks.statistics();
  CHECK(seen.in_use == bytes);
  CHECK(seen.gets - seen.puts == held.size());
  CHECK(fake.made() == 16);
}

TEST_CASE("every byte of a slab can be handed out, and again after it came back", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .slab = 64_KiB}};
  for (int round = 0; round < 2; ++round) {
    std::vector<block> held;
    std::set<void*> addresses;
    for (int i = 0; i < 256; ++i) {
      held.push_back(blocks.get(256));
      addresses.insert(held.back().address);
    }
    CHECK(addresses.size() == 256);
    CHECK(blocks.statistics().in_use == 64_KiB);
    CHECK(reason_of([&] { (void)blocks.get(256); }) == reason::pool_exhausted);
    for (const block& b : held) {
      blocks.put(b);
    }
  }
  CHECK(blocks.statistics().exhausted == 2);
  CHECK(blocks.statistics().in_use == 0);
}

TEST_CASE("a slab stays in its size class", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .slab = 64_KiB}};
  blocks.put(blocks.get(256));
  CHECK(reason_of([&] { (void)blocks.get(4096); }) == reason::pool_exhausted);
  CHECK_NOTHROW(blocks.put(blocks.get(256)));
}

TEST_CASE("a pool grows up to its limit and no further", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .limit = 200_KiB, .slab = 64_KiB}};
  CHECK(fake.made() == 1);
  for (int i = 0; i < 3; ++i) {
    (void)blocks.get(64_KiB);
    CHECK(fake.made() == i + 1);
  }
  const auto refused = blocks.try_get(64_KiB);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() == reason::pool_exhausted);
  CHECK(fake.made() == 3);
}

TEST_CASE("a limit that means everything costs nothing", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .limit = SIZE_MAX, .slab = 64_KiB}};
  std::vector<block> held;
  for (int i = 0; i < 100; ++i) {
    held.push_back(blocks.get(64_KiB));
  }
  CHECK(fake.made() == 100);
  for (const block& b : held) {
    blocks.put(b);
  }
  CHECK(blocks.statistics().in_use == 0);
}

TEST_CASE("a second put of a block is refused and changes nothing", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .slab = 64_KiB}};
  const block first = blocks.get(1024);
  const block second = blocks.get(1024);
  blocks.put(first);
  CHECK(reason_of([&] { blocks.put(first); }) == reason::invalid_argument);
  CHECK(blocks.statistics().puts == 1);
  CHECK(blocks.statistics().in_use == 1024);
  blocks.put(second);
  CHECK(reason_of([&] { blocks.put(first); }) == reason::invalid_argument);
  CHECK(blocks.get(1024).address != blocks.get(1024).address);
}

TEST_CASE("what is not a block of this pool is refused", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 128_KiB, .slab = 64_KiB}};
  pool others{fake.dev(), {.bytes = 64_KiB, .slab = 64_KiB}};
  const block good = blocks.get(1024);
  const auto refused = [&blocks](block b) {
    return reason_of([&] { blocks.put(b); }) == reason::invalid_argument;
  };
  CHECK(refused(block{}));
  CHECK(refused(others.get(1024)));
  const auto altered = [&good](auto change) {
    block b = good;
    change(b);
    return b;
  };
  CHECK(refused(altered([](block& b) { b.length = 2048; })));
  CHECK(refused(altered([](block& b) { b.rkey ^= 1; })));
  CHECK(refused(altered([](block& b) { b.lkey ^= 1; })));
  CHECK(refused(altered([](block& b) { b.address = static_cast<std::byte*>(b.address) + 1; })));
  // A place in the slab that was never handed out, and places outside.
  CHECK(refused(altered([](block& b) { b.address = static_cast<std::byte*>(b.address) + 1024; })));
  CHECK(refused(altered([](block& b) { b.address = static_cast<std::byte*>(b.address) - 1024; })));
  CHECK(refused(altered([](block& b) { b.address = static_cast<std::byte*>(b.address) + 1_MiB; })));
  CHECK(blocks.statistics().in_use == 1024);
  CHECK_NOTHROW(blocks.put(good));
}

TEST_CASE("a pool that can not be filled leaves no registration", "[pool]") {
  fake_registration fake;
  fake.fail_after(2);
  CHECK_THROWS_AS((pool{fake.dev(), {.bytes = 256_KiB, .slab = 64_KiB}}), error);
  CHECK(fake.live() == 0);
}

TEST_CASE("growing that fails leaves the pool as it was", "[pool]") {
  fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .limit = 1_MiB, .slab = 64_KiB}};
  const block held = blocks.get(64_KiB);
  fake.fail_after(0);
  const auto refused = blocks.try_get(64_KiB);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() != reason::pool_exhausted);
  CHECK(refused.error().code().value() == EMFILE);
  CHECK(blocks.statistics().registrations == 1);
  CHECK(blocks.statistics().gets == 1);
  fake.never_fail();
  const block other = blocks.get(64_KiB);
  CHECK(other.address != held.address);
  CHECK(fake.live() == 2);
}

TEST_CASE("impossible pools are refused", "[pool]") {
  const fake_registration fake;
  const device dev = fake.dev();
  const auto why = [&dev](const pool_options& options) {
    return reason_of([&] { const pool blocks{dev, options}; });
  };
  CHECK(why({.bytes = 0}) == reason::invalid_argument);
  CHECK(why({.bytes = 1_MiB, .slab = 0}) == reason::invalid_argument);
  CHECK(why({.bytes = 1_MiB, .slab = 32_KiB}) == reason::invalid_argument);
  CHECK(why({.bytes = 1_MiB, .slab = 96_KiB}) == reason::invalid_argument);
  CHECK(why({.bytes = 1_MiB, .slab = std::size_t{1} << 60}) == reason::invalid_argument);
  CHECK(why({.bytes = 1_MiB, .limit = 512_KiB, .slab = 64_KiB}) == reason::invalid_argument);
  CHECK(why({.bytes = 64_KiB, .slab = 64_KiB, .rights = memopt::access::remote_write}) ==
        reason::invalid_argument);
  CHECK(fake.made() == 0);
}

TEST_CASE("a pool moved from refuses politely", "[pool]") {
  const fake_registration fake;
  pool from{fake.dev(), {.bytes = 64_KiB, .slab = 64_KiB}};
  const block held = from.get(256);
  pool to{std::move(from)};
  CHECK(to.statistics().in_use == 256);
  to.put(held);
  const auto refused = from.try_get(256);  // NOLINT(bugprone-use-after-move): the claim itself
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason() == reason::invalid_argument);
  CHECK(from.max_block() == 0);
  CHECK(from.statistics().registered == 0);
}

TEST_CASE("threads that get, hold, pass on and put never share a block", "[pool]") {
  const fake_registration fake;
  pool blocks{fake.dev(), {.bytes = 64_KiB, .limit = 2_MiB, .slab = 64_KiB}};
  constexpr unsigned threads = 4;
  constexpr unsigned rounds = 20000;
  std::atomic<unsigned> clashes{0};
  std::atomic<unsigned> granted{0};
  std::mutex passing;
  std::vector<block> passed;
  std::vector<std::thread> running;
  for (unsigned id = 1; id <= threads; ++id) {
    running.emplace_back([&, id] {
      std::mt19937 random{id};
      std::vector<block> held;
      for (unsigned i = 0; i < rounds; ++i) {
        if (held.size() < 8 && random() % 2 == 0) {
          if (const auto got = blocks.try_get(1 + random() % 8192)) {
            ++granted;
            *static_cast<unsigned*>(got->address) = id;
            held.push_back(*got);
          }
        } else if (!held.empty()) {
          const block b = held.back();
          held.pop_back();
          clashes += *static_cast<unsigned*>(b.address) != id ? 1 : 0;
          if (random() % 4 == 0) {
            const std::lock_guard guard{passing};
            passed.push_back(b);
          } else {
            blocks.put(b);
          }
        }
        if (random() % 8 == 0) {
          std::vector<block> taken;
          {
            const std::lock_guard guard{passing};
            taken.swap(passed);
          }
          for (const block& b : taken) {
            blocks.put(b);
          }
        }
      }
      for (const block& b : held) {
        blocks.put(b);
      }
    });
  }
  for (auto& thread : running) {
    thread.join();
  }
  for (const block& b : passed) {
    blocks.put(b);
  }
  CHECK(clashes == 0);
  const auto seen = blocks.statistics();
  CHECK(seen.gets == granted);
  CHECK(seen.puts == granted);
  CHECK(seen.in_use == 0);
  CHECK(seen.registered <= 2_MiB);
  CHECK(seen.registrations > 1);
}

TEST_CASE("the last slab is shared by threads of its class, not refused to one", "[pool]") {
  const fake_registration fake;
  for (int round = 0; round < 50; ++round) {
    pool blocks{fake.dev(), {.bytes = 64_KiB, .limit = 128_KiB, .slab = 64_KiB}};
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> running;
    for (int id = 0; id < 4; ++id) {
      running.emplace_back([&blocks, &refused] {
        for (int i = 0; i < 8; ++i) {
          refused += blocks.try_get(4_KiB) ? 0 : 1;
        }
      });
    }
    for (auto& thread : running) {
      thread.join();
    }
    REQUIRE(refused == 0);  // 32 blocks of 4 KiB are exactly two slabs
  }
}

TEST_CASE("the table of slabs finds every key at every size and no other", "[pool]") {
  const fake_registration fake;
  const device dev = fake.dev();
  std::vector<std::byte> memory(4096);
  std::vector<std::unique_ptr<detail::pool_slab>> slabs;
  detail::slab_table table;
  for (int i = 0; i < 300; ++i) {
    slabs.push_back(std::make_unique<detail::pool_slab>(
        memory_region{dev, memory.data(), memory.size(), memopt::access::local_read}));
    table.reserve(slabs.size());
    table.insert(slabs.back().get());
  }
  for (const auto& slab : slabs) {
    CHECK(table.find(slab->lkey()) == slab.get());
    CHECK(table.find(slab->lkey() ^ 1) == nullptr);
  }
  CHECK(table.find(0) == nullptr);
}
