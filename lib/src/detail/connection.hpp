// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <linux/rdma_memopt.h>

#include <memopt/access.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/share.hpp>

struct ibv_cq;
struct ibv_qp;
struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_event_channel;

namespace memopt::detail {

/// What a share granted.
struct grant {
  std::uint32_t rkey;
  access rights;
  std::uint64_t iova;
  std::uint64_t length;
};

/// Read the private data of an accept. @return nothing if it is no grant this library understands
/// or one whose range wraps around
[[nodiscard]] result<grant> parse_grant(const void* data, std::size_t length);

/// Why a share turned the connection away, from the private data of a reject.
[[nodiscard]] std::string describe_refusal(const void* data, std::size_t length);

/// The private data of a connect request.
[[nodiscard]] memopt_share_hello make_hello(const share_token& token) noexcept;

/// Channel and id of rdma_cm, alive as long as a PD on its device is.
struct cm_endpoint {
  cm_endpoint() = default;
  cm_endpoint(const cm_endpoint&) = delete;
  cm_endpoint& operator=(const cm_endpoint&) = delete;
  ~cm_endpoint();

  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
};

/// A connected queue pair, client side. One request at a time.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  /// @throws error `unreachable`, `rejected`, `timeout`, `no_device`
  connection(const std::string& address, std::uint16_t port, const share_token& token,
             std::chrono::milliseconds timeout);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  enum class request : std::uint8_t { write, read };

  /// Bytes between `local` and `offset` of the share; arguments have been checked.
  /// @throws error; then connected() is false
  void execute(request what, std::uint64_t local, std::uint32_t lkey, std::uint32_t length,
               std::uint64_t offset);

  [[nodiscard]] bool connected() const noexcept { return connected_; }
  [[nodiscard]] const grant& granted() const noexcept { return grant_; }
  [[nodiscard]] const device& local_device() const noexcept { return device_; }

 private:
  void resolve(const std::string& address, std::uint16_t port, clock::time_point until);
  void make_queue_pair();
  void connect(const share_token& token, clock::time_point until);
  void wait_for(int wanted, clock::time_point until);
  [[noreturn]] void fail_event(const rdma_cm_event& event) const;
  void break_connection() noexcept;
  [[nodiscard]] bool lost() noexcept;

  std::string peer_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<cm_endpoint> endpoint_;
  device device_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  grant grant_{};
  bool connected_ = false;
};

}  // namespace memopt::detail
