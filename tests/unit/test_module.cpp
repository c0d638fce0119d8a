// SPDX-License-Identifier: MIT
// Asking the module, one that answers well and several that do not.

#include <cerrno>
#include <limits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memopt/module.hpp>
#include <memopt/units.hpp>

#include "expect.hpp"
#include "fake_module.hpp"

using namespace memopt;
using namespace memopt::literals;
using memopt::test::fake_module;
using memopt::test::reason_of;

namespace {

reason reason_of_query() {
  return reason_of([] { (void)query_module(); });
}

}  // namespace

TEST_CASE("regions and features are reported", "[module]") {
  fake_module module;
  module.regions = {{MEMOPT_KIND_CMA, 0, 64_MiB, 24_MiB}, {MEMOPT_KIND_CONTIG, 1, 8_MiB, 8_MiB}};
  module.features = MEMOPT_FEATURE_KERNEL_CMA | MEMOPT_FEATURE_SHARE;
  const module_info info = query_module();
  CHECK(info.uapi_version == MEMOPT_UAPI_VERSION);
  CHECK(info.kernel_cma);
  CHECK(info.shares);
  CHECK_FALSE(info.pa_mr);
  REQUIRE(info.regions.size() == 2);
  CHECK(info.regions[0].scheme == scheme::cma);
  CHECK(info.regions[0].total == 64_MiB);
  CHECK(info.regions[0].free == 24_MiB);
  CHECK(info.regions[0].used == 40_MiB);
  CHECK(info.regions[1].scheme == scheme::contig);
  CHECK(info.regions[1].node == 1);
  CHECK(module.clean());
}

TEST_CASE("a module without regions is fine", "[module]") {
  fake_module module;
  module.regions.clear();
  CHECK(query_module().regions.empty());
}

TEST_CASE("a region of a kind that is not known yet is passed over", "[module]") {
  fake_module module;
  module.regions = {{77, 0, 1_MiB, 1_MiB}, {MEMOPT_KIND_CMA, 0, 2_MiB, 2_MiB}};
  const module_info info = query_module();
  REQUIRE(info.regions.size() == 1);
  CHECK(info.regions[0].total == 2_MiB);
}

TEST_CASE("why the module can not be opened", "[module]") {
  fake_module module;
  const auto refused_with = [&](int errnum) {
    module.open_errno = errnum;
    return reason_of_query();
  };
  CHECK(refused_with(ENOENT) == reason::no_module);
  CHECK(refused_with(ENXIO) == reason::no_module);
  CHECK(refused_with(EACCES) == reason::module_access);
  CHECK(refused_with(EPERM) == reason::module_access);
  CHECK(refused_with(ENOMEM) == reason::out_of_memory);
  CHECK(refused_with(EMFILE) == reason::unknown);
}

TEST_CASE("an interrupted command is tried again", "[module]") {
  fake_module module;
  module.interruptions = 3;
  CHECK(query_module().regions.size() == 2);
  CHECK(module.interruptions == 0);
}

TEST_CASE("a module that does not fit the library is told from a broken one", "[module]") {
  fake_module module;
  SECTION("the command is not known") {
    module.fail[MEMOPT_CMD_QUERY] = ENOTTY;
    CHECK(reason_of_query() == reason::module_mismatch);
  }
  SECTION("the struct is newer") {
    module.fail[MEMOPT_CMD_QUERY] = E2BIG;
    CHECK(reason_of_query() == reason::module_mismatch);
  }
  SECTION("a region can not be asked about") {
    module.fail[MEMOPT_CMD_REGION_INFO] = ENOTTY;
    CHECK(reason_of_query() == reason::module_mismatch);
  }
  SECTION("something else") {
    module.fail[MEMOPT_CMD_QUERY] = EIO;
    CHECK(reason_of_query() == reason::unknown);
  }
  CHECK(module.clean());
}

TEST_CASE("answers that make no sense are not believed", "[module]") {
  fake_module module;
  if (GENERATE(false, true)) {
    module.version = 0;
  } else {
    // more regions than memory has
    module.twist = [](unsigned command, void* argument) {
      if (command == MEMOPT_CMD_QUERY) {
        static_cast<memopt_query*>(argument)->out_region_count =
            std::numeric_limits<std::uint32_t>::max();
      }
    };
  }
  CHECK(reason_of_query() == reason::module_mismatch);
  const auto tried = try_query_module();
  REQUIRE_FALSE(tried);
  CHECK(tried.error().reason() == reason::module_mismatch);
  CHECK(module.clean());
}
