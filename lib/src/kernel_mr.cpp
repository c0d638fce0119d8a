// SPDX-License-Identifier: MIT
#include <memopt/kernel_mr.hpp>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "detail/attempt.hpp"
#include "detail/buffer_state.hpp"
#include "detail/module_file.hpp"

namespace memopt {
namespace {

reason reason_of(int failed) {
  return failed == ENODEV ? reason::no_device : detail::common_reason(failed);
}

}  // namespace

kernel_mr::kernel_mr(const buffer& memory, std::string_view ibdev, access rights) {
  const std::string operation = "register " + std::to_string(memory.size()) +
                                " bytes by physical address on " + std::string{ibdev};
  const detail::buffer_state& state = detail::module_buffer(memory, operation);
  if (!is_valid(rights)) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "remote_write and remote_atomic need local_write"};
  }
  memopt_mr_reg argument{};
  if (ibdev.empty() || ibdev.size() >= sizeof argument.ibdev) {
    throw error{EINVAL, reason::invalid_argument, operation, "that is no name of a device"};
  }
  argument.buf_id = state.buffer_id;
  argument.access = detail::module_access(rights);
  argument.length = state.mapped_size;
  std::memcpy(argument.ibdev, ibdev.data(), ibdev.size());

  detail::module_file file = detail::module_file::duplicate_of(state.file.fd());
  if (const int failed = detail::call_module(file.fd(), MEMOPT_MR_REG, argument); failed != 0) {
    throw error{failed, reason_of(failed), operation};
  }
  fd_ = file.release();
  id_ = argument.out_mr_id;
  rkey_ = argument.out_rkey;
  iova_ = argument.out_iova;
}

result<kernel_mr> kernel_mr::try_register(const buffer& memory, std::string_view ibdev,
                                          access rights) noexcept {
  return detail::attempt("register by physical address", [&] {
    return kernel_mr{memory, ibdev, rights};
  });
}

kernel_mr::kernel_mr(kernel_mr&& other) noexcept
    : fd_{std::exchange(other.fd_, -1)},
      id_{std::exchange(other.id_, 0)},
      rkey_{other.rkey_},
      iova_{other.iova_} {}

kernel_mr& kernel_mr::operator=(kernel_mr&& other) noexcept {
  kernel_mr old{std::move(*this)};
  fd_ = std::exchange(other.fd_, -1);
  id_ = std::exchange(other.id_, 0);
  rkey_ = other.rkey_;
  iova_ = other.iova_;
  return *this;
}

kernel_mr::~kernel_mr() {
  const detail::module_file file{fd_};
  if (id_ != 0) {
    memopt_mr_dereg argument{};
    argument.mr_id = id_;
    (void)detail::call_module(file.fd(), MEMOPT_MR_DEREG, argument);
  }
}

kernel_mr_info kernel_mr::info() const {
  memopt_mr_info answer{};
  answer.mr_id = id_;
  if (const int failed = detail::call_module(fd_, MEMOPT_MR_INFO, answer); failed != 0) {
    throw error{failed, reason_of(failed), "ask the module about an MR"};
  }
  return {.entries = answer.out_entries,
          .page_size = answer.out_page_size,
          .length = answer.out_length,
          .device_gone = (answer.out_state & MEMOPT_MR_STATE_DEVICE_GONE) != 0};
}

}  // namespace memopt
