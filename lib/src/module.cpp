// SPDX-License-Identifier: MIT
#include <memopt/module.hpp>

#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "detail/attempt.hpp"
#include "detail/module_file.hpp"
#include "detail/system_calls.hpp"

namespace memopt {
namespace detail {
namespace {

constexpr const char* device_path = "/dev/" MEMOPT_DEVICE_NAME;

// An answer from a broken or hostile module must not make us loop for ever.
constexpr std::uint32_t most_regions = 4096;

}  // namespace

module_file& module_file::operator=(module_file&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

module_file module_file::open() {
  const int fd = sys().open(device_path, O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    return module_file{fd};
  }
  const int failed = errno;
  const std::string operation = std::string{"open "} + device_path;
  switch (failed) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      throw error{failed, reason::no_module, operation};
    case EACCES:
    case EPERM:
      throw error{failed, reason::module_access, operation};
    case ENOMEM:
      throw error{failed, reason::out_of_memory, operation};
    default:
      throw error{failed, reason::unknown, operation};
  }
}

module_file module_file::duplicate_of(int fd) {
  const int copy = sys().duplicate(fd);
  if (copy < 0) {
    throw error{errno, reason::unknown, "duplicate a descriptor of the module"};
  }
  return module_file{copy};
}

int module_file::release() noexcept { return std::exchange(fd_, -1); }

void module_file::reset() noexcept {
  if (fd_ >= 0) {
    sys().close(release());
  }
}

int raw_call(int fd, unsigned long command, void* argument) noexcept {
  for (;;) {
    if (sys().ioctl(fd, command, argument) >= 0) {
      return 0;
    }
    if (errno != EINTR) {
      return errno;
    }
  }
}

bool is_mismatch(int errnum) noexcept { return errnum == ENOTTY || errnum == E2BIG; }

reason common_reason(int errnum) noexcept {
  switch (errnum) {
    case EINVAL:
    case EOVERFLOW:
    case ENOENT:
      return reason::invalid_argument;
    case EOPNOTSUPP:
      return reason::unsupported;
    case ENOSPC:
      return reason::object_limit;
    case ENOMEM:
      return reason::out_of_memory;
    default:
      return is_mismatch(errnum) ? reason::module_mismatch : reason::unknown;
  }
}

memopt_query query(int fd) {
  memopt_query answer{};
  if (const int failed = call_module(fd, MEMOPT_QUERY, answer); failed != 0) {
    throw error{failed, is_mismatch(failed) ? reason::module_mismatch : reason::unknown,
                "ask the module what it can do"};
  }
  if (answer.out_uapi_version == 0 || answer.out_region_count > most_regions) {
    throw error{EPROTO, reason::module_mismatch, "ask the module what it can do",
                "version " + std::to_string(answer.out_uapi_version) + ", " +
                    std::to_string(answer.out_region_count) + " regions"};
  }
  return answer;
}

memopt_region_info region(int fd, std::uint32_t index) {
  memopt_region_info answer{};
  answer.index = index;
  if (const int failed = call_module(fd, MEMOPT_REGION_INFO, answer); failed != 0) {
    throw error{failed, is_mismatch(failed) ? reason::module_mismatch : reason::unknown,
                "ask the module about region " + std::to_string(index)};
  }
  return answer;
}

std::uint32_t module_access(access rights) noexcept {
  const auto bit = [&](access right, std::uint32_t value) {
    return has(rights, right) ? value : 0U;
  };
  return bit(access::local_write, MEMOPT_ACCESS_LOCAL_WRITE) |
         bit(access::remote_read, MEMOPT_ACCESS_REMOTE_READ) |
         bit(access::remote_write, MEMOPT_ACCESS_REMOTE_WRITE) |
         bit(access::remote_atomic, MEMOPT_ACCESS_REMOTE_ATOMIC);
}

}  // namespace detail

module_info query_module() {
  const detail::module_file file = detail::module_file::open();
  const memopt_query answer = detail::query(file.fd());
  module_info info{.uapi_version = answer.out_uapi_version,
                   .kernel_cma = (answer.out_features & MEMOPT_FEATURE_KERNEL_CMA) != 0,
                   .pa_mr = (answer.out_features & MEMOPT_FEATURE_PA_MR) != 0,
                   .shares = (answer.out_features & MEMOPT_FEATURE_SHARE) != 0,
                   .regions = {}};
  for (std::uint32_t index = 0; index < answer.out_region_count; ++index) {
    const memopt_region_info found = detail::region(file.fd(), index);
    if (found.out_kind != MEMOPT_KIND_CMA && found.out_kind != MEMOPT_KIND_CONTIG) {
      continue;  // a kind of a newer module
    }
    info.regions.push_back(
        {.scheme = found.out_kind == MEMOPT_KIND_CMA ? scheme::cma : scheme::contig,
         .node = found.out_node,
         .total = found.out_total,
         .free = found.out_free,
         .used = found.out_used,
         .quarantined = found.out_quarantined,
         .dirty = found.out_dirty,
         .largest_free = found.out_largest_free});
  }
  return info;
}

result<module_info> try_query_module() noexcept {
  return detail::attempt("ask the module", [] { return query_module(); });
}

}  // namespace memopt
