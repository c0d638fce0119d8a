// SPDX-License-Identifier: MIT
#include "checks.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <memopt/device.hpp>

#include "text_table.hpp"

namespace memopt::tool {
namespace {

// Below this even one small ring of message buffers can not be pinned: the default of many
// distributions (8 MiB since systemd 252) is enough to start, not enough to work.
constexpr std::uint64_t small_memlock = 64ULL << 20U;

constexpr std::uint64_t huge_2m = 2ULL << 20U;
constexpr std::uint64_t huge_1g = 1ULL << 30U;

bool is_installed(const std::string& kernel) {
  const std::filesystem::path directory = std::filesystem::path{"/lib/modules"} / kernel;
  std::error_code failure;
  std::filesystem::recursive_directory_iterator entry{
      directory, std::filesystem::directory_options::skip_permission_denied, failure};
  for (; !failure && entry != std::filesystem::recursive_directory_iterator{};
       entry.increment(failure)) {
    if (entry->path().filename().string().starts_with("rdma_memopt.ko")) {
      return true;
    }
  }
  return false;
}

bool has_active_port(const device& dev) {
  ibv_device_attr attributes{};
  if (ibv_query_device(dev.context(), &attributes) != 0) {
    return false;
  }
  for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    if (ibv_query_port(dev.context(), static_cast<std::uint8_t>(port), &state) == 0 &&
        state.state == IBV_PORT_ACTIVE) {
      return true;
    }
  }
  return false;
}

finding judge_module(const machine_state& state) {
  if (state.module) {
    return {"kernel module",
            verdict::ok,
            fmt::format("loaded, contract version {}", state.module->uapi_version),
            {}};
  }
  if (!state.module_loaded) {
    return {"kernel module", verdict::failed, "rdma_memopt is not loaded",
            state.module_installed ? "run: modprobe rdma_memopt"
                                   : "install it for this kernel with 'make dkms', then run: "
                                     "modprobe rdma_memopt"};
  }
  return {"kernel module", verdict::ok, "rdma_memopt is loaded", {}};
}

finding judge_device_node(const machine_state& state) {
  if (state.module) {
    return {"device node", verdict::ok, "/dev/rdma_memopt can be opened", {}};
  }
  if (!state.module_loaded) {
    return {"device node", verdict::failed, "/dev/rdma_memopt appears with the module",
            "load the module"};
  }
  return {"device node", verdict::failed, state.module.error().what(),
          state.module.error().reason() == reason::module_access
              ? "add this user to the group that owns /dev/rdma_memopt ('rdma' with the udev rule)"
              : std::string{state.module.error().remedy()}};
}

finding judge_kernel_cma(const machine_state& state) {
  const auto& total = state.facts.cma_total;
  if (!total) {
    return {"kernel CMA", verdict::warning, "this kernel has no CMA (CONFIG_CMA)",
            "contig memory works without; for cma memory boot a kernel with CONFIG_CMA"};
  }
  if (*total == 0) {
    return {"kernel CMA", verdict::warning, "built in, but its area has size 0",
            "add cma=1G (or what you need) to the kernel command line and boot again"};
  }
  return {"kernel CMA",
          verdict::ok,
          fmt::format("{}, {} free", format_bytes(*total),
                      format_bytes(state.facts.cma_free.value_or(0))),
          {}};
}

finding judge_region(const machine_state& state, scheme kind, std::string_view parameter) {
  const std::string subject = fmt::format("{} region", to_string(kind));
  if (!state.module) {
    return {subject, verdict::warning, "unknown while the module does not answer", "see above"};
  }
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
  for (const region_info& region : state.module->regions) {
    if (region.scheme == kind) {
      total += region.total;
      largest = std::max(largest, region.largest_free);
    }
  }
  if (total == 0) {
    return {subject, verdict::warning, "none",
            fmt::format("load the module with {}=256M (or what you need)", parameter)};
  }
  if (largest == 0) {
    return {subject, verdict::warning, fmt::format("{}, all in use", format_bytes(total)),
            fmt::format("free buffers, or load the module with a larger {}", parameter)};
  }
  return {subject,
          verdict::ok,
          fmt::format("{}, longest free run {}", format_bytes(total), format_bytes(largest)),
          {}};
}

finding judge_huge_pages(const machine_state& state, std::uint64_t page_size) {
  const std::string subject = fmt::format("{} pages", format_bytes(page_size));
  const auto& pools = state.facts.huge_pages;
  const auto pool = std::ranges::find(pools, page_size, &huge_page_pool::page_size);
  if (pool == pools.end()) {
    return {subject, verdict::warning, "this machine has no pages of that size",
            "use another scheme"};
  }
  if (pool->total == 0) {
    return {subject, verdict::warning, "the pool is empty",
            page_size == huge_1g
                ? std::string{"add hugepagesz=1G hugepages=N to the kernel command line"}
                : std::string{"run: sysctl vm.nr_hugepages=N, early after boot"}};
  }
  if (pool->free == 0) {
    return {subject, verdict::warning, fmt::format("{} pages, none free", pool->total),
            "enlarge the pool"};
  }
  return {subject, verdict::ok, fmt::format("{} of {} free", pool->free, pool->total), {}};
}

finding judge_thp(const machine_state& state) {
  const std::string& mode = state.facts.transparent_huge_pages;
  if (mode.empty()) {
    return {"transparent huge", verdict::warning, "not in this kernel", "use hugetlb or contig"};
  }
  if (mode == "never") {
    return {"transparent huge", verdict::warning, "switched off",
            "run: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  return {"transparent huge", verdict::ok, mode, {}};
}

finding judge_memlock(const machine_state& state) {
  if (state.facts.ipc_lock) {
    return {"locked memory", verdict::ok, "not limited (CAP_IPC_LOCK)", {}};
  }
  const auto& limit = state.facts.memlock_limit;
  if (!limit) {
    return {"locked memory", verdict::ok, "unlimited", {}};
  }
  const std::string found = fmt::format("limited to {}", format_bytes(*limit));
  const std::string remedy =
      "raise it: 'memlock' in /etc/security/limits.d, or LimitMEMLOCK= of the systemd unit";
  if (*limit == 0) {
    return {"locked memory", verdict::failed, "the limit is 0: nothing can be registered", remedy};
  }
  return {"locked memory", *limit < small_memlock ? verdict::warning : verdict::ok, found,
          *limit < small_memlock ? remedy : std::string{}};
}

std::vector<finding> judge_devices(const machine_state& state) {
  if (state.devices.empty()) {
    return {{"RDMA device", verdict::failed, "none",
             "load the driver of your card, or for soft RoCE run: rdma link add rxe0 type rxe "
             "netdev <interface>"}};
  }
  std::vector<finding> findings;
  for (const rdma_device_state& dev : state.devices) {
    const std::string subject = fmt::format("device {}", dev.name);
    if (!dev.usable) {
      findings.push_back({subject, verdict::failed, dev.detail,
                          "check that ib_uverbs is loaded and /dev/infiniband is accessible"});
    } else if (!dev.active) {
      findings.push_back({subject, verdict::failed, "no port is active",
                          "bring the link up: rdma link show, ip link set <interface> up"});
    } else {
      findings.push_back({subject, verdict::ok, "active", {}});
    }
  }
  return findings;
}

}  // namespace

std::string_view to_string(verdict v) noexcept {
  switch (v) {
    case verdict::ok:
      return "ok";
    case verdict::warning:
      return "warning";
    case verdict::failed:
      return "failed";
  }
  return "unknown";
}

machine_state read_machine_state() {
  std::error_code ignored;
  system_facts facts = read_system_facts();
  const bool installed = is_installed(facts.kernel);
  machine_state state{std::move(facts),
                      try_query_module(),
                      std::filesystem::exists("/sys/module/rdma_memopt", ignored),
                      installed,
                      {}};
  for (const std::string& name : device::list()) {
    const result<device> opened = device::try_open(name);
    state.devices.push_back({name, opened.has_value(), opened && has_active_port(*opened),
                             opened ? std::string{} : std::string{opened.error().what()}});
  }
  return state;
}

std::vector<finding> judge(const machine_state& state) {
  std::vector<finding> findings{judge_module(state), judge_device_node(state)};
  findings.push_back(judge_region(state, scheme::contig, "contig_size"));
  findings.push_back(judge_kernel_cma(state));
  findings.push_back(judge_region(state, scheme::cma, "cma_size"));
  findings.push_back(judge_huge_pages(state, huge_2m));
  findings.push_back(judge_huge_pages(state, huge_1g));
  findings.push_back(judge_thp(state));
  findings.push_back(judge_memlock(state));
  for (finding& f : judge_devices(state)) {
    findings.push_back(std::move(f));
  }
  return findings;
}

}  // namespace memopt::tool
