// SPDX-License-Identifier: MIT
// Registrations through real verbs: those that work, and why the others do not.

#include <cstring>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
using memopt::test::require_memory;

namespace {

constexpr memopt::access all_rights =
    memopt::access::local_write | memopt::access::remote_read | memopt::access::remote_write;

/// A mapping of its own, gone at the end.
class mapping {
 public:
  mapping(std::size_t length, int protection, int flags, int fd = -1)
      : length_{length}, at_{mmap(nullptr, length, protection, flags, fd, 0)} {
    REQUIRE(at_ != MAP_FAILED);
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping() { munmap(at_, length_); }
  [[nodiscard]] void* data() const { return at_; }

 private:
  std::size_t length_;
  void* at_;
};

reason refused(const device& dev, void* address, std::size_t length) {
  const auto tried = memory_region::try_register(dev, address, length, all_rights);
  REQUIRE_FALSE(tried);
  INFO(tried.error().what());
  CHECK_FALSE(tried.error().remedy().empty());
  return tried.error().reason();
}

}  // namespace

TEST_CASE("memory of every pinnable scheme carries bytes", "[memory_region][rdma]") {
  const device dev = open_device();
  const scheme which = GENERATE(scheme::plain, scheme::thp, scheme::hugetlb_2m, scheme::contig);
  INFO("scheme " << to_string(which));
  require_memory(which, 4_MiB);
  const memory_region from{dev, source{which}.allocate(4_MiB), all_rights};
  const memory_region to{dev, source{which}.allocate(4_MiB), all_rights};
  fill_pattern(from.memory().bytes(), 3);
  loopback_qp qp{dev};
  qp.execute({loopback_request::kind::write, from.iova(), from.lkey(), to.iova(), to.rkey(),
              static_cast<std::uint32_t>(4_MiB)});
  CHECK(std::memcmp(from.addr(), to.addr(), 4_MiB) == 0);
}

TEST_CASE("cma memory can not be registered, and the error says what can",
          "[memory_region][rdma]") {
  const device dev = open_device();
  require_memory(scheme::cma, 1_MiB);
  buffer memory = source{scheme::cma}.allocate(1_MiB);
  memory.bytes().front() = std::byte{42};
  const auto tried = memory_region::try_register(dev, std::move(memory), all_rights);
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::pfnmap);
  CHECK(tried.error().code() == std::errc::bad_address);
  CHECK_THAT(tried.error().what(), ContainsSubstring("share") && ContainsSubstring("contig"));
  REQUIRE(memory);
  CHECK(memory.bytes().front() == std::byte{42});
}

TEST_CASE("the causes of EFAULT are told apart on a real device", "[memory_region][rdma]") {
  const device dev = open_device();
  SECTION("a hole") {
    const mapping memory{16_KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS};
    REQUIRE(munmap(static_cast<char*>(memory.data()) + 4_KiB, 4_KiB) == 0);
    CHECK(refused(dev, memory.data(), 16_KiB) == reason::hole);
  }
  SECTION("read-only memory") {
    const mapping memory{16_KiB, PROT_READ, MAP_SHARED | MAP_ANONYMOUS};
    CHECK(refused(dev, memory.data(), 16_KiB) == reason::protection);
  }
  SECTION("part of it is the module's cma memory") {
    require_memory(scheme::cma, 1_MiB);
    const buffer memory = source{scheme::cma}.allocate(1_MiB);
    CHECK(refused(dev, static_cast<char*>(memory.data()) + 5000, 100) == reason::pfnmap);
  }
}

TEST_CASE("a limit on locked memory is named", "[memory_region][rdma]") {
  const device dev = open_device();
  // Privilege would lift the limit, so a child gives it up. Only the child's verdict counts.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int verdict = 1;
    const rlimit limit{64_KiB, 64_KiB};
    const mapping memory{1_MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS};
    // The device node is opened again, as verbs objects do not survive a fork.
    auto own = device::try_open(dev.name());
    if (own && setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setresuid(65534, 65534, 65534) == 0) {
      const auto tried = memory_region::try_register(*own, memory.data(), 1_MiB, all_rights);
      verdict = !tried && tried.error().reason() == reason::memlock &&
                        std::string{tried.error().what()}.find("65536") != std::string::npos
                    ? 0
                    : 2;
    }
    _exit(verdict);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a region's bounds and rights hold on the wire", "[memory_region][rdma]") {
  const device dev = open_device();
  const source plain{scheme::plain};
  const memory_region local{dev, plain.allocate(8_KiB), all_rights};
  const memory_region target{dev, plain.allocate(8_KiB), memopt::access::remote_read};
  fill_pattern(local.memory().bytes(), 5);
  const auto attempt = [&](loopback_request::kind what, std::uint64_t at, std::uint32_t length) {
    loopback_qp qp{dev};
    try {
      qp.execute({what, local.iova(), local.lkey(), at, target.rkey(), length});
    } catch (const error& failure) {
      return failure.reason();
    }
    return reason::unknown;
  };
  CHECK(attempt(loopback_request::kind::write, target.iova(), 64) == reason::access_denied);
  CHECK(attempt(loopback_request::kind::read, target.iova() + 8_KiB - 32, 64) ==
        reason::access_denied);
  for (const std::byte b : target.memory().bytes()) {
    REQUIRE(b == std::byte{0});
  }
  CHECK(attempt(loopback_request::kind::read, target.iova() + 8_KiB - 64, 64) == reason::unknown);
  CHECK(local.memory().bytes().front() == std::byte{0});
}
