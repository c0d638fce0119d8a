// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include <linux/rdma_memopt.h>

#include <memopt/access.hpp>
#include <memopt/error.hpp>

namespace memopt::detail {

/// An open file of the module. Everything made through it ends when the last duplicate closes.
class module_file {
 public:
  module_file() noexcept = default;
  explicit module_file(int fd) noexcept : fd_{fd} {}
  module_file(module_file&& other) noexcept : fd_{other.release()} {}
  module_file& operator=(module_file&& other) noexcept;
  module_file(const module_file&) = delete;
  module_file& operator=(const module_file&) = delete;
  ~module_file() { reset(); }

  /// @throws error `no_module`, `module_access`
  [[nodiscard]] static module_file open();
  /// Another descriptor of the same open file. @throws error
  [[nodiscard]] static module_file duplicate_of(int fd);

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// One command, with `size` filled in. @return 0 or a positive errno value
template <typename Argument>
[[nodiscard]] int call_module(int fd, unsigned long command, Argument& argument) noexcept;

/// ENOTTY, E2BIG and a struct that is too small all mean that the versions do not fit.
[[nodiscard]] bool is_mismatch(int errnum) noexcept;

/// What an errno value means that all commands about verbs objects have in common.
[[nodiscard]] reason common_reason(int errnum) noexcept;

/// @throws error for what QUERY and REGION_INFO can answer
[[nodiscard]] memopt_query query(int fd);
[[nodiscard]] memopt_region_info region(int fd, std::uint32_t index);

/// Rights as the module counts them.
[[nodiscard]] std::uint32_t module_access(access rights) noexcept;

int raw_call(int fd, unsigned long command, void* argument) noexcept;

template <typename Argument>
int call_module(int fd, unsigned long command, Argument& argument) noexcept {
  argument.size = sizeof argument;
  return raw_call(fd, command, &argument);
}

}  // namespace memopt::detail
