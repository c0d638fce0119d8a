// SPDX-License-Identifier: MIT
// Schemes on memory of the process: plain, transparent huge pages, hugetlb.
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <linux/mman.h>
#include <sys/mman.h>

#include "detail/allocate.hpp"
#include "detail/smaps.hpp"
#include "detail/system_calls.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // since Linux 6.1
#endif

namespace memopt::detail {
namespace {

constexpr std::size_t base_page = 4096;
constexpr std::size_t huge_2m = std::size_t{2} << 20;
constexpr std::size_t huge_1g = std::size_t{1} << 30;

// Address space without access around the memory. It gives room for alignment, and while it is
// there the mapping can not merge with a neighbour, so smaps speaks of it alone.
class guarded_space {
 public:
  guarded_space(std::size_t length, std::size_t alignment, const std::string& operation)
      : length_{length + 2 * alignment} {
    void* at =
        sys().mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw error{errno, reason::out_of_memory, operation, "no address space is left"};
    }
    begin_ = reinterpret_cast<std::uintptr_t>(at);
    inner_ = (begin_ + base_page + alignment - 1) & ~(alignment - 1);
    inner_end_ = inner_;
  }
  guarded_space(const guarded_space&) = delete;
  guarded_space& operator=(const guarded_space&) = delete;
  ~guarded_space() {
    unmap(begin_, inner_);
    unmap(inner_end_, begin_ + length_);
  }

  [[nodiscard]] void* inner() const noexcept { return reinterpret_cast<void*>(inner_); }

  /// The first bytes of the inner part belong to somebody else from now on.
  void hand_over(std::size_t bytes) noexcept { inner_end_ = inner_ + bytes; }

 private:
  static void unmap(std::uintptr_t from, std::uintptr_t to) noexcept {
    if (to > from) {
      sys().munmap(reinterpret_cast<void*>(from), to - from);
    }
  }

  std::size_t length_;
  std::uintptr_t begin_ = 0;
  std::uintptr_t inner_ = 0;
  std::uintptr_t inner_end_ = 0;
};

std::size_t number_in(const std::string& path) {
  std::ifstream file{path};
  std::size_t value = 0;
  return file >> value ? value : 0;
}

std::unique_ptr<buffer_state> new_state(scheme which, std::size_t length, std::size_t mapped) {
  auto state = std::make_unique<buffer_state>();
  state->size = length;
  state->mapped_size = mapped;
  state->scheme = which;
  return state;
}

void map_into(guarded_space& space, buffer_state& state, const std::string& operation) {
  void* at = sys().mmap(space.inner(), state.mapped_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED) {
    throw error{errno, reason::out_of_memory, operation};
  }
  space.hand_over(state.mapped_size);
  state.address = at;
}

// A failing MAP_FIXED of huge pages leaves a hole in the space it was to replace, and whoever
// gets that hole would be unmapped with the space. So the place is looked for, left, and taken
// only if it is still free. Returns 0 or a positive errno value.
int map_hugetlb(buffer_state& state, std::size_t alignment, int size_flag,
                const std::string& operation) {
  constexpr int most_tries = 16;
  for (int tries = 0; tries < most_tries; ++tries) {
    void* place = nullptr;
    {
      const guarded_space space{state.mapped_size, alignment, operation};
      place = space.inner();
    }
    void* at = sys().mmap(
        place, state.mapped_size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED) {
      state.address = at;
      return 0;
    }
    if (errno != EEXIST) {
      return errno;
    }
  }
  return EAGAIN;
}

void describe_pages(buffer_state& state, std::size_t page_size) {
  state.page_size = page_size;
  state.mapping_size = page_size;
  state.segments = state.mapped_size / page_size;
  state.alignment = page_size;
}

// Bytes of the range on transparent huge pages; 0 if part of the range is missing in smaps.
std::size_t transparent_bytes(const buffer_state& state) {
  std::size_t covered = 0;
  std::size_t huge = 0;
  for (const vma& mapping : mappings_of(state.address, state.mapped_size)) {
    covered += mapping.end - mapping.begin;
    huge += mapping.anonymous_huge;
  }
  return covered >= state.mapped_size ? huge : 0;
}

[[noreturn]] void fail_population(int failure, const std::string& operation) {
  throw error{failure, failure == ENOMEM ? reason::out_of_memory : reason::unknown, operation,
              "populating it"};
}

std::string thp_setting() {
  std::ifstream file{"/sys/kernel/mm/transparent_hugepage/enabled"};
  std::string line;
  return std::getline(file, line) ? line : std::string{"not in this kernel"};
}

void make_transparent_huge(buffer_state& state, const std::string& operation) {
  if (sys().madvise(state.address, state.mapped_size, MADV_HUGEPAGE) != 0) {
    throw error{errno, reason::thp_unavailable, operation, "setting: " + thp_setting()};
  }
  if (const int failure = populate(state.address, state.mapped_size); failure != 0) {
    fail_population(failure, operation);
  }
  if (transparent_bytes(state) >= state.mapped_size) {
    return;
  }
  // The fault path gives up early; this one compacts. It may fail for good reason, so what
  // counts is the look afterwards.
  (void)sys().madvise(state.address, state.mapped_size, MADV_COLLAPSE);
  const std::size_t huge = transparent_bytes(state);
  if (huge < state.mapped_size) {
    throw error{ENOMEM, reason::thp_unavailable, operation,
                std::to_string(huge) + " of " + std::to_string(state.mapped_size) +
                    " bytes came on huge pages, setting: " + thp_setting()};
  }
}

void make_plain(buffer_state& state, const std::string& operation) {
  // EINVAL means a kernel without transparent huge pages: nothing to exclude.
  if (sys().madvise(state.address, state.mapped_size, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) {
    throw error{errno, reason::unknown, operation, "excluding huge pages"};
  }
  if (const int failure = populate(state.address, state.mapped_size); failure != 0) {
    fail_population(failure, operation);
  }
}

std::string pool_directory(std::size_t page_size) {
  return "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page_size / 1024) + "kB/";
}

[[noreturn]] void fail_hugetlb(int failure, std::size_t page_size, std::size_t pages,
                               const std::string& operation) {
  const std::string directory = pool_directory(page_size);
  const std::size_t free = number_in(directory + "free_hugepages");
  const std::size_t reserved = number_in(directory + "resv_hugepages");
  const std::size_t available = free > reserved ? free - reserved : 0;
  const std::string seen =
      std::to_string(pages) + " pages wanted, " + std::to_string(available) + " free in the pool";
  if (failure == EINVAL || failure == ENODEV) {
    throw error{failure, reason::unsupported, operation, "the kernel has no pages of this size"};
  }
  // With pages in the pool a refusal can only come from the cgroup.
  throw error{failure, available >= pages ? reason::hugetlb_cgroup : reason::hugetlb_pool,
              operation, seen};
}

}  // namespace

std::unique_ptr<buffer_state> allocate_anonymous(scheme which, std::size_t length,
                                                 const allocation_options& options) {
  const std::string operation = allocation_name(which, length);
  const bool huge = which == scheme::thp;
  const std::size_t unit = huge ? huge_2m : base_page;
  const std::size_t mapped = round_up(length, unit, operation);
  guarded_space space{mapped, std::max(options.alignment, unit), operation};
  auto state = new_state(which, length, mapped);
  map_into(space, *state, operation);
  bind_to_node(state->address, mapped, options.node, operation);
  if (huge) {
    make_transparent_huge(*state, operation);
  } else {
    make_plain(*state, operation);
    if (transparent_bytes(*state) != 0) {
      throw error{EINVAL, reason::unsupported, operation,
                  "the kernel used huge pages all the same"};
    }
  }
  describe_pages(*state, unit);
  state->node = verify_node(state->address, mapped, unit, options.node, operation);
  return state;
}

std::unique_ptr<buffer_state> allocate_hugetlb(scheme which, std::size_t length,
                                               const allocation_options& options) {
  const std::string operation = allocation_name(which, length);
  const bool giant = which == scheme::hugetlb_1g;
  const std::size_t unit = giant ? huge_1g : huge_2m;
  const std::size_t mapped = round_up(length, unit, operation);
  auto state = new_state(which, length, mapped);
  const int failure = map_hugetlb(*state, std::max(options.alignment, unit),
                                  giant ? MAP_HUGE_1GB : MAP_HUGE_2MB, operation);
  if (failure != 0) {
    fail_hugetlb(failure, unit, mapped / unit, operation);
  }
  bind_to_node(state->address, mapped, options.node, operation);
  // The reservation of mmap() holds for the whole pool, not for the node or the cgroup: only a
  // page that is there is sure.
  if (const int populated = populate(state->address, mapped); populated != 0) {
    fail_hugetlb(populated, unit, mapped / unit, operation);
  }
  for (const vma& mapping : mappings_of(state->address, mapped)) {
    if (mapping.kernel_page_size != unit) {
      throw error{
          EINVAL, reason::unsupported, operation,
          "the kernel gave pages of " + std::to_string(mapping.kernel_page_size) + " bytes"};
    }
  }
  describe_pages(*state, unit);
  state->node = verify_node(state->address, mapped, unit, options.node, operation);
  return state;
}

}  // namespace memopt::detail
