// SPDX-License-Identifier: MIT

#include <memopt/odp.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memopt/source.hpp>

#include "detail/attempt.hpp"
#include "detail/loopback_qp.hpp"
#include "detail/region_access.hpp"
#include "detail/system_calls.hpp"
#include "odp_probe.hpp"

namespace memopt {

namespace {

using detail::loopback_qp;
using detail::loopback_request;
using detail::probe_transfer;

constexpr access probe_rights = access::local_write | access::remote_read | access::remote_write;
/// For one transfer of the probe. A device that loses packets needs seconds to give up.
constexpr std::chrono::milliseconds transfer_timeout{10000};

std::string operation_on(const device& dev, const char* what) {
  return std::string{what} + " on " + std::string{dev.name()};
}

int verbs_rights(access rights) noexcept {
  int flags = IBV_ACCESS_ON_DEMAND;
  flags |= has(rights, access::local_write) ? IBV_ACCESS_LOCAL_WRITE : 0;
  flags |= has(rights, access::remote_read) ? IBV_ACCESS_REMOTE_READ : 0;
  flags |= has(rights, access::remote_write) ? IBV_ACCESS_REMOTE_WRITE : 0;
  flags |= has(rights, access::remote_atomic) ? IBV_ACCESS_REMOTE_ATOMIC : 0;
  return flags;
}

/// Registers one range for on-demand paging, whatever a probe would say.
memory_region register_unprobed(const device& dev, void* address, std::size_t length,
                                access rights) {
  const std::string operation =
      operation_on(dev, ("register " + std::to_string(length) + " bytes on demand").c_str());
  ibv_mr* mr = detail::sys().reg_mr(dev.pd(), address, length, verbs_rights(rights));
  if (mr == nullptr) {
    const int errnum = errno;
    // Nothing is pinned, so none of the causes of ENOMEM of ordinary registrations applies.
    const bool refused = errnum == EINVAL || errnum == EOPNOTSUPP || errnum == ENOSYS;
    throw error{errnum,
                refused            ? reason::no_odp
                : errnum == ENOMEM ? reason::out_of_memory
                                   : reason::unknown,
                operation};
  }
  return detail::region_access::make(dev.state(), mr, rights);
}

void check_range(const void* address, std::size_t length, access rights) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const char* fault = nullptr;
  if (address == nullptr || length == 0) {
    fault = "the range is empty";
  } else if (length - 1 > std::numeric_limits<std::uintptr_t>::max() - first) {
    fault = "the range wraps around the address space";
  } else if (!is_valid(rights)) {
    fault = "remote_write and remote_atomic need local_write";
  }
  if (fault != nullptr) {
    throw error{EINVAL, reason::invalid_argument,
                "register " + std::to_string(length) + " bytes on demand", fault};
  }
}

/// One-sided transfers between two registrations over the device itself.
class transfer_path {
 public:
  transfer_path(const device& dev, const memory_region& subject, const memory_region& witness)
      : subject_{subject}, witness_{witness}, qp_{dev, {.depth = 1, .timeout = transfer_timeout}} {}

  void move(const probe_transfer& t) {
    using kind = probe_transfer::kind;
    const bool subject_is_remote =
        t.what == kind::write_to_subject || t.what == kind::read_from_subject;
    const bool is_write = t.what == kind::write_to_subject || t.what == kind::write_from_subject;
    const memory_region& local = subject_is_remote ? witness_ : subject_;
    const memory_region& remote = subject_is_remote ? subject_ : witness_;
    const std::size_t local_offset = subject_is_remote ? t.witness_offset : t.subject_offset;
    const std::size_t remote_offset = subject_is_remote ? t.subject_offset : t.witness_offset;
    qp_.execute({is_write ? loopback_request::kind::write : loopback_request::kind::read,
                 reinterpret_cast<std::uintptr_t>(local.addr()) + local_offset, local.lkey(),
                 remote.iova() + remote_offset, remote.rkey(),
                 static_cast<std::uint32_t>(t.length)});
  }

 private:
  const memory_region& subject_;
  const memory_region& witness_;
  loopback_qp qp_;
};

/// The data check with a pinned subject. What fails here is not the fault of on-demand paging.
void check_pinned(const device& dev, const memory_region& subject, const memory_region& witness) {
  transfer_path path{dev, subject, witness};
  const auto area = subject.memory().bytes();
  try {
    detail::check_transfers({.subject = area,
                             .witness = witness.memory().bytes(),
                             .move = [&path](const probe_transfer& t) { path.move(t); },
                             // Its pages are pinned: the device would keep the old ones.
                             .forget = [area] { std::ranges::fill(area, std::byte{0}); }},
                            operation_on(dev, "check transfers of pinned memory"));
  } catch (const error& failure) {
    if (failure.reason() != reason::odp_unreliable) {
      throw;
    }
    throw error{EIO, reason::unsupported, operation_on(dev, "probe on-demand paging"),
                std::string{"even pinned memory failed: "} + failure.what()};
  }
}

void check_on_demand(const device& dev, const memory_region& subject, const memory_region& witness,
                     std::span<std::byte> area) {
  transfer_path path{dev, subject, witness};
  const std::string operation = operation_on(dev, "probe on-demand paging");
  const auto move = [&](const probe_transfer& t) {
    try {
      path.move(t);
    } catch (const error& failure) {
      // Pinned memory passed the same transfers on the same path, so paging is to blame.
      throw error{failure.code().value(), reason::odp_unreliable, operation,
                  to_string(t) + " failed: " + failure.what()};
    }
  };
  const auto forget = [area, &operation] {
    if (madvise(area.data(), area.size(), MADV_DONTNEED) != 0) {
      throw error{errno, reason::unknown, operation, "could not drop pages"};
    }
  };
  detail::check_transfers(
      {.subject = area, .witness = witness.memory().bytes(), .move = move, .forget = forget},
      operation);
}

void run_probe(const device& dev) {
  const device_capabilities& can = dev.capabilities();
  if (!can.odp_advertised) {
    throw error{EOPNOTSUPP, reason::no_odp, operation_on(dev, "probe on-demand paging"),
                "not advertised for RC"};
  }
  const source plain{scheme::plain};
  const memory_region witness{dev, plain.allocate(detail::probe_area), probe_rights};
  {
    const memory_region pinned{dev, plain.allocate(detail::probe_area), probe_rights};
    check_pinned(dev, pinned, witness);
  }
  const buffer area = plain.allocate(detail::probe_area);
  const memory_region on_demand = register_unprobed(dev, area.data(), area.size(), probe_rights);
  check_on_demand(dev, on_demand, witness, area.bytes());
}

/// Answers of this process. Only those that say something of the device are kept: lack of memory
/// or of an active port may pass.
class answers {
 public:
  result<void> ask(const device& dev) {
    const std::lock_guard guard{lock_};
    const auto key =
        std::pair{std::string{dev.name()},
                  static_cast<std::uint64_t>(ibv_get_device_guid(dev.context()->device))};
    if (const auto known = known_.find(key); known != known_.end()) {
      return known->second;
    }
    result<void> answer;
    try {
      run_probe(dev);
    } catch (const error& failure) {
      answer = tl::unexpected{failure};
      if (failure.reason() != reason::no_odp && failure.reason() != reason::odp_unreliable) {
        return answer;
      }
    }
    known_.emplace(key, answer);
    return answer;
  }

 private:
  std::mutex lock_;
  std::map<std::pair<std::string, std::uint64_t>, result<void>> known_;
};

answers& process_answers() {
  static answers kept;
  return kept;
}

}  // namespace

result<void> probe_odp(const device& dev) noexcept {
  auto outcome = detail::attempt("probe on-demand paging", [&dev] {
    if (!dev) {
      throw error{EINVAL, reason::invalid_argument, "probe on-demand paging",
                  "the device is empty"};
    }
    return process_answers().ask(dev);
  });
  return outcome ? std::move(*outcome) : tl::unexpected{std::move(outcome.error())};
}

memory_region register_on_demand(const device& dev, void* address, std::size_t length,
                                 access rights) {
  check_range(address, length, rights);
  if (const auto works = probe_odp(dev); !works) {
    throw error{works.error()};
  }
  return register_unprobed(dev, address, length, rights);
}

result<memory_region> try_register_on_demand(const device& dev, void* address, std::size_t length,
                                             access rights) noexcept {
  return detail::attempt("register on demand",
                         [&] { return register_on_demand(dev, address, length, rights); });
}

}  // namespace memopt
