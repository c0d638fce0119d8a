// SPDX-License-Identifier: MIT
#include "detail/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "detail/device_state.hpp"

namespace memopt::detail {
namespace {

using namespace std::chrono_literals;

// A peer that does not acknowledge is given up after retry_count times the transport timer.
constexpr std::uint8_t retries = 7;
// Reads the other side keeps open for us; one request at a time needs one.
constexpr std::uint8_t reads_under_way = 1;

struct address_list {
  addrinfo* first = nullptr;
  ~address_list() {
    if (first != nullptr) {
      freeaddrinfo(first);
    }
  }
};

int milliseconds_until(connection::clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - connection::clock::now());
  return static_cast<int>(
      std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, std::numeric_limits<int>::max()));
}

reason reason_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return reason::access_denied;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return reason::unreachable;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_MW_BIND_ERR:
      return reason::invalid_argument;
    default:
      return reason::disconnected;
  }
}

access access_of(std::uint32_t bits) {
  access rights = access::local_read;
  if ((bits & MEMOPT_ACCESS_REMOTE_READ) != 0) {
    rights = rights | access::remote_read;
  }
  if ((bits & MEMOPT_ACCESS_REMOTE_WRITE) != 0) {
    rights = rights | access::remote_write;
  }
  if ((bits & MEMOPT_ACCESS_REMOTE_ATOMIC) != 0) {
    rights = rights | access::remote_atomic;
  }
  return rights;
}

}  // namespace

result<grant> parse_grant(const void* data, std::size_t length) {
  const std::string operation = "read the answer of the share";
  memopt_share_grant wire{};
  if (data == nullptr || length < sizeof wire) {
    return tl::make_unexpected(error{EPROTO, reason::unsupported, operation, "it is too short"});
  }
  std::memcpy(&wire, data, sizeof wire);
  if (be32toh(wire.magic) != MEMOPT_SHARE_MAGIC ||
      be16toh(wire.protocol) != MEMOPT_SHARE_PROTOCOL) {
    return tl::make_unexpected(
        error{EPROTO, reason::unsupported, operation, "the peer is no share of this protocol"});
  }
  const grant got{.rkey = be32toh(wire.rkey),
                  .rights = access_of(be32toh(wire.access)),
                  .iova = be64toh(wire.iova),
                  .length = be64toh(wire.length)};
  if (got.length == 0 || got.iova > std::numeric_limits<std::uint64_t>::max() - got.length) {
    return tl::make_unexpected(
        error{EPROTO, reason::unsupported, operation, "its range makes no sense"});
  }
  return got;
}

std::string describe_refusal(const void* data, std::size_t length) {
  memopt_share_refusal wire{};
  if (data == nullptr || length < sizeof wire) {
    return "no reason given; is a share listening there?";
  }
  std::memcpy(&wire, data, sizeof wire);
  if (be32toh(wire.magic) != MEMOPT_SHARE_MAGIC) {
    return "no reason given; is a share listening there?";
  }
  switch (be16toh(wire.reason)) {
    case MEMOPT_REFUSAL_MALFORMED:
      return "the share speaks protocol " + std::to_string(be16toh(wire.protocol)) + ", we " +
             std::to_string(MEMOPT_SHARE_PROTOCOL);
    case MEMOPT_REFUSAL_TOKEN:
      return "wrong, used up or expired token";
    case MEMOPT_REFUSAL_BUSY:
      return "the share has as many peers as it takes";
    case MEMOPT_REFUSAL_INTERNAL:
      return "the serving side ran out of resources";
    default:
      return "for a reason this version does not know";
  }
}

memopt_share_hello make_hello(const share_token& token) noexcept {
  memopt_share_hello hello{};
  hello.magic = htobe32(MEMOPT_SHARE_MAGIC);
  hello.protocol = htobe16(MEMOPT_SHARE_PROTOCOL);
  static_assert(sizeof hello.token == sizeof token.bytes);
  std::memcpy(hello.token, token.bytes.data(), sizeof hello.token);
  return hello;
}

cm_endpoint::~cm_endpoint() {
  if (id != nullptr) {
    rdma_destroy_id(id);
  }
  if (channel != nullptr) {
    rdma_destroy_event_channel(channel);
  }
}

connection::connection(const std::string& address, std::uint16_t port, const share_token& token,
                       std::chrono::milliseconds timeout)
    : peer_{address + " port " + std::to_string(port)},
      timeout_{timeout},
      endpoint_{std::make_shared<cm_endpoint>()},
      device_{device_access::make(nullptr)} {
  const auto until = clock::now() + timeout;
  try {
    resolve(address, port, until);
    make_queue_pair();
    connect(token, until);
  } catch (...) {
    break_connection();
    throw;
  }
}

connection::~connection() { break_connection(); }

void connection::resolve(const std::string& address, std::uint16_t port, clock::time_point until) {
  const std::string operation = "connect to " + peer_;
  endpoint_->channel = rdma_create_event_channel();
  if (endpoint_->channel == nullptr) {
    throw error{errno, errno == ENOENT || errno == ENODEV ? reason::no_device : reason::unknown,
                operation, "opening the connection manager (is rdma_ucm loaded?)"};
  }
  const int flags = fcntl(endpoint_->channel->fd, F_GETFL);
  if (flags < 0 || fcntl(endpoint_->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw error{errno, reason::unknown, operation};
  }
  if (rdma_create_id(endpoint_->channel, &endpoint_->id, this, RDMA_PS_TCP) != 0) {
    endpoint_->id = nullptr;
    throw error{errno, errno == ENODEV ? reason::no_device : reason::unknown, operation};
  }

  const addrinfo hints{.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  address_list found;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found.first) != 0) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "'" + address + "' is no IPv4 or IPv6 address"};
  }
  if (rdma_resolve_addr(endpoint_->id, nullptr, found.first->ai_addr, milliseconds_until(until)) !=
      0) {
    throw error{errno, reason::unreachable, operation, "looking for a device with a route"};
  }
  wait_for(RDMA_CM_EVENT_ADDR_RESOLVED, until);
  if (rdma_resolve_route(endpoint_->id, milliseconds_until(until)) != 0) {
    throw error{errno, reason::unreachable, operation, "looking for the route"};
  }
  wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED, until);
}

void connection::make_queue_pair() {
  rdma_cm_id* id = endpoint_->id;
  device_ = device_access::make(device_on_context(id->verbs, endpoint_));
  const std::string operation = "make a queue pair on " + std::string{device_.name()};
  errno = 0;
  cq_ = ibv_create_cq(id->verbs, 2, nullptr, nullptr, 0);
  if (cq_ == nullptr) {
    throw error{errno != 0 ? errno : ENOMEM, reason::out_of_memory, operation};
  }
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = 1;
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id, device_.pd(), &attributes) != 0) {
    throw error{errno, errno == ENOMEM ? reason::out_of_memory : reason::device_limit, operation};
  }
  qp_ = id->qp;
}

void connection::connect(const share_token& token, clock::time_point until) {
  const memopt_share_hello hello = make_hello(token);
  rdma_conn_param parameters{};
  parameters.private_data = &hello;
  parameters.private_data_len = sizeof hello;
  parameters.responder_resources = 0;  // nobody reads from us
  parameters.initiator_depth = reads_under_way;
  parameters.retry_count = retries;
  parameters.rnr_retry_count = retries;
  if (rdma_connect(endpoint_->id, &parameters) != 0) {
    throw error{errno, reason::unreachable, "connect to " + peer_};
  }
  wait_for(RDMA_CM_EVENT_ESTABLISHED, until);
  connected_ = true;
}

void connection::fail_event(const rdma_cm_event& event) const {
  const std::string operation = "connect to " + peer_;
  const int errnum = event.status < 0 ? -event.status : 0;
  switch (event.event) {
    case RDMA_CM_EVENT_REJECTED:
      throw error{
          ECONNREFUSED, reason::rejected, operation,
          describe_refusal(event.param.conn.private_data, event.param.conn.private_data_len)};
    case RDMA_CM_EVENT_ADDR_ERROR:
      throw error{errnum != 0 ? errnum : ENETUNREACH, reason::unreachable, operation,
                  "no RDMA device has a route there"};
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      throw error{ENODEV, reason::device_gone, operation};
    default:
      throw error{errnum != 0 ? errnum : ETIMEDOUT, reason::unreachable, operation,
                  rdma_event_str(event.event)};
  }
}

// The channel does not block, so that the time given holds whatever the peer does.
void connection::wait_for(int wanted, clock::time_point until) {
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(endpoint_->channel, &event) == 0) {
      struct acknowledge {
        rdma_cm_event* event;
        ~acknowledge() { rdma_ack_cm_event(event); }
      } const ack{event};
      if (event->event != wanted || event->status != 0) {
        fail_event(*event);
      }
      if (wanted == RDMA_CM_EVENT_ESTABLISHED) {
        auto got = parse_grant(event->param.conn.private_data, event->param.conn.private_data_len);
        if (!got) {
          throw got.error();
        }
        grant_ = *got;
      }
      return;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      throw error{errno, reason::unknown, "connect to " + peer_};
    }
    pollfd waiting{.fd = endpoint_->channel->fd, .events = POLLIN, .revents = 0};
    const int left = milliseconds_until(until);
    if (left == 0) {
      throw error{ETIMEDOUT, reason::timeout, "connect to " + peer_};
    }
    (void)poll(&waiting, 1, left);
  }
}

// Events after the connection exists can only end it.
bool connection::lost() noexcept {
  rdma_cm_event* event = nullptr;
  bool gone = false;
  while (rdma_get_cm_event(endpoint_->channel, &event) == 0) {
    gone = gone || event->event == RDMA_CM_EVENT_DISCONNECTED ||
           event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
           event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
    rdma_ack_cm_event(event);
  }
  return gone;
}

// Afterwards the device touches no memory of ours any more: destroying a queue pair waits for
// what it is doing.
void connection::break_connection() noexcept {
  if (std::exchange(connected_, false)) {
    rdma_disconnect(endpoint_->id);
  }
  if (qp_ != nullptr) {
    rdma_destroy_qp(endpoint_->id);
    qp_ = nullptr;
  }
  if (cq_ != nullptr) {
    ibv_destroy_cq(cq_);
    cq_ = nullptr;
  }
}

void connection::execute(request what, std::uint64_t local, std::uint32_t lkey,
                         std::uint32_t length, std::uint64_t offset) {
  const std::string operation = std::string{what == request::write ? "write " : "read "} +
                                std::to_string(length) + " bytes at " + std::to_string(offset) +
                                " of " + peer_;
  if (!connected_) {
    throw error{ENOTCONN, reason::disconnected, operation};
  }
  ibv_sge piece{.addr = local, .length = length, .lkey = lkey};
  ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = what == request::write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = grant_.iova + offset;
  work.wr.rdma.rkey = grant_.rkey;
  ibv_send_wr* refused = nullptr;
  if (const int failed = ibv_post_send(qp_, &work, &refused); failed != 0) {
    break_connection();
    throw error{failed, reason::disconnected, operation};
  }

  const auto until = clock::now() + timeout_;
  // A request on hardware takes microseconds, so the processor is only given away after a while;
  // the events need a system call to see and are looked at now and then.
  constexpr unsigned spins = 256;
  for (unsigned turn = 0;; ++turn) {
    ibv_wc done{};
    const int count = ibv_poll_cq(cq_, 1, &done);
    if (count == 1 && done.status == IBV_WC_SUCCESS) {
      return;
    }
    if (count != 0) {
      break_connection();
      throw error{EIO, count < 0 ? reason::device_gone : reason_of(done.status), operation,
                  count < 0 ? "the completion queue is broken" : ibv_wc_status_str(done.status)};
    }
    if (turn % spins == spins - 1) {
      if (lost()) {
        break_connection();
        throw error{ECONNRESET, reason::disconnected, operation, "the peer ended the connection"};
      }
      if (clock::now() >= until) {
        break_connection();
        throw error{ETIMEDOUT, reason::timeout, operation};
      }
      std::this_thread::yield();
    }
  }
}

}  // namespace memopt::detail
