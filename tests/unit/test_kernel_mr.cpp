// SPDX-License-Identifier: MIT
// Physical-address MRs: what is asked of the module, and what is refused without asking.

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <memopt/kernel_mr.hpp>
#include <memopt/source.hpp>
#include <memopt/units.hpp>

#include "expect.hpp"
#include "fake_module.hpp"

using namespace memopt;
using namespace memopt::literals;
using memopt::test::fake_module;
using memopt::test::reason_of;

namespace {

constexpr memopt::access writing = memopt::access::local_write | memopt::access::remote_write;

buffer cma_memory(std::size_t length = 64_MiB) { return source{scheme::cma}.allocate(length); }

}  // namespace

TEST_CASE("the whole mapping is registered, with the rights asked for", "[kernel_mr]") {
  fake_module module;
  const buffer memory = cma_memory(5000);
  const kernel_mr mr{memory, "rxe0", writing};
  CHECK(module.last_mr.length == 8192);
  CHECK(module.last_mr.offset == 0);
  CHECK(module.last_mr.access == (MEMOPT_ACCESS_LOCAL_WRITE | MEMOPT_ACCESS_REMOTE_WRITE));
  CHECK(std::string{module.last_mr.ibdev} == "rxe0");
  CHECK(mr.rkey() == 0x1234);
  CHECK(mr.iova() == 0x200000);
}

TEST_CASE("what the module says of the MR is passed on", "[kernel_mr]") {
  fake_module module;
  const buffer memory = cma_memory();
  const kernel_mr mr{memory, "rxe0", memopt::access::remote_read};
  const kernel_mr_info info = mr.info();
  CHECK(info.entries == 32);
  CHECK(info.page_size == 2_MiB);
  CHECK(info.length == 64_MiB);
  CHECK(info.device_gone);
  module.fail[MEMOPT_CMD_MR_INFO] = ENOTTY;
  CHECK(reason_of([&] { (void)mr.info(); }) == reason::module_mismatch);
}

TEST_CASE("nothing is asked for what can not be", "[kernel_mr]") {
  fake_module module;
  const buffer memory = cma_memory();
  const auto refused = [&](const buffer& of, std::string_view device, memopt::access rights) {
    return reason_of([&] { const kernel_mr mr{of, device, rights}; }) == reason::invalid_argument;
  };
  CHECK(refused(buffer{}, "rxe0", writing));
  CHECK(refused(source{scheme::plain}.allocate(4_KiB), "rxe0", writing));
  CHECK(refused(memory, "", writing));
  CHECK(refused(memory, std::string(64, 'x'), writing));
  CHECK(refused(memory, "rxe0", memopt::access::remote_write));
  CHECK(refused(memory, "rxe0", memopt::access::remote_atomic));
  CHECK(module.last_mr.size == 0);
  CHECK(module.open_files() == 1);
  // The longest name the kernel has.
  const kernel_mr longest{memory, std::string(63, 'x'), writing};
  CHECK(module.mrs() == 1);
}

TEST_CASE("why the module refuses an MR", "[kernel_mr]") {
  fake_module module;
  const buffer memory = cma_memory();
  const std::map<int, reason> meaning{
      {EINVAL, reason::invalid_argument},    {ENOENT, reason::invalid_argument},
      {EOVERFLOW, reason::invalid_argument}, {ENODEV, reason::no_device},
      {EOPNOTSUPP, reason::unsupported},     {ENOSPC, reason::object_limit},
      {ENOMEM, reason::out_of_memory},       {ENOTTY, reason::module_mismatch},
      {E2BIG, reason::module_mismatch},      {EIO, reason::unknown}};
  for (const auto& [errnum, why] : meaning) {
    INFO(errnum);
    module.fail[MEMOPT_CMD_MR_REG] = errnum;
    const auto tried = kernel_mr::try_register(memory, "rxe0", writing);
    REQUIRE_FALSE(tried);
    CHECK(tried.error().reason() == why);
    CHECK(tried.error().code().value() == errnum);
  }
  // The duplicates made on the way are closed again.
  CHECK(module.open_files() == 1);
}

TEST_CASE("an MR outlives its buffer and leaves nothing behind", "[kernel_mr]") {
  fake_module module;
  {
    std::optional<buffer> memory{cma_memory()};
    const kernel_mr mr{*memory, "rxe0", writing};
    memory.reset();
    CHECK(module.buffers() == 0);
    CHECK(module.mappings() == 0);
    CHECK(module.mrs() == 1);
    CHECK(mr.info().entries == 32);
  }
  CHECK(module.clean());
}

TEST_CASE("an MR moves, and what it replaces is deregistered", "[kernel_mr]") {
  fake_module module;
  {
    const buffer memory = cma_memory();
    kernel_mr first{memory, "rxe0", writing};
    kernel_mr second{memory, "rxe0", writing};
    CHECK(module.mrs() == 2);
    second = std::move(first);
    CHECK(module.mrs() == 1);
    const kernel_mr third{std::move(second)};
    CHECK(module.mrs() == 1);
    CHECK(third.info().entries == 32);
  }
  CHECK(module.clean());
}
