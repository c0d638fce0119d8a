// SPDX-License-Identifier: MIT
// memopt check: would registration and allocation work here, and if not, why.
#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checks.hpp"
#include "text_table.hpp"
#include "verbs.hpp"

namespace memopt::tool {
namespace {

constexpr int json_version = 1;

void print_json(const std::vector<finding>& findings, bool usable) {
  nlohmann::json list = nlohmann::json::array();
  for (const finding& f : findings) {
    list.push_back(
        {{"subject", f.subject},
         {"verdict", to_string(f.verdict)},
         {"found", f.found},
         {"remedy", f.remedy.empty() ? nlohmann::json(nullptr) : nlohmann::json(f.remedy)}});
  }
  const nlohmann::json out{{"version", json_version}, {"usable", usable}, {"findings", list}};
  fmt::print("{}\n", out.dump(2));
}

void print_text(const std::vector<finding>& findings) {
  constexpr std::size_t width = 79;
  constexpr std::size_t indent = 27;
  for (const finding& f : findings) {
    fmt::print("{:<8} {:<17} {}\n", to_string(f.verdict), f.subject,
               wrap(f.found, width, indent, indent));
    if (!f.remedy.empty()) {
      fmt::print("{:>{}}-> {}\n", "", indent, wrap(f.remedy, width, indent + 3, indent + 3));
    }
  }
  const auto count = [&](verdict v) { return std::ranges::count(findings, v, &finding::verdict); };
  fmt::print("{} ok, {} warnings, {} failed\n", count(verdict::ok), count(verdict::warning),
             count(verdict::failed));
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  struct options {
    bool json = false;
  };
  auto given = std::make_shared<options>();
  CLI::App* verb =
      app.add_subcommand("check", "Find out why memory could not be had or registered");
  verb->add_flag("--json", given->json, "Machine-readable output");
  verb->callback([given, &status] {
    const std::vector<finding> findings = judge(read_machine_state());
    const bool usable = std::ranges::none_of(
        findings, [](const finding& f) { return f.verdict == verdict::failed; });
    if (given->json) {
      print_json(findings, usable);
    } else {
      print_text(findings);
    }
    status = usable ? exit_success : exit_failure;
  });
}

}  // namespace memopt::tool
