// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <memopt/error.hpp>

namespace memopt::test {

/// The error an action throws; the test fails if it throws none.
template <typename Action>
error error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const error& failure) {
    return failure;
  }
  FAIL("nothing was thrown");
  throw;  // not reached
}

template <typename Action>
reason reason_of(Action&& action) {
  return error_of(std::forward<Action>(action)).reason();
}

}  // namespace memopt::test
