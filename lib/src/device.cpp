// SPDX-License-Identifier: MIT
#include <memopt/device.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include <infiniband/verbs.h>

#include <memopt/buffer.hpp>

#include "detail/attempt.hpp"
#include "detail/device_state.hpp"

namespace memopt {
namespace {

// The list of devices that the verbs library returns.
class device_list {
 public:
  device_list() : devices_{ibv_get_device_list(&count_)} {}
  ~device_list() {
    if (devices_ != nullptr) {
      ibv_free_device_list(devices_);
    }
  }
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;

  ibv_device* const* begin() const noexcept { return devices_; }
  ibv_device* const* end() const noexcept {
    return devices_ == nullptr ? nullptr : devices_ + count_;
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

int numa_node_of(const std::string& name) {
  std::ifstream file{"/sys/class/infiniband/" + name + "/device/numa_node"};
  int node = any_node;
  return file >> node && node >= 0 ? node : any_node;
}

device_capabilities query(ibv_context* context, const std::string& name) {
  ibv_device_attr_ex extended{};
  const std::string operation = "query " + name;
  if (const int failed = ibv_query_device_ex(context, nullptr, &extended); failed != 0) {
    // Providers without the extended query still answer the plain one.
    if (const int again = ibv_query_device(context, &extended.orig_attr); again != 0) {
      throw error{again, again == ENODEV || again == EIO ? reason::device_gone : reason::unknown,
                  operation};
    }
  }
  const ibv_odp_caps& odp = extended.odp_caps;
  // RDMA WRITE and READ are what the schemes need of on-demand paging.
  const std::uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  return {.max_mr_size = extended.orig_attr.max_mr_size,
          .page_size_cap = extended.orig_attr.page_size_cap,
          .max_mr = static_cast<std::uint32_t>(std::max(extended.orig_attr.max_mr, 0)),
          .odp_advertised = (odp.general_caps & IBV_ODP_SUPPORT) != 0 &&
                            (odp.per_transport_caps.rc_odp_caps & needed) == needed,
          .odp_implicit = (odp.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0,
          .atomics = extended.orig_attr.atomic_cap != IBV_ATOMIC_NONE};
}

void describe(detail::device_state& state) {
  state.name = ibv_get_device_name(state.context->device);
  state.node = numa_node_of(state.name);
  state.capabilities = query(state.context, state.name);
}

void add_pd(detail::device_state& state) {
  errno = 0;
  state.pd = ibv_alloc_pd(state.context);
  if (state.pd == nullptr) {
    const int failed = errno != 0 ? errno : ENOMEM;
    throw error{failed, failed == ENOMEM ? reason::out_of_memory : reason::device_limit,
                "allocate a protection domain on " + state.name};
  }
  state.owns_pd = true;
}

std::string names_of(const std::vector<std::string>& names) {
  if (names.empty()) {
    return "there is no RDMA device";
  }
  std::string text = "there are:";
  for (const std::string& name : names) {
    text += ' ' + name;
  }
  return text;
}

}  // namespace

namespace detail {

device_state::~device_state() {
  // A failure can not be reported from here. It means that objects of the PD exist which the
  // library did not make; they keep the PD until the process ends.
  if (owns_pd && pd != nullptr) {
    ibv_dealloc_pd(pd);
  }
  if (owns_context && context != nullptr) {
    ibv_close_device(context);
  }
}

std::shared_ptr<device_state> device_on_context(ibv_context* context,
                                                std::shared_ptr<void> parent) {
  auto state = std::make_shared<device_state>();
  state->parent = std::move(parent);
  state->context = context;
  describe(*state);
  add_pd(*state);
  return state;
}

device device_access::make(std::shared_ptr<device_state> state) { return device{std::move(state)}; }

}  // namespace detail

device::device(std::shared_ptr<detail::device_state> state) noexcept : state_{std::move(state)} {}

device device::open(std::string_view name) {
  const std::string operation = "open RDMA device '" + std::string{name} + "'";
  const device_list devices;
  for (ibv_device* found : devices) {
    if (name != ibv_get_device_name(found)) {
      continue;
    }
    auto state = std::make_shared<detail::device_state>();
    errno = 0;
    state->context = ibv_open_device(found);
    if (state->context == nullptr) {
      const int failed = errno != 0 ? errno : ENODEV;
      throw error{failed, failed == ENOMEM ? reason::out_of_memory : reason::device_access,
                  operation};
    }
    state->owns_context = true;
    describe(*state);
    add_pd(*state);
    return device{std::move(state)};
  }
  throw error{ENODEV, reason::no_device, operation, names_of(list())};
}

result<device> device::try_open(std::string_view name) noexcept {
  return detail::attempt("open an RDMA device", [&] { return open(name); });
}

device device::borrow(ibv_pd* pd) {
  if (pd == nullptr) {
    throw error{EINVAL, reason::invalid_argument, "borrow a protection domain", "it is null"};
  }
  auto state = std::make_shared<detail::device_state>();
  state->context = pd->context;
  state->pd = pd;
  describe(*state);
  return device{std::move(state)};
}

std::vector<std::string> device::list() {
  std::vector<std::string> names;
  const device_list devices;
  for (ibv_device* found : devices) {
    names.emplace_back(ibv_get_device_name(found));
  }
  return names;
}

std::string_view device::name() const noexcept { return state_->name; }

ibv_context* device::context() const noexcept { return state_->context; }

ibv_pd* device::pd() const noexcept { return state_->pd; }

const device_capabilities& device::capabilities() const noexcept { return state_->capabilities; }

int device::numa_node() const noexcept { return state_->node; }

}  // namespace memopt
