// SPDX-License-Identifier: MIT
// memopt info: what this machine offers.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memopt/buffer.hpp>
#include <memopt/device.hpp>
#include <memopt/module.hpp>

#include "system.hpp"
#include "text_table.hpp"
#include "verbs.hpp"

namespace memopt::tool {
namespace {

using align = text_table::align;
using nlohmann::json;

constexpr int json_version = 1;

struct device_line {
  std::string name;
  result<device> opened;
};

std::vector<device_line> open_devices() {
  std::vector<device_line> devices;
  for (const std::string& name : device::list()) {
    devices.push_back({name, device::try_open(name)});
  }
  return devices;
}

json to_json(const region_info& region) {
  return {{"kind", to_string(region.scheme)},
          {"node", region.node},
          {"total", region.total},
          {"free", region.free},
          {"used", region.used},
          {"quarantined", region.quarantined},
          {"dirty", region.dirty},
          {"largest_free", region.largest_free}};
}

json to_json(const device_line& line) {
  if (!line.opened) {
    return {{"name", line.name},
            {"reason", to_string(line.opened.error().reason())},
            {"detail", line.opened.error().what()}};
  }
  const device_capabilities& caps = line.opened->capabilities();
  return {{"name", line.name},
          {"node", line.opened->numa_node()},
          {"max_mr_size", caps.max_mr_size},
          {"page_size_cap", caps.page_size_cap},
          {"max_mr", caps.max_mr},
          {"odp_advertised", caps.odp_advertised},
          {"odp_implicit", caps.odp_implicit},
          {"atomics", caps.atomics},
          {"reason", nullptr}};
}

json report(const system_facts& facts, const result<module_info>& module,
            const std::vector<device_line>& devices) {
  json out{{"version", json_version},
           {"kernel", facts.kernel},
           {"machine", facts.machine},
           {"packages", facts.packages},
           {"transparent_huge_pages", facts.transparent_huge_pages},
           {"huge_pages", json::array()},
           {"cma_total", facts.cma_total ? json(*facts.cma_total) : json(nullptr)},
           {"cma_free", facts.cma_free ? json(*facts.cma_free) : json(nullptr)},
           {"memlock_limit", facts.memlock_limit ? json(*facts.memlock_limit) : json(nullptr)},
           {"ipc_lock", facts.ipc_lock},
           {"devices", json::array()}};
  for (const huge_page_pool& pool : facts.huge_pages) {
    out["huge_pages"].push_back(
        {{"page_size", pool.page_size}, {"total", pool.total}, {"free", pool.free}});
  }
  for (const device_line& line : devices) {
    out["devices"].push_back(to_json(line));
  }
  if (module) {
    json regions = json::array();
    for (const region_info& region : module->regions) {
      regions.push_back(to_json(region));
    }
    out["module"] = {{"uapi_version", module->uapi_version},
                     {"kernel_cma", module->kernel_cma},
                     {"pa_mr", module->pa_mr},
                     {"shares", module->shares},
                     {"regions", std::move(regions)},
                     {"reason", nullptr}};
  } else {
    out["module"] = {{"reason", to_string(module.error().reason())},
                     {"detail", module.error().what()}};
  }
  return out;
}

void print_system(const system_facts& facts) {
  fmt::print("{:<12}{} on {}\n", "kernel", facts.kernel, facts.machine);
  fmt::print("{:<12}{}\n", "memopt", MEMOPT_VERSION);
  fmt::print("{:<12}{}\n", "memlock",
             facts.ipc_lock        ? "not limited (CAP_IPC_LOCK)"
             : facts.memlock_limit ? format_bytes(*facts.memlock_limit)
                                   : std::string{"unlimited"});
  fmt::print(
      "{:<12}{}\n", "THP",
      facts.transparent_huge_pages.empty() ? "not in this kernel" : facts.transparent_huge_pages);
  for (const huge_page_pool& pool : facts.huge_pages) {
    fmt::print("{:<12}{} pages of {}, {} free\n", "huge pages", pool.total,
               format_bytes(pool.page_size), pool.free);
  }
  if (facts.cma_total) {
    fmt::print("{:<12}{}, {} free\n", "kernel CMA", format_bytes(*facts.cma_total),
               format_bytes(facts.cma_free.value_or(0)));
  } else {
    fmt::print("{:<12}none\n", "kernel CMA");
  }
}

void print_module(const result<module_info>& module) {
  if (!module) {
    fmt::print("\nmodule      {}\n", wrap(module.error().what(), 79, 12, 12));
    return;
  }
  fmt::print("\nmodule      contract {}, kernel MRs: {}, shares: {}\n", module->uapi_version,
             module->pa_mr ? "yes" : "no", module->shares ? "yes" : "no");
  text_table table{
      {{"region"}, {"node"}, {"total"}, {"free"}, {"used"}, {"pinned"}, {"dirty"}, {"longest"}}};
  for (const region_info& region : module->regions) {
    table.add({std::string{to_string(region.scheme)}, fmt::to_string(region.node),
               format_bytes(region.total), format_bytes(region.free), format_bytes(region.used),
               format_bytes(region.quarantined), format_bytes(region.dirty),
               format_bytes(region.largest_free)});
  }
  fmt::print("{}", table.render());
}

void print_devices(const std::vector<device_line>& devices) {
  if (devices.empty()) {
    fmt::print("\nRDMA        no device\n");
    return;
  }
  text_table table{{{"device"},
                    {"node"},
                    {"largest MR"},
                    {"MRs"},
                    {"ODP", align::left},
                    {"atomics", align::left}}};
  for (const device_line& line : devices) {
    if (!line.opened) {
      table.add_remark(line.name, line.opened.error().what());
      continue;
    }
    const device_capabilities& caps = line.opened->capabilities();
    const int node = line.opened->numa_node();
    const bool unlimited = caps.max_mr_size >= (1ULL << 62U);
    table.add({line.name, node == any_node ? "-" : fmt::to_string(node),
               unlimited ? "no limit" : format_bytes(caps.max_mr_size), fmt::to_string(caps.max_mr),
               caps.odp_advertised ? (caps.odp_implicit ? "implicit" : "explicit") : "no",
               caps.atomics ? "yes" : "no"});
  }
  fmt::print("\n{}", table.render());
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  struct options {
    bool json = false;
  };
  auto given = std::make_shared<options>();
  CLI::App* verb = app.add_subcommand("info", "Show what this machine has for RDMA memory");
  verb->add_flag("--json", given->json, "Machine-readable output");
  verb->callback([given, &status] {
    const system_facts facts = read_system_facts();
    const result<module_info> module = try_query_module();
    const std::vector<device_line> devices = open_devices();
    if (given->json) {
      fmt::print("{}\n", report(facts, module, devices).dump(2));
    } else {
      print_system(facts);
      print_module(module);
      print_devices(devices);
    }
    status = exit_success;
  });
}

}  // namespace memopt::tool
