// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <memopt/error.hpp>

namespace memopt::detail {

/// Turn a throwing call into a result. What is no memopt::error becomes one.
template <typename Call>
[[nodiscard]] auto attempt(const char* operation, Call&& call) noexcept
    -> result<std::invoke_result_t<Call>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
      std::forward<Call>(call)();
      return {};
    } else {
      return std::forward<Call>(call)();
    }
  } catch (const error& failure) {
    return tl::make_unexpected(failure);
  } catch (const std::bad_alloc&) {
    return tl::make_unexpected(error{ENOMEM, reason::out_of_memory, operation});
  } catch (const std::exception& failure) {
    return tl::make_unexpected(error{EINVAL, reason::unknown, operation, failure.what()});
  }
}

}  // namespace memopt::detail
