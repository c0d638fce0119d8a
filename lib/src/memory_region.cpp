// SPDX-License-Identifier: MIT
#include <memopt/memory_region.hpp>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <infiniband/verbs.h>

#include "detail/attempt.hpp"
#include "detail/device_state.hpp"
#include "detail/registration_failure.hpp"
#include "detail/system_calls.hpp"

namespace memopt {
namespace {

int verbs_access(access rights) {
  unsigned flags = 0;
  flags |= has(rights, access::local_write) ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0U;
  flags |= has(rights, access::remote_read) ? unsigned{IBV_ACCESS_REMOTE_READ} : 0U;
  flags |= has(rights, access::remote_write) ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0U;
  flags |= has(rights, access::remote_atomic) ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0U;
  return static_cast<int>(flags);
}

ibv_mr* register_range(const device& dev, void* address, std::size_t length, access rights) {
  if (!dev) {
    throw error{EINVAL, reason::invalid_argument, "register memory", "the device is empty"};
  }
  const std::string operation =
      "register " + std::to_string(length) + " bytes on " + std::string{dev.name()};
  if (address == nullptr || length == 0) {
    throw error{EINVAL, reason::invalid_argument, operation, "there is no memory in the range"};
  }
  if (length >
      std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(address)) {
    throw error{EOVERFLOW, reason::invalid_argument, operation, "the range wraps around"};
  }
  if (!is_valid(rights)) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "remote_write and remote_atomic need local_write"};
  }
  errno = 0;
  ibv_mr* mr = detail::sys().reg_mr(dev.pd(), address, length, verbs_access(rights));
  if (mr != nullptr) {
    return mr;
  }
  const int failed = errno != 0 ? errno : ENOMEM;
  const detail::diagnosis found = detail::diagnose(
      detail::look_around(failed, address, length, rights, dev.capabilities().max_mr_size));
  throw error{failed, found.why, operation, found.detail};
}

}  // namespace

memory_region::memory_region(std::shared_ptr<detail::device_state> dev, ibv_mr* mr, buffer&& memory,
                             access rights) noexcept
    : device_{std::move(dev)}, mr_{mr}, memory_{std::move(memory)}, rights_{rights} {}

memory_region::memory_region(const device& dev, buffer&& memory, access rights)
    : device_{dev.state()},
      mr_{register_range(dev, memory.data(), memory.size(), rights)},
      memory_{std::move(memory)},
      rights_{rights} {}

memory_region::memory_region(const device& dev, void* address, std::size_t length, access rights)
    : device_{dev.state()}, mr_{register_range(dev, address, length, rights)}, rights_{rights} {}

result<memory_region> memory_region::try_register(const device& dev, buffer&& memory,
                                                  access rights) noexcept {
  // The buffer moves only once nothing can fail any more.
  return detail::attempt("register a buffer", [&] {
    ibv_mr* mr = register_range(dev, memory.data(), memory.size(), rights);
    return memory_region{dev.state(), mr, std::move(memory), rights};
  });
}

result<memory_region> memory_region::try_register(const device& dev, void* address,
                                                  std::size_t length, access rights) noexcept {
  return detail::attempt("register memory", [&] {
    return memory_region{dev, address, length, rights};
  });
}

memory_region::memory_region(memory_region&& other) noexcept
    : device_{std::move(other.device_)},
      mr_{std::exchange(other.mr_, nullptr)},
      memory_{std::move(other.memory_)},
      rights_{other.rights_} {}

memory_region& memory_region::operator=(memory_region&& other) noexcept {
  memory_region old{std::move(*this)};
  device_ = std::move(other.device_);
  mr_ = std::exchange(other.mr_, nullptr);
  memory_ = std::move(other.memory_);
  rights_ = other.rights_;
  return *this;
}

memory_region::~memory_region() {
  if (mr_ != nullptr) {
    // A failure leaves the MR to the end of the process; the pins it holds keep the memory
    // behind it from being reused.
    detail::sys().dereg_mr(mr_);
  }
}

void* memory_region::addr() const noexcept { return mr_ != nullptr ? mr_->addr : nullptr; }

std::size_t memory_region::length() const noexcept { return mr_ != nullptr ? mr_->length : 0; }

std::uint32_t memory_region::lkey() const noexcept { return mr_ != nullptr ? mr_->lkey : 0; }

std::uint32_t memory_region::rkey() const noexcept { return mr_ != nullptr ? mr_->rkey : 0; }

std::uint64_t memory_region::iova() const noexcept {
  return reinterpret_cast<std::uintptr_t>(addr());
}

buffer memory_region::release() {
  if (mr_ != nullptr) {
    if (const int failed = detail::sys().dereg_mr(mr_); failed != 0) {
      throw error{failed, failed == EBUSY ? reason::invalid_argument : reason::unknown,
                  "deregister " + std::to_string(length()) + " bytes",
                  failed == EBUSY ? "a memory window is bound to it" : ""};
    }
    mr_ = nullptr;
  }
  device_.reset();
  return std::move(memory_);
}

}  // namespace memopt
