// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <memopt/access.hpp>
#include <memopt/buffer.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>

struct ibv_mr;

namespace memopt {

namespace detail {
struct region_access;
}

/// A memory region (MR) on the device's PD.
///
/// Holds its device, and its buffer if it was given one; the destructor deregisters, then frees
/// the buffer. Move-only; a moved-from region is empty. Const members may be called from several
/// threads. No work request may use the keys once destruction has begun.
class memory_region {
 public:
  /// Register a whole buffer and own it.
  /// @throws error whose reason tells the causes of ENOMEM and EFAULT apart; the buffer is lost
  ///         with the exception, use try_register() to keep it.
  memory_region(const device& dev, buffer&& memory, access rights);

  /// Register memory of the caller, who keeps it mapped until this object has gone.
  memory_region(const device& dev, void* address, std::size_t length, access rights);

  /// Like the first constructor; on failure `memory` is untouched.
  [[nodiscard]] static result<memory_region> try_register(const device& dev, buffer&& memory,
                                                          access rights) noexcept;
  [[nodiscard]] static result<memory_region> try_register(const device& dev, void* address,
                                                          std::size_t length,
                                                          access rights) noexcept;

  memory_region(memory_region&&) noexcept;
  memory_region& operator=(memory_region&&) noexcept;
  memory_region(const memory_region&) = delete;
  memory_region& operator=(const memory_region&) = delete;
  ~memory_region();

  [[nodiscard]] explicit operator bool() const noexcept { return mr_ != nullptr; }

  [[nodiscard]] void* addr() const noexcept;
  [[nodiscard]] std::size_t length() const noexcept;
  [[nodiscard]] std::uint32_t lkey() const noexcept;
  [[nodiscard]] std::uint32_t rkey() const noexcept;
  /// Address remote peers use for byte 0.
  [[nodiscard]] std::uint64_t iova() const noexcept;
  [[nodiscard]] access rights() const noexcept { return rights_; }
  /// The verbs object, for calls this class does not wrap. Never deregister it yourself.
  [[nodiscard]] ibv_mr* handle() const noexcept { return mr_; }
  /// The owned buffer; empty if the memory is the caller's.
  [[nodiscard]] const buffer& memory() const noexcept { return memory_; }

  /// Deregister now and give the buffer back. Afterwards the region is empty.
  /// @throws error if the kernel refuses (an open memory window, for example); nothing changes.
  buffer release();

 private:
  friend struct detail::region_access;
  memory_region(std::shared_ptr<detail::device_state> dev, ibv_mr* mr, buffer&& memory,
                access rights) noexcept;

  std::shared_ptr<detail::device_state> device_;
  ibv_mr* mr_ = nullptr;
  buffer memory_;
  access rights_ = access::local_read;
};

}  // namespace memopt
