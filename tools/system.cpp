// SPDX-License-Identifier: MIT
#include "system.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include <sys/resource.h>
#include <sys/utsname.h>

#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

namespace memopt::tool {
namespace {

// Bit of CAP_IPC_LOCK in the capability sets of /proc/PID/status (capabilities(7)).
constexpr unsigned cap_ipc_lock_bit = 14;

std::string read_all(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::optional<std::uint64_t> parse_number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{} || end == text.data()) {
    return std::nullopt;
  }
  return value;
}

std::uint64_t number_in(const std::string& path) {
  const auto line = read_line(path);
  return line ? parse_number(*line).value_or(0) : 0;
}

std::vector<huge_page_pool> read_huge_pages(const std::string& root) {
  // Directories are named hugepages-2048kB.
  static constexpr std::string_view prefix = "hugepages-";
  std::vector<huge_page_pool> pools;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator{root + "/sys/kernel/mm/hugepages", ignored}) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) {
      continue;
    }
    const auto kib = parse_number(std::string_view{name}.substr(prefix.size()));
    if (kib) {
      pools.push_back({*kib * 1024, number_in(entry.path().string() + "/nr_hugepages"),
                       number_in(entry.path().string() + "/free_hugepages")});
    }
  }
  std::ranges::sort(pools, {}, &huge_page_pool::page_size);
  return pools;
}

// Registration checks the capability against the initial user namespace, whose map covers
// every id; inside another namespace the capability shown in status does not count.
bool has_ipc_lock(const std::string& root) {
  std::istringstream status{read_all(root + "/proc/self/status")};
  bool effective = false;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) {
      const auto digits = line.find_first_not_of(" \t", 7);
      const auto mask =
          digits == std::string::npos ? std::nullopt : parse_number(line.substr(digits), 16);
      effective = mask && ((*mask >> cap_ipc_lock_bit) & 1U) != 0;
    }
  }
  std::istringstream map{read_all(root + "/proc/self/uid_map")};
  std::uint64_t inside = 1;
  std::uint64_t outside = 1;
  std::uint64_t count = 0;
  map >> inside >> outside >> count;
  return effective && inside == 0 && outside == 0 && count == UINT32_MAX;
}

}  // namespace

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  return line;
}

std::string chosen_word(std::string_view line) {
  const auto open = line.find('[');
  const auto close = open == std::string_view::npos ? open : line.find(']', open);
  return close == std::string_view::npos ? std::string{}
                                         : std::string{line.substr(open + 1, close - open - 1)};
}

std::map<std::string, std::uint64_t, std::less<>> parse_meminfo(std::string_view text) {
  std::map<std::string, std::uint64_t, std::less<>> values;
  std::istringstream lines{std::string{text}};
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    const auto digits =
        colon == std::string::npos ? colon : line.find_first_of("0123456789", colon);
    if (digits == std::string::npos) {
      continue;
    }
    if (const auto value = parse_number(std::string_view{line}.substr(digits))) {
      values[line.substr(0, colon)] = line.ends_with(" kB") ? *value * 1024 : *value;
    }
  }
  return values;
}

system_facts read_system_facts(const std::string& root) {
  system_facts facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts.kernel = names.release;
    facts.machine = names.machine;
  }
  if (const auto line = read_line(root + "/sys/kernel/mm/transparent_hugepage/enabled")) {
    facts.transparent_huge_pages = chosen_word(*line);
  }
  facts.governor =
      read_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or("");
  facts.huge_pages = read_huge_pages(root);

  const auto meminfo = parse_meminfo(read_all(root + "/proc/meminfo"));
  if (const auto found = meminfo.find("CmaTotal"); found != meminfo.end()) {
    facts.cma_total = found->second;
  }
  if (const auto found = meminfo.find("CmaFree"); found != meminfo.end()) {
    facts.cma_free = found->second;
  }

  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.memlock_limit = limit.rlim_cur;
  }
  facts.ipc_lock = has_ipc_lock(root);

  facts.packages["memopt"] = MEMOPT_VERSION;
  facts.packages["fmt"] =
      fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  facts.packages["cli11"] = CLI11_VERSION;
  facts.packages["nlohmann-json"] =
      fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                  NLOHMANN_JSON_VERSION_PATCH);
  facts.packages["rdma-core"] = MEMOPT_RDMA_CORE_VERSION;
  return facts;
}

}  // namespace memopt::tool
