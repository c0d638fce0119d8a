// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include <linux/rdma_memopt.h>

#include "detail/system_calls.hpp"

namespace memopt::test {

/// A kernel module inside the process: regions, buffers, MRs and shares, with the checks the real
/// one makes on its arguments. It counts what is open, so that a test sees what leaks. One at a
/// time; calls that are none of its business go to the kernel.
class fake_module {
 public:
  fake_module() : saved_{detail::sys()} {
    self_ = this;
    detail::system_calls& table = detail::sys();
    table.open = [](const char* path, int flags) { return self_->open(path, flags); };
    table.close = [](int fd) { return self_->close(fd); };
    table.duplicate = [](int fd) { return self_->duplicate(fd); };
    table.ioctl = [](int fd, unsigned long command, void* argument) {
      return self_->ioctl(fd, command, argument);
    };
    table.mmap = [](void* address, std::size_t length, int protection, int flags, int fd,
                    off_t offset) {
      return self_->map(address, length, protection, flags, fd, offset);
    };
    table.munmap = [](void* address, std::size_t length) { return self_->unmap(address, length); };
  }
  fake_module(const fake_module&) = delete;
  fake_module& operator=(const fake_module&) = delete;
  ~fake_module() {
    detail::sys() = saved_;
    self_ = nullptr;
  }

  struct region {
    std::uint32_t kind;
    int node;
    std::uint64_t total;
    std::uint64_t free;
  };

  std::vector<region> regions{{MEMOPT_KIND_CONTIG, 0, 1U << 30, 1U << 30},
                              {MEMOPT_KIND_CMA, 0, 1U << 30, 1U << 30}};
  std::uint64_t features = MEMOPT_FEATURE_CONTIG | MEMOPT_FEATURE_CMA | MEMOPT_FEATURE_KERNEL_CMA |
                           MEMOPT_FEATURE_PA_MR | MEMOPT_FEATURE_SHARE;
  std::uint32_t version = MEMOPT_UAPI_VERSION;
  int open_errno = 0;
  int map_errno = 0;
  /// Errno by command number (enum memopt_command); takes effect before anything is done.
  std::map<unsigned, int> fail;
  /// How many times the next command is interrupted before it works.
  int interruptions = 0;
  /// Changes an answer before the caller sees it.
  std::function<void(unsigned command, void* argument)> twist;

  memopt_mr_reg last_mr{};
  memopt_share_create last_share{};

  [[nodiscard]] std::size_t open_files() const { return files_.size(); }
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }
  [[nodiscard]] std::size_t mappings() const { return mappings_.size(); }
  [[nodiscard]] std::size_t mrs() const { return mrs_.size(); }
  [[nodiscard]] std::size_t shares() const { return shares_.size(); }
  [[nodiscard]] bool clean() const {
    return open_files() == 0 && buffers() == 0 && mappings() == 0 && mrs() == 0 && shares() == 0;
  }

 private:
  int open(const char* path, int flags) {
    if (std::string_view{path} != "/dev/" MEMOPT_DEVICE_NAME) {
      return saved_.open(path, flags);
    }
    if (open_errno != 0) {
      errno = open_errno;
      return -1;
    }
    files_.insert(next_file_);
    return next_file_++;
  }

  int close(int fd) { return files_.erase(fd) != 0 ? 0 : saved_.close(fd); }

  int duplicate(int fd) {
    if (!files_.contains(fd)) {
      return saved_.duplicate(fd);
    }
    files_.insert(next_file_);
    return next_file_++;
  }

  void* map(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    if (!files_.contains(fd)) {
      return saved_.mmap(address, length, protection, flags, fd, offset);
    }
    if (map_errno != 0 || (flags & MAP_SHARED) == 0 || !buffers_.contains(number_at(offset))) {
      errno = map_errno != 0 ? map_errno : EINVAL;
      return MAP_FAILED;
    }
    // What lies behind it is the test's memory, on a border as the module chooses it.
    constexpr std::size_t border = std::size_t{2} << 20;
    void* got = saved_.mmap(nullptr, length + border, protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
      return got;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(got);
    const auto at = (first + border - 1) & ~(border - 1);
    mappings_[at] = {first, length + border};
    return reinterpret_cast<void*>(at);
  }

  int unmap(void* address, std::size_t length) {
    const auto found = mappings_.find(reinterpret_cast<std::uintptr_t>(address));
    if (found == mappings_.end()) {
      return saved_.munmap(address, length);
    }
    const auto [first, whole] = found->second;
    mappings_.erase(found);
    return saved_.munmap(reinterpret_cast<void*>(first), whole);
  }

  int ioctl(int fd, unsigned long command, void* argument) {
    if (!files_.contains(fd)) {
      return saved_.ioctl(fd, command, argument);
    }
    if (interruptions > 0) {
      --interruptions;
      errno = EINTR;
      return -1;
    }
    const auto which = static_cast<unsigned>(command & 0xff);
    int failed = 0;
    if (const auto set = fail.find(which); set != fail.end()) {
      failed = set->second;
    } else {
      failed = answer(which, argument);
    }
    if (failed == 0 && twist) {
      twist(which, argument);
    }
    errno = failed;
    return failed == 0 ? 0 : -1;
  }

  template <typename Argument>
  static bool sound(const Argument& argument, std::uint32_t known_flags = 0) {
    return argument.size == sizeof argument && (argument.flags & ~known_flags) == 0;
  }

  int answer(unsigned command, void* argument) {
    switch (command) {
      case MEMOPT_CMD_QUERY:
        return query(*static_cast<memopt_query*>(argument));
      case MEMOPT_CMD_REGION_INFO:
        return region_info(*static_cast<memopt_region_info*>(argument));
      case MEMOPT_CMD_BUF_ALLOC:
        return allocate(*static_cast<memopt_buf_alloc*>(argument));
      case MEMOPT_CMD_BUF_INFO:
        return buffer_info(*static_cast<memopt_buf_info*>(argument));
      case MEMOPT_CMD_BUF_FREE:
        return buffers_.erase(static_cast<memopt_buf_free*>(argument)->buf_id) != 0 ? 0 : ENOENT;
      case MEMOPT_CMD_MR_REG:
        return register_mr(*static_cast<memopt_mr_reg*>(argument));
      case MEMOPT_CMD_MR_INFO:
        return mr_info(*static_cast<memopt_mr_info*>(argument));
      case MEMOPT_CMD_MR_DEREG:
        return mrs_.erase(static_cast<memopt_mr_dereg*>(argument)->mr_id) != 0 ? 0 : ENOENT;
      case MEMOPT_CMD_SHARE_CREATE:
        return create_share(*static_cast<memopt_share_create*>(argument));
      case MEMOPT_CMD_SHARE_INFO:
        return share_info(*static_cast<memopt_share_info*>(argument));
      case MEMOPT_CMD_SHARE_DESTROY:
        return shares_.erase(static_cast<memopt_share_destroy*>(argument)->share_id) != 0 ? 0
                                                                                          : ENOENT;
      default:
        return ENOTTY;
    }
  }

  int query(memopt_query& q) const {
    if (!sound(q)) {
      return EINVAL;
    }
    q.out_features = features;
    q.out_uapi_version = version;
    q.out_region_count = static_cast<std::uint32_t>(regions.size());
    return 0;
  }

  int region_info(memopt_region_info& info) const {
    if (!sound(info)) {
      return EINVAL;
    }
    if (info.index >= regions.size()) {
      return ENOENT;
    }
    const region& r = regions[info.index];
    info.out_kind = r.kind;
    info.out_node = r.node;
    info.out_total = r.total;
    info.out_free = r.free;
    info.out_used = r.total - r.free;
    info.out_largest_free = r.free;
    return 0;
  }

  int allocate(memopt_buf_alloc& a) {
    if (!sound(a) || a.length == 0 || (a.alignment & (a.alignment - 1)) != 0) {
      return EINVAL;
    }
    const auto fits = [&](const region& r) {
      return r.kind == a.kind && (a.node == MEMOPT_NODE_ANY || a.node == r.node);
    };
    const auto found = std::ranges::find_if(regions, fits);
    if (found == regions.end()) {
      return ENODEV;
    }
    a.out_length = (a.length + 4095) & ~std::uint64_t{4095};
    if (a.out_length > found->free) {
      return ENOMEM;
    }
    a.out_buf_id = next_id_++;
    a.out_kind = a.kind;
    a.out_node = found->node;
    a.out_segments = 1;
    a.out_alignment = a.alignment != 0 ? a.alignment : std::uint64_t{2} << 20;
    a.out_mmap_offset = std::uint64_t{a.out_buf_id} << 32;
    buffers_[a.out_buf_id] = a.kind;
    return 0;
  }

  int buffer_info(memopt_buf_info& info) const {
    if (!sound(info)) {
      return EINVAL;
    }
    const auto found = buffers_.find(info.buf_id);
    if (found == buffers_.end()) {
      return ENOENT;
    }
    info.out_mapping_size = 4096;
    info.out_state = found->second == MEMOPT_KIND_CONTIG ? MEMOPT_BUF_STATE_PINNABLE : 0;
    return 0;
  }

  int register_mr(memopt_mr_reg& r) {
    last_mr = r;
    if (!sound(r) || r.offset % 4096 != 0 || r.length % 4096 != 0) {
      return EINVAL;
    }
    if (!buffers_.contains(r.buf_id)) {
      return ENOENT;
    }
    r.out_mr_id = next_id_++;
    r.out_rkey = 0x1234;
    r.out_iova = 0x200000;
    mrs_.insert(r.out_mr_id);
    return 0;
  }

  int mr_info(memopt_mr_info& info) const {
    if (!sound(info)) {
      return EINVAL;
    }
    if (!mrs_.contains(info.mr_id)) {
      return ENOENT;
    }
    info.out_entries = 32;
    info.out_page_size = 2U << 20;
    info.out_length = 64U << 20;
    info.out_state = MEMOPT_MR_STATE_DEVICE_GONE;
    return 0;
  }

  int create_share(memopt_share_create& s) {
    last_share = s;
    if (!sound(s, MEMOPT_SHARE_F_SINGLE_USE)) {
      return EINVAL;
    }
    if (!buffers_.contains(s.buf_id)) {
      return ENOENT;
    }
    s.out_share_id = next_id_++;
    s.out_port = s.port != 0 ? s.port : 4791;
    s.out_rkey = 0x5678;
    s.out_iova = 0x400000;
    std::memset(s.out_token, 0xab, sizeof s.out_token);
    shares_.insert(s.out_share_id);
    return 0;
  }

  int share_info(memopt_share_info& info) const {
    if (!sound(info)) {
      return EINVAL;
    }
    if (!shares_.contains(info.share_id)) {
      return ENOENT;
    }
    info.out_connections = 2;
    info.out_accepted = 5;
    info.out_rejected = 7;
    info.out_state = MEMOPT_SHARE_STATE_CLOSED;
    // A module that forgets the zero at the end.
    std::memset(info.out_ibdev, 'x', sizeof info.out_ibdev);
    return 0;
  }

  [[nodiscard]] static std::uint32_t number_at(off_t offset) {
    return static_cast<std::uint32_t>(offset >> 32);
  }

  struct real_mapping {
    std::uintptr_t first;
    std::size_t length;
  };

  static inline fake_module* self_;
  detail::system_calls saved_;
  int next_file_ = 100000;
  std::uint32_t next_id_ = 1;
  std::set<int> files_;
  std::map<std::uint32_t, std::uint32_t> buffers_;
  std::map<std::uintptr_t, real_mapping> mappings_;
  std::set<std::uint32_t> mrs_;
  std::set<std::uint32_t> shares_;
};

}  // namespace memopt::test
