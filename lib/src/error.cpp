// SPDX-License-Identifier: MIT
#include <memopt/error.hpp>

#include <array>

namespace memopt {
namespace {

struct reason_text {
  reason why;
  std::string_view name;
  std::string_view remedy;
};

constexpr std::array texts{
    reason_text{reason::unknown, "unknown", ""},
    reason_text{reason::invalid_argument, "invalid_argument",
                "correct the argument named in the message"},
    reason_text{reason::out_of_memory, "out_of_memory", "free memory, or ask for less"},
    reason_text{reason::memlock, "memlock",
                "raise the limit on locked memory: 'memlock' in /etc/security/limits.d, or "
                "LimitMEMLOCK= of the systemd unit"},
    reason_text{reason::memlock_zero, "memlock_zero",
                "the limit on locked memory is 0: set 'memlock' in /etc/security/limits.d, or "
                "LimitMEMLOCK= of the systemd unit"},
    reason_text{reason::userns, "userns",
                "root of a user namespace has no CAP_IPC_LOCK outside it: raise the container's "
                "memlock limit (--ulimit memlock=-1)"},
    reason_text{reason::pfnmap, "pfnmap",
                "this mapping can not be pinned: use a share or a kernel_mr for cma memory, or "
                "take contig memory, which can"},
    reason_text{reason::protection, "protection",
                "map the memory writable, or register without write rights"},
    reason_text{reason::file_backed, "file_backed",
                "copy into anonymous memory, or map a file on tmpfs, hugetlbfs or a memfd"},
    reason_text{reason::hole, "hole", "map the whole range before registering it"},
    reason_text{reason::migration, "migration",
                "the pages sit in a movable or CMA zone and could not be moved: free memory, or "
                "allocate after it has been reserved elsewhere (contig)"},
    reason_text{reason::max_map_count, "max_map_count",
                "raise vm.max_map_count, and do not call ibv_fork_init on kernels that copy on "
                "fork"},
    reason_text{reason::hugetlb_pool, "hugetlb_pool",
                "enlarge the pool: sysctl vm.nr_hugepages=N for 2 MiB pages, hugepagesz=1G "
                "hugepages=N on the kernel command line for 1 GiB pages"},
    reason_text{reason::hugetlb_cgroup, "hugetlb_cgroup",
                "raise hugetlb.<size>.max and hugetlb.<size>.rsvd.max of the cgroup"},
    reason_text{reason::thp_unavailable, "thp_unavailable",
                "set /sys/kernel/mm/transparent_hugepage/enabled to madvise or always, or free "
                "contiguous memory (echo 1 > /proc/sys/vm/compact_memory)"},
    reason_text{reason::device_limit, "device_limit",
                "register less at a time, or fewer regions: the device is at its limit"},
    reason_text{reason::rdma_cgroup, "rdma_cgroup", "raise rdma.max of the cgroup"},
    reason_text{reason::no_device, "no_device",
                "check 'rdma link show' and load the driver of the card, or for soft RoCE run "
                "'rdma link add rxe0 type rxe netdev <interface>'"},
    reason_text{reason::device_access, "device_access",
                "load ib_uverbs and give this user access to /dev/infiniband/uverbs*"},
    reason_text{reason::device_gone, "device_gone",
                "the RDMA device was removed: destroy what was made on it and open it again"},
    reason_text{reason::no_module, "no_module", "run 'modprobe rdma_memopt', or install it first"},
    reason_text{reason::module_access, "module_access",
                "add this user to the group that owns /dev/rdma_memopt (rdma)"},
    reason_text{reason::module_mismatch, "module_mismatch",
                "install module and library of versions that belong together"},
    reason_text{reason::no_cma, "no_cma",
                "boot a kernel with CONFIG_CMA and an area, for example cma=1G on its command "
                "line; contig memory needs neither"},
    reason_text{reason::no_region, "no_region",
                "load the module with contig_size= or cma_size=, and ask for a node that has one"},
    reason_text{reason::region_full, "region_full",
                "free buffers, ask for less or a smaller alignment, or load the module with a "
                "larger region"},
    reason_text{reason::object_limit, "object_limit",
                "free objects, or raise the limit of the module (max_objects, max_shares)"},
    reason_text{reason::no_dmabuf, "no_dmabuf", "use plain registration on this provider"},
    reason_text{reason::no_odp, "no_odp", "use pinned memory on this device"},
    reason_text{reason::odp_unreliable, "odp_unreliable",
                "do not use on-demand paging on this device and driver; pinned memory works"},
    reason_text{reason::unsupported, "unsupported",
                "this kernel, device or transport can not do it: use another scheme"},
    reason_text{reason::permission, "permission",
                "run with CAP_NET_ADMIN, or load the module with share_unprivileged=1"},
    reason_text{reason::address_unavailable, "address_unavailable",
                "give an address of an RDMA device that is visible in this network namespace"},
    reason_text{reason::address_in_use, "address_in_use", "choose another port, or 0"},
    reason_text{reason::unreachable, "unreachable",
                "check address, port, route and firewall, and that the peer is serving"},
    reason_text{reason::rejected, "rejected",
                "check the token, and whether the share still admits peers"},
    reason_text{reason::access_denied, "access_denied",
                "stay inside the share's range and rights; it may have been revoked"},
    reason_text{reason::disconnected, "disconnected", "connect again"},
    reason_text{reason::timeout, "timeout", "give more time, or check that the peer is alive"},
    reason_text{reason::pool_exhausted, "pool_exhausted",
                "put blocks back, or make the pool with a higher limit"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (static_cast<std::size_t>(texts[i].why) != i) {
      return false;
    }
  }
  return true;
}
static_assert(in_order(), "texts must follow the order of enum reason");

const reason_text& text_of(reason why) noexcept {
  const auto index = static_cast<std::size_t>(why);
  return index < texts.size() ? texts[index] : texts.front();
}

// "register 64 bytes on rxe0 (limit 0 kB; raise …)"; the base class appends the errno's text.
std::string sentence(const std::string& operation, const std::string& detail,
                     std::string_view remedy) {
  if (detail.empty() && remedy.empty()) {
    return operation;
  }
  std::string text = operation + " (" + detail;
  if (!remedy.empty()) {
    text += detail.empty() ? "" : "; ";
    text += remedy;
  }
  return text + ")";
}

}  // namespace

std::string_view to_string(reason why) noexcept { return text_of(why).name; }

std::string_view remedy(reason why) noexcept { return text_of(why).remedy; }

error::error(int errnum, memopt::reason why, const std::string& operation,
             const std::string& detail)
    : std::system_error{errnum, std::generic_category(),
                        sentence(operation, detail, memopt::remedy(why))},
      reason_{why},
      operation_length_{operation.size()} {}

std::string_view error::operation() const noexcept {
  return std::string_view{what()}.substr(0, operation_length_);
}

}  // namespace memopt
