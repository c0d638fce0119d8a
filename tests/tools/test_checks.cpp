// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>

#include "checks.hpp"

using namespace memopt;
using namespace memopt::tool;

namespace {

machine_state healthy() {
  module_info module{
      .uapi_version = 1, .kernel_cma = true, .pa_mr = true, .shares = true, .regions = {}};
  for (const scheme kind : {scheme::contig, scheme::cma}) {
    module.regions.push_back({.scheme = kind,
                              .node = 0,
                              .total = 1 << 27,
                              .free = 1 << 27,
                              .used = 0,
                              .quarantined = 0,
                              .dirty = 0,
                              .largest_free = 1 << 27});
  }
  machine_state state{.facts = {},
                      .module = module,
                      .module_loaded = true,
                      .module_installed = true,
                      .devices = {{"rxe0", true, true, {}}}};
  state.facts.transparent_huge_pages = "always";
  state.facts.huge_pages = {{2ULL << 20U, 8, 8}, {1ULL << 30U, 1, 1}};
  state.facts.cma_total = 1ULL << 29U;
  state.facts.cma_free = 1ULL << 28U;
  state.facts.ipc_lock = true;
  return state;
}

finding find(const machine_state& state, std::string_view subject) {
  const auto findings = judge(state);
  const auto found = std::ranges::find(findings, subject, &finding::subject);
  REQUIRE(found != findings.end());
  return *found;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a healthy machine has nothing to remedy", "[checks]") {
  for (const finding& f : judge(healthy())) {
    CAPTURE(f.subject, f.found);
    CHECK(f.verdict == verdict::ok);
    CHECK(f.remedy.empty());
  }
}

TEST_CASE("every finding that is not ok names a remedy", "[checks]") {
  machine_state state = healthy();
  state.module = tl::make_unexpected(error{ENOENT, reason::no_module, "open"});
  state.module_loaded = false;
  state.facts = {};
  state.facts.memlock_limit = 0;
  state.devices = {{"rxe0", false, false, "no access"}, {"rxe1", true, false, {}}};
  for (const finding& f : judge(state)) {
    CAPTURE(f.subject);
    CHECK(f.verdict != verdict::ok);
    CHECK_FALSE(f.remedy.empty());
  }
}

TEST_CASE("a module that is not loaded and one that is not installed differ", "[checks]") {
  machine_state state = healthy();
  state.module = tl::make_unexpected(error{ENOENT, reason::no_module, "open"});
  state.module_loaded = false;
  CHECK(find(state, "kernel module").verdict == verdict::failed);
  CHECK_FALSE(mentions(find(state, "kernel module").remedy, "dkms"));
  state.module_installed = false;
  CHECK(mentions(find(state, "kernel module").remedy, "dkms"));
}

TEST_CASE("a device node without access is told from a missing module", "[checks]") {
  machine_state state = healthy();
  state.module = tl::make_unexpected(error{EACCES, reason::module_access, "open"});
  CHECK(find(state, "kernel module").verdict == verdict::ok);
  CHECK(find(state, "device node").verdict == verdict::failed);
  CHECK(mentions(find(state, "device node").remedy, "group"));
}

TEST_CASE("CMA that is missing and CMA of size 0 have different remedies", "[checks]") {
  machine_state state = healthy();
  state.facts.cma_total = 0;
  CHECK(find(state, "kernel CMA").verdict == verdict::warning);
  CHECK(mentions(find(state, "kernel CMA").remedy, "cma="));
  state.facts.cma_total.reset();
  CHECK(find(state, "kernel CMA").verdict == verdict::warning);
  CHECK(mentions(find(state, "kernel CMA").remedy, "CONFIG_CMA"));
}

TEST_CASE("regions: none, full and fine", "[checks]") {
  machine_state state = healthy();
  state.module->regions.pop_back();
  CHECK(mentions(find(state, "cma region").remedy, "cma_size"));
  CHECK(find(state, "contig region").verdict == verdict::ok);
  state.module->regions.front().largest_free = 0;
  CHECK(find(state, "contig region").verdict == verdict::warning);
}

TEST_CASE("huge pages: empty pool, used-up pool, no such size", "[checks]") {
  machine_state state = healthy();
  state.facts.huge_pages = {{2ULL << 20U, 0, 0}, {1ULL << 30U, 2, 0}};
  CHECK(mentions(find(state, "2 MiB pages").remedy, "nr_hugepages"));
  CHECK(mentions(find(state, "1 GiB pages").found, "none free"));
  state.facts.huge_pages.pop_back();
  CHECK(find(state, "1 GiB pages").verdict == verdict::warning);
}

TEST_CASE("locked memory: capability, unlimited, zero, small, enough", "[checks]") {
  machine_state state = healthy();
  state.facts.memlock_limit = 0;
  CHECK(find(state, "locked memory").verdict == verdict::ok);
  state.facts.ipc_lock = false;
  CHECK(find(state, "locked memory").verdict == verdict::failed);
  state.facts.memlock_limit = 8ULL << 20U;
  CHECK(find(state, "locked memory").verdict == verdict::warning);
  state.facts.memlock_limit = 1ULL << 30U;
  CHECK(find(state, "locked memory").verdict == verdict::ok);
  state.facts.memlock_limit.reset();
  CHECK(find(state, "locked memory").verdict == verdict::ok);
}

TEST_CASE("without an RDMA device check fails", "[checks]") {
  machine_state state = healthy();
  state.devices.clear();
  CHECK(find(state, "RDMA device").verdict == verdict::failed);
}
