// SPDX-License-Identifier: MIT
// Reading /proc/PID/smaps, from samples and of this process.

#include <cstdint>
#include <sstream>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <sys/mman.h>

#include <memopt/units.hpp>

#include "detail/smaps.hpp"

using namespace memopt::literals;
using memopt::detail::mappings_of;
using memopt::detail::parse_smaps;

namespace {

// Fields as Linux 7.3 prints them, shortened.
constexpr const char* sample =
    "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/some file\n"
    "Size:                328 kB\n"
    "KernelPageSize:        4 kB\n"
    "Rss:                 300 kB\n"
    "AnonHugePages:         0 kB\n"
    "FilePmdMapped:      2048 kB\n"
    "ShmemPmdMapped:     4096 kB\n"
    "VmFlags: rd ex mr mw me sd \n"
    "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
    "Size:               4096 kB\n"
    "KernelPageSize:        4 kB\n"
    "Rss:                4096 kB\n"
    "AnonHugePages:      2048 kB\n"
    "THPeligible:           1\n"
    "ProtectionKey:         0\n"
    "VmFlags: rd wr mr mw me ac sd hg\n"
    "7f0000400000-7f0000600000 rw-s 00000000 00:05 77  /dev/rdma_memopt\n"
    "KernelPageSize:        4 kB\n"
    "VmFlags: rd wr sh mr mw me ms pf io de dd \n"
    "7f0040000000-7f0080000000 rw-p 00000000 00:0f 9   /anon_hugepage (deleted)\n"
    "KernelPageSize:  1048576 kB\n"
    "VmFlags: rd wr mr mw me de ht sd \n";

std::vector<memopt::detail::vma> parse(const std::string& text, std::uintptr_t begin,
                                       std::uintptr_t end) {
  std::istringstream stream{text};
  return parse_smaps(stream, begin, end);
}

}  // namespace

TEST_CASE("mappings are read with their sizes and flags", "[smaps]") {
  const auto all = parse(sample, 0, UINTPTR_MAX);
  REQUIRE(all.size() == 4);

  CHECK(all[0].begin == 0x400000);
  CHECK(all[0].end == 0x452000);
  CHECK(all[0].name == "/usr/bin/some file");
  CHECK(all[0].resident == 300_KiB);
  CHECK(all[0].file_huge == 6_MiB);
  CHECK_FALSE(all[0].writable());
  CHECK_FALSE(all[0].shared());

  CHECK(all[1].name.empty());
  CHECK(all[1].writable());
  CHECK(all[1].anonymous_huge == 2_MiB);
  CHECK(all[1].kernel_page_size == 4_KiB);

  CHECK(all[2].shared());
  CHECK(all[2].resident == 0);
  CHECK(all[3].kernel_page_size == 1_GiB);
}

TEST_CASE("a flag is a whole word", "[smaps]") {
  const auto all = parse(sample, 0, UINTPTR_MAX);
  REQUIRE(all.size() == 4);
  CHECK(all[2].has_flag("pf"));
  CHECK(all[2].has_flag("io"));
  CHECK(all[1].has_flag("hg"));  // the last, with no blank behind it in the file
  CHECK(all[1].has_flag("rd"));  // the first
  CHECK_FALSE(all[1].has_flag("pf"));
  // "r m" is in "mr mw", but no word.
  CHECK_FALSE(all[1].has_flag("r "));
  CHECK_FALSE(all[1].has_flag("cs"));
  CHECK_FALSE(memopt::detail::vma{}.has_flag("rd"));
}

TEST_CASE("only mappings that overlap the range are given", "[smaps]") {
  CHECK(parse(sample, 0x7f0000400000, 0x7f0000400001).size() == 1);
  CHECK(parse(sample, 0x7f00003fffff, 0x7f0000400001).size() == 2);
  CHECK(parse(sample, 0x452000, 0x7f0000000000).empty());
  const auto last = parse(sample, 0x7f007fffffff, UINTPTR_MAX);
  REQUIRE(last.size() == 1);
  CHECK(last[0].has_flag("ht"));
  CHECK(last[0].kernel_page_size == 1_GiB);
}

TEST_CASE("lines that make no sense are left out", "[smaps]") {
  CHECK(parse("", 0, UINTPTR_MAX).empty());
  CHECK(parse("Rss: 4 kB\nnonsense\n-\n", 0, UINTPTR_MAX).empty());
  CHECK(parse("2000-1000 rw-p 0 0:0 0\n", 0, UINTPTR_MAX).empty());
  const auto odd = parse(
      "1000-2000\n"
      "Rss: many kB\n"
      "AnonHugePages: 99999999999999999999999 kB\n"
      "KernelPageSize: 18446744073709551615 kB\n"
      "VmFlags:\n",
      0, UINTPTR_MAX);
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].permissions.empty());
  CHECK_FALSE(odd[0].writable());
  CHECK_FALSE(odd[0].shared());
  CHECK(odd[0].resident == 0);
  CHECK(odd[0].anonymous_huge == 0);
  CHECK(odd[0].kernel_page_size == 0);
}

TEST_CASE("this process is described as it is", "[smaps]") {
  constexpr std::size_t length = 64_KiB;
  auto* at =
      static_cast<char*>(mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(at != MAP_FAILED);
  REQUIRE(mprotect(at + 16_KiB, 32_KiB, PROT_READ | PROT_WRITE) == 0);
  at[20_KiB] = 1;
  const auto inner = mappings_of(at + 16_KiB, 32_KiB);
  REQUIRE(inner.size() == 1);
  CHECK(inner[0].begin == reinterpret_cast<std::uintptr_t>(at) + 16_KiB);
  CHECK(inner[0].end == reinterpret_cast<std::uintptr_t>(at) + 48_KiB);
  CHECK(inner[0].writable());
  CHECK(inner[0].resident >= 4_KiB);
  const auto whole = mappings_of(at, length);
  REQUIRE(whole.size() == 3);
  CHECK(whole[0].permissions.starts_with("---"));
  CHECK(munmap(at, length) == 0);
  CHECK(mappings_of(at, length).empty());
}
