// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <tl/expected.hpp>

namespace memopt {

/// Why something failed, where errno alone would leave the reader guessing.
/// New values may be added at the end; treat an unknown one like `unknown`.
enum class reason : std::uint16_t {
  unknown,              ///< nothing more than errno is known
  invalid_argument,     ///< the caller asked for something that can not be
  out_of_memory,        ///< the kernel has no memory left
  memlock,              ///< RLIMIT_MEMLOCK is too low for this many bytes
  memlock_zero,         ///< RLIMIT_MEMLOCK is 0, which the kernel reports as EPERM
  userns,               ///< root inside a user namespace is bound by RLIMIT_MEMLOCK
  pfnmap,               ///< a device mapping (PFNMAP or IO); user space can not pin it
  protection,           ///< write access asked for on a read-only mapping
  file_backed,          ///< a shared file mapping whose file system forbids long-term pins
  hole,                 ///< part of the range is not mapped
  migration,            ///< the kernel could not move pages out of a movable or CMA zone
  max_map_count,        ///< vm.max_map_count mappings exist
  hugetlb_pool,         ///< not enough free huge pages in the kernel's pool
  hugetlb_cgroup,       ///< the hugetlb cgroup limit is reached
  thp_unavailable,      ///< the kernel did not back the range with huge pages
  device_limit,         ///< the device takes no MR this large, or no more MRs
  rdma_cgroup,          ///< the rdma cgroup limit is reached
  no_device,            ///< no such RDMA device
  device_access,        ///< the device node of the RDMA device can not be opened
  device_gone,          ///< the RDMA device was removed
  no_module,            ///< the kernel module rdma_memopt is not loaded
  module_access,        ///< /dev/rdma_memopt can not be opened by this user
  module_mismatch,      ///< module and library do not understand each other
  no_cma,               ///< the kernel has no CMA, or its area has size 0
  no_region,            ///< the module has no region of this kind on this node
  region_full,          ///< the region has no free run of this length and alignment
  object_limit,         ///< a limit on the number of objects is reached
  no_dmabuf,            ///< the provider can not register a dma-buf
  no_odp,               ///< the device has no on-demand paging
  odp_unreliable,       ///< the device has on-demand paging but the data came out wrong
  unsupported,          ///< this kernel, device or transport can not do it
  permission,           ///< a capability is missing
  address_unavailable,  ///< no RDMA device with that address is visible here
  address_in_use,       ///< the port is taken
  unreachable,          ///< the peer did not answer
  rejected,             ///< the peer refused the connection
  access_denied,        ///< the peer refused the access: out of bounds, no right, or revoked
  disconnected,         ///< the connection is gone
  timeout,              ///< the time given ran out
  pool_exhausted,       ///< the pool is at its limit and every block is in use
};

/// Stable lower-case name, as used in JSON ("memlock", "odp_unreliable" …).
[[nodiscard]] std::string_view to_string(reason why) noexcept;

/// One sentence that says what the user can do about it. Empty for `unknown`.
[[nodiscard]] std::string_view remedy(reason why) noexcept;

/// What every failing call of the library throws or returns.
///
/// `code()` is the errno of the failing call, `operation()` names what was tried and on
/// what, `what()` is the whole sentence: operation, cause, and remedy. Copying does not
/// allocate. Thread-safe like any value.
class error : public std::system_error {
 public:
  /// @param errnum positive errno value
  /// @param operation what failed, for example "register 4194304 bytes on rxe0"
  /// @param detail facts found on the spot ("limit 8192 kB, asked for 4194304 B"); may be empty
  error(int errnum, memopt::reason why, const std::string& operation,
        const std::string& detail = {});

  [[nodiscard]] memopt::reason reason() const noexcept { return reason_; }
  [[nodiscard]] std::string_view operation() const noexcept;
  [[nodiscard]] std::string_view remedy() const noexcept { return memopt::remedy(reason_); }

 private:
  memopt::reason reason_;
  std::size_t operation_length_;  // operation() is a prefix of what()
};

/// A value or the error that a throwing call would have thrown.
template <typename T>
using result = tl::expected<T, error>;

}  // namespace memopt
