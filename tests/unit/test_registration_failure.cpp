// SPDX-License-Identifier: MIT
// One errno, many causes: each is made up here and must be told from the others.

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/units.hpp>

#include "detail/registration_failure.hpp"

using namespace memopt;
using namespace memopt::literals;
using Catch::Matchers::ContainsSubstring;
using memopt::detail::diagnose;
using memopt::detail::registration_scene;
using memopt::detail::vma;

namespace {

constexpr std::uintptr_t base = 0x7f0000000000;
constexpr memopt::access writing = memopt::access::local_write | memopt::access::remote_write;

vma mapping(std::uintptr_t begin, std::uintptr_t end, std::string permissions = "rw-p",
            std::string flags = "rd wr mr mw me ", std::string name = {}) {
  vma made;
  made.begin = begin;
  made.end = end;
  made.permissions = std::move(permissions);
  made.flags = std::move(flags);
  made.name = std::move(name);
  made.kernel_page_size = 4_KiB;
  made.resident = end - begin;
  return made;
}

/// 1 MiB of anonymous memory, no limits, nothing wrong.
registration_scene scene(int errnum) {
  registration_scene made{};
  made.errnum = errnum;
  made.begin = base;
  made.length = 1_MiB;
  made.rights = writing;
  made.mappings = {mapping(base, base + 1_MiB)};
  made.mapping_count = 50;
  made.max_map_count = 65530;
  made.max_mr_size = ~std::uint64_t{0};
  return made;
}

registration_scene limited_to(int errnum, std::uint64_t limit) {
  registration_scene made = scene(errnum);
  made.memlock_limit = limit;
  return made;
}

}  // namespace

TEST_CASE("EFAULT: a hole in the range", "[registration]") {
  auto at = scene(EFAULT);
  using mappings = std::vector<vma>;
  at.mappings = GENERATE(mappings{}, mappings{mapping(base + 4_KiB, base + 1_MiB)},
                         mappings{mapping(base, base + 4_KiB), mapping(base + 8_KiB, base + 1_MiB)},
                         mappings{mapping(base, base + 1_MiB - 4_KiB)});
  CHECK(diagnose(at).why == reason::hole);
}

TEST_CASE("EFAULT: memory mapped by frame number", "[registration]") {
  auto at = scene(EFAULT);
  using mappings = std::vector<vma>;
  at.mappings = GENERATE(
      mappings{mapping(base, base + 1_MiB, "rw-s", "rd wr sh pf de dd ", "/dev/rdma_memopt")},
      mappings{mapping(base, base + 4_KiB),
               mapping(base + 4_KiB, base + 1_MiB, "rw-s", "rd wr io ", "/dev/rdma_memopt")});
  const auto found = diagnose(at);
  CHECK(found.why == reason::pfnmap);
  CHECK_THAT(found.detail, ContainsSubstring("/dev/rdma_memopt"));
}

TEST_CASE("EFAULT: rights that the mapping has not", "[registration]") {
  auto at = scene(EFAULT);
  SECTION("read-only, for writing") {
    at.mappings = {GENERATE(mapping(base, base + 1_MiB, "r--p", "rd "),
                            mapping(base, base + 1_MiB, "r--s", "rd sh ", "/srv/data"))};
    CHECK(diagnose(at).why == reason::protection);
  }
  SECTION("not even readable, for reading") {
    at.rights = memopt::access::remote_read;
    at.mappings = {mapping(base, base + 1_MiB, "---p", "mr ")};
    CHECK(diagnose(at).why == reason::protection);
  }
}

TEST_CASE("EFAULT: a file whose file system tracks writes", "[registration]") {
  auto at = scene(EFAULT);
  at.mappings = {mapping(base, base + 1_MiB, "rw-s", "rd wr sh ", "/srv/data")};
  const auto found = diagnose(at);
  CHECK(found.why == reason::file_backed);
  CHECK_THAT(found.detail, ContainsSubstring("/srv/data"));

  // Files that are only memory can be pinned, and a private mapping is a copy.
  for (const char* name : {"/dev/shm/x", "/memfd:x (deleted)", "/SYSV00000000 (deleted)"}) {
    INFO(name);
    at.mappings = {mapping(base, base + 1_MiB, "rw-s", "rd wr sh ", name)};
    CHECK(diagnose(at).why == reason::unknown);
  }
  at.mappings = {mapping(base, base + 1_MiB, "rw-p", "rd wr ", "/srv/data")};
  CHECK(diagnose(at).why == reason::unknown);
}

TEST_CASE("EFAULT: huge pages that ran out", "[registration]") {
  auto at = scene(EFAULT);
  at.mappings = {mapping(base, base + 2_MiB, "rw-p", "rd wr ht ", "/anon_hugepage (deleted)")};
  CHECK(diagnose(at).why == reason::hugetlb_pool);
}

TEST_CASE("ENOMEM: the limit on locked memory", "[registration]") {
  SECTION("too low for the range") {
    const auto found = diagnose(limited_to(ENOMEM, 64_KiB));
    CHECK(found.why == reason::memlock);
    CHECK_THAT(found.detail, ContainsSubstring("65536") && ContainsSubstring("1048576"));
  }
  SECTION("used up by what is locked already") {
    auto at = limited_to(ENOMEM, 2_MiB);
    at.locked = 1_MiB + 4_KiB;
    CHECK(diagnose(at).why == reason::memlock);
    at.locked = 3_MiB;
    CHECK(diagnose(at).why == reason::memlock);
  }
  SECTION("exceeded by the page the range ends in") {
    auto at = limited_to(ENOMEM, 1_MiB);
    at.begin += 1;
    at.mappings = {mapping(base, base + 2_MiB)};
    CHECK(diagnose(at).why == reason::memlock);
  }
  SECTION("0") { CHECK(diagnose(limited_to(ENOMEM, 0)).why == reason::memlock_zero); }
  SECTION("holds for root of a user namespace") {
    auto at = limited_to(ENOMEM, 64_KiB);
    at.ipc_lock = true;
    at.in_user_namespace = true;
    CHECK(diagnose(at).why == reason::userns);
  }
}

TEST_CASE("ENOMEM: not the limit, if it is wide enough or does not bind", "[registration]") {
  const auto just_enough = limited_to(ENOMEM, 1_MiB);
  CHECK(diagnose(just_enough).why == reason::out_of_memory);
  auto capable = limited_to(ENOMEM, 64_KiB);
  capable.ipc_lock = true;
  CHECK(diagnose(capable).why == reason::out_of_memory);
  auto unlimited = just_enough;
  unlimited.memlock_limit.reset();
  CHECK(diagnose(unlimited).why == reason::out_of_memory);
}

TEST_CASE("ENOMEM: limits of the device", "[registration]") {
  auto at = scene(ENOMEM);
  SECTION("what it says of itself") {
    at.max_mr_size = 1_MiB - 1;
    CHECK(diagnose(at).why == reason::device_limit);
  }
  SECTION("the tables of software devices") {
    at.length = 1_GiB + 4_KiB;
    at.mappings = {mapping(base, base + at.length)};
    CHECK(diagnose(at).why == reason::device_limit);
  }
}

TEST_CASE("ENOMEM: as many mappings as there may be", "[registration]") {
  auto at = scene(ENOMEM);
  at.mapping_count = 65529;
  const auto found = diagnose(at);
  CHECK(found.why == reason::max_map_count);
  CHECK_THAT(found.detail, ContainsSubstring("65530"));
  at.max_map_count = 0;  // not known
  CHECK(diagnose(at).why == reason::out_of_memory);
}

TEST_CASE("ENOMEM: huge pages that were never there", "[registration]") {
  auto at = scene(ENOMEM);
  at.mappings = {mapping(base, base + 2_MiB, "rw-p", "rd wr ht ", "/anon_hugepage (deleted)")};
  at.mappings[0].resident = 0;
  CHECK(diagnose(at).why == reason::hugetlb_pool);
}

TEST_CASE("EPERM is the limit 0, or else a right that is missing", "[registration]") {
  CHECK(diagnose(limited_to(EPERM, 0)).why == reason::memlock_zero);
  auto inside = limited_to(EPERM, 0);
  inside.ipc_lock = true;
  inside.in_user_namespace = true;
  CHECK(diagnose(inside).why == reason::userns);
  CHECK(diagnose(limited_to(EPERM, 4_KiB)).why == reason::permission);
  CHECK(diagnose(scene(EPERM)).why == reason::permission);
}

TEST_CASE("EAGAIN is the cgroup, or else the limit", "[registration]") {
  CHECK(diagnose(scene(EAGAIN)).why == reason::rdma_cgroup);
  CHECK(diagnose(limited_to(EAGAIN, 4_KiB)).why == reason::memlock);
}

TEST_CASE("errnos with one meaning", "[registration]") {
  CHECK(diagnose(scene(EOPNOTSUPP)).why == reason::unsupported);
  CHECK(diagnose(scene(ENOSPC)).why == reason::device_limit);
  CHECK(diagnose(scene(E2BIG)).why == reason::device_limit);
  CHECK(diagnose(scene(ENODEV)).why == reason::device_gone);
  CHECK(diagnose(scene(EIO)).why == reason::device_gone);
  CHECK(diagnose(scene(EINVAL)).why == reason::invalid_argument);
  CHECK(diagnose(scene(EXDEV)).why == reason::unknown);
  auto large = scene(EINVAL);
  large.max_mr_size = 4_KiB;
  CHECK(diagnose(large).why == reason::device_limit);
}

TEST_CASE("the scene is this process", "[registration]") {
  std::vector<std::byte> memory(64_KiB);
  const auto seen =
      detail::look_around(ENOMEM, memory.data(), memory.size(), memopt::access::remote_read, 4_GiB);
  CHECK(seen.errnum == ENOMEM);
  CHECK(seen.length == memory.size());
  CHECK(seen.max_mr_size == 4_GiB);
  CHECK_FALSE(seen.mappings.empty());
  CHECK(seen.mapping_count > 5);
  CHECK(seen.max_map_count > 1000);
}
