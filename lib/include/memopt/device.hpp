// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <memopt/error.hpp>

struct ibv_context;
struct ibv_pd;

namespace memopt {

namespace detail {
struct device_state;
struct device_access;
}  // namespace detail

/// What an RDMA device says of itself. Fixed while the device is open.
struct device_capabilities {
  std::uint64_t max_mr_size;    ///< bytes of the largest MR
  std::uint64_t page_size_cap;  ///< bit n set: an MTT entry may cover 2^n bytes
  std::uint32_t max_mr;         ///< MRs the device holds
  bool odp_advertised;          ///< explicit on-demand paging for RC is advertised; see odp.hpp
  bool odp_implicit;            ///< whole-address-space on-demand paging is advertised
  bool atomics;                 ///< remote compare-and-swap and fetch-and-add
};

/// An RDMA device with one protection domain (PD).
///
/// Owns the verbs context and the PD when made by open(), neither when made by borrow().
/// Everything registered on the device shares its state, so objects may be destroyed in any
/// order: the PD goes when the last of them has gone. A borrowed PD must outlive them all.
/// Move-only; a moved-from device is empty and only good for assignment, destruction and the
/// test by `bool`. All const members may be called from several threads.
class device {
 public:
  /// Open by name ("rxe0", "mlx5_0") and allocate a PD.
  /// @throws error `no_device` with the names that exist, `device_access`, `out_of_memory`.
  [[nodiscard]] static device open(std::string_view name);
  [[nodiscard]] static result<device> try_open(std::string_view name) noexcept;

  /// Use a PD the application already has; nothing is closed or freed at the end.
  /// @throws error `invalid_argument` for a null pointer.
  [[nodiscard]] static device borrow(ibv_pd* pd);

  /// Names of all RDMA devices, empty if there are none.
  [[nodiscard]] static std::vector<std::string> list();

  device(device&&) noexcept = default;
  device& operator=(device&&) noexcept = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  ~device() = default;

  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] ibv_context* context() const noexcept;
  [[nodiscard]] ibv_pd* pd() const noexcept;
  [[nodiscard]] const device_capabilities& capabilities() const noexcept;

  /// NUMA node the device is attached to, or `any_node` (-1) if it has none.
  [[nodiscard]] int numa_node() const noexcept;

  /// Shared state; for the library's own classes.
  [[nodiscard]] const std::shared_ptr<detail::device_state>& state() const noexcept {
    return state_;
  }

 private:
  friend struct detail::device_access;
  explicit device(std::shared_ptr<detail::device_state> state) noexcept;

  std::shared_ptr<detail::device_state> state_;
};

}  // namespace memopt
