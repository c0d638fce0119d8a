// SPDX-License-Identifier: MIT
#include "detail/registration_failure.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>

#include <sys/resource.h>

namespace memopt::detail {
namespace {

constexpr unsigned cap_ipc_lock_bit = 14;

std::string limit_text(const registration_scene& scene) {
  return "limit " + std::to_string(*scene.memlock_limit) + " bytes, in use " +
         std::to_string(scene.locked) + ", asked for " + std::to_string(scene.length);
}

bool limited(const registration_scene& scene) {
  return scene.memlock_limit && (!scene.ipc_lock || scene.in_user_namespace);
}

// The kernel counts whole pages, those at the edges too.
bool over_limit(const registration_scene& scene) {
  constexpr std::uintptr_t page = 4096;
  if (!limited(scene)) {
    return false;
  }
  const std::uint64_t pinned =
      ((scene.begin + scene.length + page - 1) & ~(page - 1)) - (scene.begin & ~(page - 1));
  return scene.locked > *scene.memlock_limit || pinned > *scene.memlock_limit - scene.locked;
}

reason memlock_reason(const registration_scene& scene) {
  if (scene.ipc_lock && scene.in_user_namespace) {
    return reason::userns;
  }
  return *scene.memlock_limit == 0 ? reason::memlock_zero : reason::memlock;
}

std::string place(const vma& mapping) {
  return mapping.name.empty() ? std::string{"anonymous memory"} : mapping.name;
}

bool is_hole(const registration_scene& scene) {
  std::uintptr_t covered = scene.begin;
  for (const vma& mapping : scene.mappings) {
    if (mapping.begin > covered) {
      return true;
    }
    covered = std::max(covered, mapping.end);
  }
  return covered < scene.begin + scene.length;
}

// Any remote right that changes memory comes with local_write, so this one tells.
bool wants_writing(access rights) { return has(rights, access::local_write); }

bool on_memory_file_system(const vma& mapping) {
  return mapping.name.starts_with("/dev/shm/") || mapping.name.starts_with("/memfd:") ||
         mapping.name.starts_with("/SYSV") || mapping.name.starts_with("/dev/zero");
}

diagnosis diagnose_fault(const registration_scene& scene) {
  if (is_hole(scene)) {
    return {reason::hole, "part of the range is not mapped"};
  }
  for (const vma& mapping : scene.mappings) {
    if (mapping.has_flag("pf") || mapping.has_flag("io")) {
      return {reason::pfnmap, place(mapping) + " is mapped by frame number"};
    }
    if (mapping.permissions.starts_with('-')) {
      return {reason::protection, place(mapping) + " can not be read"};
    }
    if (wants_writing(scene.rights) && !mapping.writable() && mapping.shared()) {
      return {reason::protection, place(mapping) + " is mapped read-only"};
    }
  }
  for (const vma& mapping : scene.mappings) {
    if (wants_writing(scene.rights) && !mapping.writable()) {
      return {reason::protection, place(mapping) + " is mapped read-only"};
    }
    if (mapping.shared() && mapping.name.starts_with('/') && !on_memory_file_system(mapping) &&
        !mapping.has_flag("ht")) {
      return {reason::file_backed, mapping.name + " is on a file system that tracks writes"};
    }
  }
  if (std::ranges::any_of(scene.mappings, [](const vma& m) { return m.has_flag("ht"); })) {
    return {reason::hugetlb_pool, "a huge page could not be had when it was needed"};
  }
  return {reason::unknown, {}};
}

diagnosis diagnose_no_memory(const registration_scene& scene) {
  if (over_limit(scene)) {
    return {memlock_reason(scene), limit_text(scene)};
  }
  if (scene.max_mr_size != 0 && scene.length > scene.max_mr_size) {
    return {reason::device_limit, "the device takes up to " + std::to_string(scene.max_mr_size) +
                                      " bytes, asked for " + std::to_string(scene.length)};
  }
  // ibv_fork_init splits mappings; a few are needed to go on.
  if (scene.max_map_count != 0 && scene.mapping_count + 2 >= scene.max_map_count) {
    return {reason::max_map_count, std::to_string(scene.mapping_count) + " mappings of " +
                                       std::to_string(scene.max_map_count)};
  }
  const bool huge =
      std::ranges::any_of(scene.mappings, [](const vma& m) { return m.has_flag("ht"); });
  std::size_t resident = 0;
  for (const vma& mapping : scene.mappings) {
    resident += mapping.resident;
  }
  if (huge && resident == 0) {
    return {reason::hugetlb_pool, "a huge page could not be had when it was needed"};
  }
  // Software devices keep one entry for each 4 KiB in tables that end at 1 GiB, and say so only
  // by this errno.
  constexpr std::size_t software_table = std::size_t{1} << 30;
  if (scene.length > software_table) {
    return {reason::device_limit, "more than 1 GiB in one registration"};
  }
  return {reason::out_of_memory, {}};
}

std::uint64_t field_of_status(std::istream& status, const std::string& key, int base) {
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(key)) {
      std::istringstream rest{line.substr(key.size())};
      std::uint64_t value = 0;
      if (base == 16) {
        rest >> std::hex;
      }
      rest >> value;
      return value;
    }
  }
  return 0;
}

}  // namespace

diagnosis diagnose(const registration_scene& scene) {
  switch (scene.errnum) {
    case EFAULT:
      return diagnose_fault(scene);
    case ENOMEM:
      return diagnose_no_memory(scene);
    case EPERM:
      // The kernel's answer when nothing may be locked at all.
      if (limited(scene) && *scene.memlock_limit == 0) {
        return {scene.ipc_lock ? reason::userns : reason::memlock_zero, limit_text(scene)};
      }
      return {reason::permission, {}};
    case EAGAIN:
      return {over_limit(scene) ? memlock_reason(scene) : reason::rdma_cgroup, {}};
    case EINVAL:
      if (scene.max_mr_size != 0 && scene.length > scene.max_mr_size) {
        return {reason::device_limit,
                "the device takes up to " + std::to_string(scene.max_mr_size) + " bytes"};
      }
      return {reason::invalid_argument, {}};
    case EOPNOTSUPP:
      return {reason::unsupported, {}};
    case ENOSPC:
    case E2BIG:
      return {reason::device_limit, {}};
    case ENODEV:
    case EIO:
      return {reason::device_gone, {}};
    default:
      return {reason::unknown, {}};
  }
}

registration_scene look_around(int errnum, const void* address, std::size_t length, access rights,
                               std::uint64_t max_mr_size) {
  registration_scene scene{};
  scene.errnum = errnum;
  scene.begin = reinterpret_cast<std::uintptr_t>(address);
  scene.length = length;
  scene.rights = rights;
  scene.mappings = mappings_of(address, length);
  scene.max_mr_size = max_mr_size;

  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    scene.memlock_limit = limit.rlim_cur;
  }
  std::ifstream locked{"/proc/self/status"};
  scene.locked = field_of_status(locked, "VmLck:", 10) * 1024;
  std::ifstream pinned{"/proc/self/status"};
  scene.locked += field_of_status(pinned, "VmPin:", 10) * 1024;
  std::ifstream capabilities{"/proc/self/status"};
  scene.ipc_lock = ((field_of_status(capabilities, "CapEff:", 16) >> cap_ipc_lock_bit) & 1U) != 0;

  std::ifstream map{"/proc/self/uid_map"};
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = std::numeric_limits<std::uint32_t>::max();
  map >> inside >> outside >> count;
  scene.in_user_namespace =
      inside != 0 || outside != 0 || count != std::numeric_limits<std::uint32_t>::max();

  std::ifstream maps{"/proc/self/maps"};
  scene.mapping_count = static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>{maps}, std::istreambuf_iterator<char>{}, '\n'));
  std::ifstream most{"/proc/sys/vm/max_map_count"};
  most >> scene.max_map_count;
  return scene;
}

}  // namespace memopt::detail
