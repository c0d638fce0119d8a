// SPDX-License-Identifier: MIT

#include "detail/loopback_qp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

namespace memopt::detail {

namespace {

/// Addresses tried before giving up; each failure takes the time of the retries.
constexpr std::size_t max_paths = 4;
constexpr std::uint32_t first_psn = 0x1000;
/// 4.096 us << 14 = 67 ms per try: long for a loop, short enough for seven retries.
constexpr std::uint8_t ack_timeout = 14;
constexpr std::uint8_t retries = 7;
/// Try for ever: with on-demand memory "receiver not ready" is ordinary.
constexpr std::uint8_t rnr_for_ever = 7;
constexpr std::uint8_t rnr_timer_640us = 12;
/// READs under way; more would not fill a loop any better.
constexpr int max_reads = 16;

struct cq_deleter {
  void operator()(ibv_cq* cq) const noexcept { ibv_destroy_cq(cq); }
};
struct qp_deleter {
  void operator()(ibv_qp* qp) const noexcept { ibv_destroy_qp(qp); }
};

/// A way from the device to itself.
struct path {
  std::uint8_t port;
  ibv_mtu mtu;
  std::uint8_t reads;                // READs the device does at a time
  std::uint16_t lid;                 // 0 on Ethernet
  std::optional<ibv_gid_entry> gid;  // none: address by LID
};

std::string operation_on(const device& dev, const char* what) {
  return std::string{what} + " on " + std::string{dev.name()};
}

reason creation_reason(int errnum) noexcept {
  switch (errnum) {
    case ENOMEM:
      return reason::out_of_memory;
    case EINVAL:
    case ENOSPC:
      return reason::device_limit;
    case EOPNOTSUPP:
    case ENOSYS:
      return reason::unsupported;
    case ENODEV:
    case EIO:
      return reason::device_gone;
    default:
      return reason::unknown;
  }
}

/// Lower is better. RoCE v2 over a routable address works wherever a connection would;
/// link-local addresses need neighbour discovery, which a dummy interface does not do.
int rank(const ibv_gid_entry& entry) noexcept {
  const std::uint8_t* raw = entry.gid.raw;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) {
    return 3;
  }
  static constexpr std::array<std::uint8_t, 12> v4_mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(raw, v4_mapped.data(), v4_mapped.size()) == 0) {
    return 0;
  }
  return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 2 : 1;
}

std::vector<ibv_gid_entry> gids_by_rank(ibv_context* context, std::uint8_t port, int table_length) {
  std::vector<ibv_gid_entry> entries(static_cast<std::size_t>(std::max(table_length, 1)));
  const ssize_t found = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  entries.resize(found > 0 ? static_cast<std::size_t>(found) : 0);
  std::erase_if(entries, [port](const ibv_gid_entry& entry) { return entry.port_num != port; });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return entries;
}

/// The table holds the entries of all ports, so it is asked for with the sum of their lengths.
std::vector<path> find_paths(const device& dev) {
  ibv_context* context = dev.context();
  ibv_device_attr attributes{};
  if (const int err = ibv_query_device(context, &attributes); err != 0) {
    throw error{err, creation_reason(err), operation_on(dev, "query device")};
  }
  std::vector<std::pair<std::uint8_t, ibv_port_attr>> active;
  int table_length = 0;
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(number), &port) != 0) {
      continue;
    }
    table_length += port.gid_tbl_len;
    if (port.state == IBV_PORT_ACTIVE) {
      active.emplace_back(static_cast<std::uint8_t>(number), port);
    }
  }
  const auto reads = static_cast<std::uint8_t>(std::clamp(
      std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom), 1, max_reads));
  std::vector<path> paths;
  for (const auto& [number, port] : active) {
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
      paths.push_back({number, port.active_mtu, reads, port.lid, std::nullopt});
      continue;
    }
    for (const ibv_gid_entry& entry : gids_by_rank(context, number, table_length)) {
      paths.push_back({number, port.active_mtu, reads, 0, entry});
    }
  }
  paths.resize(std::min(paths.size(), max_paths));
  return paths;
}

ibv_ah_attr address_of(const path& way) noexcept {
  ibv_ah_attr address{};
  address.port_num = way.port;
  address.dlid = way.lid;
  if (way.gid) {
    address.is_global = 1;
    address.grh.dgid = way.gid->gid;
    address.grh.sgid_index = static_cast<std::uint8_t>(way.gid->gid_index);
    address.grh.hop_limit = 64;
  }
  return address;
}

reason completion_reason(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return reason::access_denied;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return reason::unreachable;
    case IBV_WC_WR_FLUSH_ERR:
      return reason::disconnected;
    default:
      return reason::unknown;
  }
}

void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask, const std::string& device_name,
            const char* state) {
  if (const int err = ibv_modify_qp(qp, &attributes, mask); err != 0) {
    throw error{err, err == ETIMEDOUT ? reason::unreachable : reason::unsupported,
                "bring a loopback queue pair on " + device_name + " to " + state};
  }
}

/// From RESET to RTS, connected to the queue pair of that number at the other end of the path.
void bring_up(ibv_qp* qp, const path& way, std::uint32_t other, const std::string& device_name) {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = way.port;
  init.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  modify(qp, init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         device_name, "INIT");

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = way.mtu;
  receive.dest_qp_num = other;
  receive.rq_psn = first_psn;
  receive.max_dest_rd_atomic = way.reads;
  receive.min_rnr_timer = rnr_timer_640us;
  receive.ah_attr = address_of(way);
  modify(qp, receive,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         device_name, "RTR");

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = first_psn;
  send.timeout = ack_timeout;
  send.retry_cnt = retries;
  send.rnr_retry = rnr_for_ever;
  send.max_rd_atomic = way.reads;
  modify(qp, send,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         device_name, "RTS");
}

}  // namespace

struct loopback_qp::impl {
  // Keeps context and PD until the queue pair has gone.
  std::shared_ptr<device_state> device_state_;
  std::string device_name;
  loopback_options options;
  std::unique_ptr<ibv_cq, cq_deleter> cq;
  // After cq: destroyed before it. Two, as a queue pair connected to itself that refuses a
  // request flushes its own send queue before it learns what was refused.
  std::unique_ptr<ibv_qp, qp_deleter> requester;
  std::unique_ptr<ibv_qp, qp_deleter> responder;
  unsigned under_way = 0;
  ibv_mtu mtu = IBV_MTU_1024;

  impl(const device& dev, const loopback_options& opts)
      : device_state_{dev.state()}, device_name{dev.name()}, options{opts} {}

  void create(const device& dev);
  void connect(const path& way);
  void forget() noexcept;
  void post(const loopback_request& request);
  void wait(unsigned completions);
};

void loopback_qp::impl::create(const device& dev) {
  forget();
  cq.reset(ibv_create_cq(dev.context(), static_cast<int>(options.depth), nullptr, nullptr, 0));
  if (!cq) {
    throw error{errno, creation_reason(errno), operation_on(dev, "create a completion queue")};
  }
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = cq.get();
  attributes.recv_cq = cq.get();
  attributes.sq_sig_all = 1;
  attributes.cap.max_send_wr = options.depth;
  attributes.cap.max_send_sge = 1;
  // Nothing is ever received, but some providers refuse a queue of length 0.
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_recv_sge = 1;
  for (auto* end : {&requester, &responder}) {
    ibv_qp_init_attr wanted = attributes;
    end->reset(ibv_create_qp(dev.pd(), &wanted));
    if (!*end) {
      throw error{errno, creation_reason(errno), operation_on(dev, "create a queue pair")};
    }
  }
}

// The responder first: what is left of the requester's packets finds nobody then.
void loopback_qp::impl::forget() noexcept {
  responder.reset();
  requester.reset();
  cq.reset();
  under_way = 0;
}

void loopback_qp::impl::connect(const path& way) {
  for (auto* end : {&requester, &responder}) {
    bring_up(end->get(), way, end == &requester ? responder->qp_num : requester->qp_num,
             device_name);
  }
  mtu = way.mtu;
}

void loopback_qp::impl::post(const loopback_request& request) {
  if (under_way >= options.depth) {
    throw error{EINVAL, reason::invalid_argument, "post to a loopback queue pair",
                std::to_string(under_way) + " requests are under way already"};
  }
  ibv_sge piece{};
  piece.addr = request.local;
  piece.length = request.length;
  piece.lkey = request.lkey;
  ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = request.length == 0 ? 0 : 1;
  work.opcode =
      request.what == loopback_request::kind::write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  work.wr.rdma.remote_addr = request.remote;
  work.wr.rdma.rkey = request.rkey;
  ibv_send_wr* bad = nullptr;
  if (const int err = ibv_post_send(requester.get(), &work, &bad); err != 0) {
    // Providers differ in the sign.
    throw error{err < 0 ? -err : err, reason::disconnected,
                "post to a loopback queue pair on " + device_name};
  }
  ++under_way;
}

void loopback_qp::impl::wait(unsigned completions) {
  if (completions > under_way) {
    throw error{EINVAL, reason::invalid_argument, "wait for a loopback queue pair",
                "only " + std::to_string(under_way) + " requests are under way"};
  }
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  while (completions != 0) {
    ibv_wc completion{};
    const int found = ibv_poll_cq(cq.get(), 1, &completion);
    if (found < 0) {
      throw error{EIO, reason::device_gone, "poll the completion queue of " + device_name};
    }
    if (found == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw error{ETIMEDOUT, reason::timeout, "wait for a loopback transfer on " + device_name};
      }
      // A software device needs the CPU for the very transfer that is waited for.
      std::this_thread::yield();
      continue;
    }
    --under_way;
    --completions;
    if (completion.status != IBV_WC_SUCCESS) {
      throw error{EIO, completion_reason(completion.status),
                  "transfer over a loopback queue pair on " + device_name,
                  ibv_wc_status_str(completion.status)};
    }
  }
}

loopback_qp::loopback_qp(const device& dev, const loopback_options& options) {
  if (!dev || options.depth == 0) {
    throw error{EINVAL, reason::invalid_argument, "make a loopback queue pair",
                dev ? "depth is 0" : "the device is empty"};
  }
  if (dev.context()->device->transport_type == IBV_TRANSPORT_IWARP) {
    throw error{EOPNOTSUPP, reason::unsupported, operation_on(dev, "connect a pair of queue pairs"),
                "iWARP can only be connected through a connection manager"};
  }
  auto made = std::make_unique<impl>(dev, options);
  std::optional<error> last;
  for (const path& way : find_paths(dev)) {
    try {
      made->create(dev);
      made->connect(way);
      made->post({loopback_request::kind::write, 0, 0, 0, 0, 0});
      made->wait(1);
      impl_ = std::move(made);
      return;
    } catch (const error& failure) {
      last.emplace(failure);
      // What it left behind must not be taken for the next one's completion.
      made->forget();
    }
  }
  if (last) {
    throw error{*last};
  }
  throw error{ENETUNREACH, reason::unsupported, operation_on(dev, "connect a pair of queue pairs"),
              "no port is active, or the active one has no address"};
}

loopback_qp::loopback_qp(loopback_qp&&) noexcept = default;
loopback_qp& loopback_qp::operator=(loopback_qp&&) noexcept = default;
loopback_qp::~loopback_qp() = default;

void loopback_qp::post(const loopback_request& request) { impl_->post(request); }

void loopback_qp::wait(unsigned completions) { impl_->wait(completions); }

void loopback_qp::execute(const loopback_request& request) {
  post(request);
  wait(1);
}

std::size_t loopback_qp::path_mtu() const noexcept {
  return std::size_t{128} << static_cast<unsigned>(impl_->mtu);
}

}  // namespace memopt::detail
