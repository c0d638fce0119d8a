// SPDX-License-Identifier: MIT

#include <memopt/pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <memopt/memory_region.hpp>

#include "detail/attempt.hpp"
#include "detail/device_state.hpp"
#include "pool_slab.hpp"

namespace memopt {

using detail::pool_slab;

namespace {

constexpr std::size_t smallest_slab = 64ULL << 10;
/// Slabs number their blocks with 32 bits.
constexpr std::size_t largest_slab = pool::min_block << 31;
constexpr std::size_t class_count = 32;  // from min_block to largest_slab

[[noreturn]] void refuse(const std::string& operation, const std::string& detail) {
  throw error{EINVAL, reason::invalid_argument, operation, detail};
}

std::size_t class_index(std::size_t block_size) noexcept {
  return static_cast<std::size_t>(std::countr_zero(block_size) - std::countr_zero(pool::min_block));
}

const pool_options& checked(const device& dev, const pool_options& options) {
  const std::string operation = "make a pool of " + std::to_string(options.bytes) + " bytes";
  if (!dev) {
    refuse(operation, "the device is empty");
  }
  if (options.bytes == 0) {
    refuse(operation, "bytes must be more than 0");
  }
  if (!std::has_single_bit(options.slab) || options.slab < smallest_slab ||
      options.slab > largest_slab) {
    refuse(operation, "slab " + std::to_string(options.slab) + " is no power of two from " +
                          std::to_string(smallest_slab) + " to " + std::to_string(largest_slab));
  }
  if (options.limit != 0 && options.limit < options.bytes) {
    refuse(operation, "limit " + std::to_string(options.limit) + " is below it");
  }
  if (!is_valid(options.rights)) {
    refuse(operation, "remote_write and remote_atomic need local_write");
  }
  return options;
}

}  // namespace

/// Locks: `growth` before any size_class::lock, and never two classes at once. Registering is
/// slow and happens under `growth` alone, so that meanwhile blocks at hand come and go.
struct pool::impl {
  struct size_class {
    mutable std::mutex lock;
    detail::slab_list available;
    std::uint64_t gets = 0;
    std::uint64_t puts = 0;
    std::uint64_t exhausted = 0;

    [[nodiscard]] std::optional<block> take() noexcept;  // with the lock held
  };

  const device dev;
  const pool_options options;
  const std::size_t first_slabs;
  const std::size_t max_slabs;

  std::mutex growth;                              // for writing the next four
  std::vector<std::unique_ptr<pool_slab>> slabs;  // never shrinks
  std::vector<pool_slab*> unassigned;             // registered, not cut into blocks yet
  detail::slab_table table;
  std::atomic<std::size_t> registrations{0};
  std::array<size_class, class_count> classes;

  impl(const device& on, const pool_options& wanted);

  [[nodiscard]] size_class& class_of(std::size_t block_size) noexcept {
    return classes[class_index(block_size)];
  }
  void add_slab();
  [[nodiscard]] block get(std::size_t length);
  [[nodiscard]] block get_growing(std::size_t block_size);
  void put(const block& b);
  [[nodiscard]] pool_statistics statistics() const;
};

std::optional<block> pool::impl::size_class::take() noexcept {
  pool_slab* slab = available.front();
  if (slab == nullptr) {
    return std::nullopt;
  }
  const block taken = slab->take();
  if (slab->full()) {
    available.pop();
  }
  ++gets;
  return taken;
}

pool::impl::impl(const device& on, const pool_options& wanted)
    : dev{detail::device_access::make(on.state())},
      options{wanted},
      first_slabs{wanted.bytes / wanted.slab + (wanted.bytes % wanted.slab != 0 ? 1 : 0)},
      max_slabs{std::max(first_slabs, wanted.limit / wanted.slab)} {
  for (std::size_t i = 0; i < first_slabs; ++i) {
    add_slab();
  }
}

void pool::impl::add_slab() {
  buffer memory = options.hot.allocate(options.slab, {.alignment = 0, .node = options.node});
  if (memory.page_size() > options.slab) {
    refuse("add a slab to a pool", "slab " + std::to_string(options.slab) +
                                       " would waste most of a page of " +
                                       std::to_string(memory.page_size()) + " bytes");
  }
  auto slab = std::make_unique<pool_slab>(memory_region{dev, std::move(memory), options.rights});
  // All that can fail first, so that the three stay in step.
  slabs.reserve(slabs.size() + 1);
  unassigned.reserve(slabs.size() + 1);
  table.reserve(slabs.size() + 1);
  table.insert(slab.get());
  unassigned.push_back(slab.get());
  slabs.push_back(std::move(slab));
  registrations.store(slabs.size(), std::memory_order_relaxed);
}

block pool::impl::get(std::size_t length) {
  if (length == 0 || length > options.slab) {
    refuse("get " + std::to_string(length) + " bytes from a pool",
           "blocks have 1 to " + std::to_string(options.slab) + " bytes");
  }
  const std::size_t block_size = std::bit_ceil(std::max(length, min_block));
  size_class& cls = class_of(block_size);
  {
    const std::lock_guard guard{cls.lock};
    if (const auto taken = cls.take()) {
      return *taken;
    }
  }
  return get_growing(block_size);
}

block pool::impl::get_growing(std::size_t block_size) {
  size_class& cls = class_of(block_size);
  const std::lock_guard growing{growth};
  {
    // While this thread waited, another may have grown the class or put a block back.
    const std::lock_guard guard{cls.lock};
    if (const auto taken = cls.take()) {
      return *taken;
    }
    if (unassigned.empty() && slabs.size() >= max_slabs) {
      ++cls.exhausted;
      throw error{ENOBUFS, reason::pool_exhausted,
                  "get " + std::to_string(block_size) + " bytes from a pool",
                  "its limit is " + std::to_string(max_slabs * options.slab) + " bytes"};
    }
  }
  if (unassigned.empty()) {
    add_slab();
  }
  pool_slab* slab = unassigned.back();
  slab->assign(block_size);
  unassigned.pop_back();
  const std::lock_guard guard{cls.lock};
  cls.available.push(slab);
  return *cls.take();
}

void pool::impl::put(const block& b) {
  pool_slab* slab = table.find(b.lkey);
  const auto index = slab == nullptr ? std::nullopt : slab->index_of(b);
  if (!index) {
    refuse("put a block into a pool", "it is not of this pool");
  }
  size_class& cls = class_of(slab->block_size());
  const std::lock_guard guard{cls.lock};
  const bool was_full = slab->full();
  if (!slab->give_back(*index)) {
    refuse("put a block into a pool", "it is in the pool already");
  }
  if (was_full) {
    cls.available.push(slab);
  }
  ++cls.puts;
}

pool_statistics pool::impl::statistics() const {
  pool_statistics sum{};
  sum.registrations = registrations.load(std::memory_order_relaxed);
  sum.registered = static_cast<std::size_t>(sum.registrations) * options.slab;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const size_class& cls = classes[i];
    const std::lock_guard guard{cls.lock};
    sum.gets += cls.gets;
    sum.puts += cls.puts;
    sum.exhausted += cls.exhausted;
    sum.in_use += static_cast<std::size_t>(cls.gets - cls.puts) * (min_block << i);
  }
  return sum;
}

pool::pool(const device& dev, const pool_options& options)
    : impl_{std::make_unique<impl>(dev, checked(dev, options))} {}

pool::pool(pool&&) noexcept = default;
pool& pool::operator=(pool&&) noexcept = default;
pool::~pool() = default;

block pool::get(std::size_t length) {
  if (!impl_) {
    refuse("get " + std::to_string(length) + " bytes from a pool", "the pool was moved from");
  }
  return impl_->get(length);
}

result<block> pool::try_get(std::size_t length) noexcept {
  return detail::attempt("get a block from a pool", [&] { return get(length); });
}

void pool::put(const block& b) {
  if (!impl_) {
    refuse("put a block into a pool", "the pool was moved from");
  }
  impl_->put(b);
}

std::size_t pool::max_block() const noexcept { return impl_ ? impl_->options.slab : 0; }

pool_statistics pool::statistics() const { return impl_ ? impl_->statistics() : pool_statistics{}; }

}  // namespace memopt
