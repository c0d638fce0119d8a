// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include "system.hpp"

using namespace memopt::tool;

namespace {

// A made-up /proc and /sys.
class fake_root {
 public:
  fake_root()
      : path_{std::filesystem::temp_directory_path() / fmt::format("memopt-system-{}", getpid())} {}
  ~fake_root() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  fake_root(const fake_root&) = delete;
  fake_root& operator=(const fake_root&) = delete;

  void file(const std::string& name, const std::string& text) const {
    const auto full = path_ / name;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream{full} << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("the chosen word is the one in brackets", "[system]") {
  CHECK(chosen_word("always [madvise] never") == "madvise");
  CHECK(chosen_word("[always]") == "always");
  CHECK(chosen_word("none").empty());
  CHECK(chosen_word("broken [never").empty());
  CHECK(chosen_word("").empty());
}

TEST_CASE("meminfo is read as bytes, counts stay counts, nonsense is left out", "[system]") {
  const auto values = parse_meminfo(
      "MemTotal:       16384 kB\nHugePages_Total:      12\nCmaTotal:              0 kB\n"
      "NoNumber: kB\nno colon 12\n\nHuge: 99999999999999999999999 kB\n");
  CHECK(values.at("MemTotal") == 16384ULL * 1024);
  CHECK(values.at("HugePages_Total") == 12);
  CHECK(values.at("CmaTotal") == 0);
  CHECK(values.size() == 3);
}

TEST_CASE("facts come from the files of the machine", "[system]") {
  const fake_root root;
  root.file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  root.file("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n");
  root.file("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
  root.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n");
  root.file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "5\n");
  root.file("sys/kernel/mm/hugepages/unrelated/nr_hugepages", "3\n");
  root.file("proc/meminfo", "CmaTotal: 2048 kB\nCmaFree: 1024 kB\n");
  root.file("proc/self/status", "Name: x\nCapEff:\t0000000000004000\n");
  root.file("proc/self/uid_map", "         0          0 4294967295\n");

  const system_facts facts = read_system_facts(root.path());
  CHECK(facts.transparent_huge_pages == "never");
  REQUIRE(facts.huge_pages.size() == 2);
  CHECK(facts.huge_pages[0].page_size == 2ULL << 20U);
  CHECK(facts.huge_pages[0].total == 8);
  CHECK(facts.huge_pages[0].free == 5);
  CHECK(facts.huge_pages[1].page_size == 1ULL << 30U);
  CHECK(facts.huge_pages[1].free == 0);
  CHECK(facts.cma_total == 2048ULL * 1024);
  CHECK(facts.cma_free == 1024ULL * 1024);
  CHECK(facts.ipc_lock);
  CHECK_FALSE(facts.kernel.empty());
}

TEST_CASE("a kernel without CMA and huge pages gives no numbers", "[system]") {
  const fake_root root;
  root.file("proc/meminfo", "MemTotal: 4 kB\n");
  const system_facts facts = read_system_facts(root.path());
  CHECK_FALSE(facts.cma_total);
  CHECK(facts.huge_pages.empty());
  CHECK(facts.transparent_huge_pages.empty());
}

TEST_CASE("CAP_IPC_LOCK counts in the initial user namespace only", "[system]") {
  const fake_root root;
  root.file("proc/self/status", "CapEff:\t000001ffffffffff\n");
  root.file("proc/self/uid_map", "         0       1000          1\n");
  CHECK_FALSE(read_system_facts(root.path()).ipc_lock);
  root.file("proc/self/uid_map", "         0          0 4294967295\n");
  CHECK(read_system_facts(root.path()).ipc_lock);
  root.file("proc/self/status", "CapEff:\t0000000000000000\n");
  CHECK_FALSE(read_system_facts(root.path()).ipc_lock);
}
