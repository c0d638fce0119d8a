// SPDX-License-Identifier: MIT
#include "detail/system_calls.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

namespace memopt::detail {
namespace {

constexpr system_calls real{
    .open = [](const char* path, int flags) { return ::open(path, flags); },
    .close = [](int fd) { return ::close(fd); },
    .duplicate = [](int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); },
    .ioctl = [](int fd, unsigned long request,
                void* argument) { return ::ioctl(fd, request, argument); },
    .mmap = [](void* address, std::size_t length, int protection, int flags, int fd,
               off_t offset) { return ::mmap(address, length, protection, flags, fd, offset); },
    .munmap = [](void* address, std::size_t length) { return ::munmap(address, length); },
    .madvise = [](void* address, std::size_t length,
                  int advice) { return ::madvise(address, length, advice); },
    .reg_mr = [](ibv_pd* pd, void* address, std::size_t length,
                 int access) { return ibv_reg_mr(pd, address, length, access); },
    .dereg_mr = [](ibv_mr* mr) { return ibv_dereg_mr(mr); },
};

}  // namespace

const system_calls& real_system_calls() noexcept { return real; }

system_calls& sys() noexcept {
  static system_calls table = real;
  return table;
}

}  // namespace memopt::detail
