// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <sys/types.h>

struct ibv_mr;
struct ibv_pd;

namespace memopt::detail {

/// The calls whose answers decide what the library does. One table for the process, so that
/// tests can put other answers in its place; nothing else may write to it.
struct system_calls {
  int (*open)(const char* path, int flags);
  int (*close)(int fd);
  int (*duplicate)(int fd);
  int (*ioctl)(int fd, unsigned long request, void* argument);
  void* (*mmap)(void* address, std::size_t length, int protection, int flags, int fd, off_t offset);
  int (*munmap)(void* address, std::size_t length);
  int (*madvise)(void* address, std::size_t length, int advice);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, std::size_t length, int access);
  int (*dereg_mr)(ibv_mr* mr);
};

[[nodiscard]] system_calls& sys() noexcept;

/// The kernel's own calls.
[[nodiscard]] const system_calls& real_system_calls() noexcept;

}  // namespace memopt::detail
