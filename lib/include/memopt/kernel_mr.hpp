// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <memopt/access.hpp>
#include <memopt/buffer.hpp>
#include <memopt/error.hpp>

namespace memopt {

/// What the module posted for a physical-address MR.
struct kernel_mr_info {
  std::uint32_t entries;    ///< translation entries posted to the device
  std::uint32_t page_size;  ///< bytes each covers
  std::uint64_t length;     ///< bytes
  bool device_gone;         ///< the RDMA device was removed; the key is dead
};

/// A physical-address MR (PA-MR) of the module over a `cma` or `contig` buffer.
///
/// It lives on a PD of the module, bounded to the range and the rights asked for; no queue pair
/// of this process or of a peer is in that PD. It serves to measure what such a registration
/// costs and to see its entries; to let peers in, make a `share`, which registers for itself.
/// Move-only. The destructor deregisters. The buffer may go first: the module keeps its memory.
class kernel_mr {
 public:
  /// @param memory `cma` or `contig`; else `invalid_argument`
  /// @param ibdev name of the RDMA device
  /// @throws error `no_device`, `unsupported`, `device_limit`, `invalid_argument`, `object_limit`.
  kernel_mr(const buffer& memory, std::string_view ibdev, access rights);
  [[nodiscard]] static result<kernel_mr> try_register(const buffer& memory, std::string_view ibdev,
                                                      access rights) noexcept;

  kernel_mr(kernel_mr&&) noexcept;
  kernel_mr& operator=(kernel_mr&&) noexcept;
  kernel_mr(const kernel_mr&) = delete;
  kernel_mr& operator=(const kernel_mr&) = delete;
  ~kernel_mr();

  [[nodiscard]] std::uint32_t rkey() const noexcept { return rkey_; }
  [[nodiscard]] std::uint64_t iova() const noexcept { return iova_; }
  /// Asks the module. @throws error if it does not answer.
  [[nodiscard]] kernel_mr_info info() const;

 private:
  kernel_mr() noexcept = default;

  int fd_ = -1;  // own duplicate of the buffer's descriptor
  std::uint32_t id_ = 0;
  std::uint32_t rkey_ = 0;
  std::uint64_t iova_ = 0;
};

}  // namespace memopt
