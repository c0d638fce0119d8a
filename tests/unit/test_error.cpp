// SPDX-License-Identifier: MIT
// Errors as values: stable names, whole sentences, nothing lost in copies.

#include <cerrno>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memopt/error.hpp>

using namespace memopt;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto last_reason = reason::pool_exhausted;

}  // namespace

TEST_CASE("every reason has a name of its own and, but for unknown, a remedy", "[error]") {
  std::set<std::string_view> names;
  for (unsigned value = 0; value <= static_cast<unsigned>(last_reason); ++value) {
    const auto why = static_cast<reason>(value);
    const std::string_view name = to_string(why);
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
    CHECK(remedy(why).empty() == (why == reason::unknown));
  }
}

TEST_CASE("names that programs rely on stay", "[error]") {
  CHECK(to_string(reason::memlock) == "memlock");
  CHECK(to_string(reason::pfnmap) == "pfnmap");
  CHECK(to_string(reason::odp_unreliable) == "odp_unreliable");
  CHECK(to_string(reason::pool_exhausted) == "pool_exhausted");
}

TEST_CASE("a reason of a newer library is unknown", "[error]") {
  const auto newer = static_cast<reason>(60000);
  CHECK(to_string(newer) == "unknown");
  CHECK(remedy(newer).empty());
}

TEST_CASE("an error says what was tried, what was found and what to do", "[error]") {
  const error failure{EFAULT, reason::pfnmap, "register 64 bytes on rxe0", "seen on the spot"};
  CHECK(failure.code() == std::errc::bad_address);
  CHECK(failure.reason() == reason::pfnmap);
  CHECK(failure.operation() == "register 64 bytes on rxe0");
  const std::string text = failure.what();
  CHECK_THAT(text, ContainsSubstring("seen on the spot"));
  CHECK_THAT(text, ContainsSubstring(std::string{remedy(reason::pfnmap)}));
  CHECK_THAT(text, ContainsSubstring("Bad address"));
}

TEST_CASE("parts that are missing leave no trace in the sentence", "[error]") {
  const std::string bare = error{EIO, reason::unknown, "do it"}.what();
  CHECK(bare == "do it: Input/output error");
  const std::string detail = error{EIO, reason::unknown, "do it", "seen"}.what();
  CHECK(detail == "do it (seen): Input/output error");
  const std::string remedied = error{EIO, reason::disconnected, "do it"}.what();
  CHECK(remedied == "do it (connect again): Input/output error");
}

TEST_CASE("operation() of a copy outlives the original", "[error]") {
  error copy{EIO, reason::unknown, "another operation"};
  {
    const error original{ENOMEM, reason::memlock, "register memory", "detail"};
    copy = original;
  }
  CHECK(copy.operation() == "register memory");
  CHECK(copy.reason() == reason::memlock);
}
