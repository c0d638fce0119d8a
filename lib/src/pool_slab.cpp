// SPDX-License-Identifier: MIT

#include "pool_slab.hpp"

#include <bit>
#include <utility>

namespace memopt::detail {

pool_slab::pool_slab(memory_region&& registered) noexcept
    : registered_{std::move(registered)}, base_{static_cast<std::byte*>(registered_.addr())} {}

void pool_slab::assign(std::size_t block_size) {
  const auto count = static_cast<std::uint32_t>(registered_.length() / block_size);
  links_ = std::make_unique_for_overwrite<std::uint32_t[]>(count);
  count_ = count;
  block_size_.store(block_size, std::memory_order_release);
}

std::optional<std::uint32_t> pool_slab::index_of(const block& b) const noexcept {
  const std::size_t size = block_size();
  const auto address = reinterpret_cast<std::uintptr_t>(b.address);
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  if (size == 0 || b.length != size || b.lkey != registered_.lkey() ||
      b.rkey != registered_.rkey() || address < base) {
    return std::nullopt;
  }
  const std::uintptr_t offset = address - base;
  if (offset >= registered_.length() || offset % size != 0) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(offset / size);
}

block pool_slab::take() noexcept {
  std::uint32_t index = free_;
  if (index != none) {
    free_ = links_[index];
  } else {
    index = cut_++;
  }
  links_[index] = out;
  const std::size_t size = block_size_.load(std::memory_order_relaxed);
  return {base_ + index * size, size, registered_.lkey(), registered_.rkey()};
}

bool pool_slab::give_back(std::uint32_t index) noexcept {
  if (index >= cut_ || links_[index] != out) {
    return false;
  }
  links_[index] = free_;
  free_ = index;
  return true;
}

void slab_list::push(pool_slab* slab) noexcept {
  slab->next_ = first_;
  first_ = slab;
}

void slab_list::pop() noexcept { first_ = std::exchange(first_->next_, nullptr); }

slab_table::slots::slots(unsigned width) : bits{width}, entries(std::size_t{1} << width) {}

// Keys of one device often differ in a few bits only; the multiplication spreads them.
std::size_t slab_table::slots::home(std::uint32_t lkey) const noexcept {
  return static_cast<std::size_t>((lkey * 0x9e3779b97f4a7c15ULL) >> (64 - bits));
}

void slab_table::slots::insert(pool_slab* slab) noexcept {
  std::size_t at = home(slab->lkey());
  while (entries[at].load(std::memory_order_relaxed) != nullptr) {
    at = (at + 1) & (entries.size() - 1);
  }
  entries[at].store(slab, std::memory_order_release);
}

slab_table::slab_table() {
  generations_.push_back(std::make_unique<slots>(4U));
  current_.store(generations_.back().get(), std::memory_order_release);
}

void slab_table::reserve(std::size_t slabs) {
  const slots& old = *generations_.back();
  // Half empty at least, so that a search for a foreign key ends soon.
  if (slabs <= old.entries.size() / 2) {
    return;
  }
  auto larger = std::make_unique<slots>(static_cast<unsigned>(std::bit_width(2 * slabs - 1)));
  for (const auto& entry : old.entries) {
    if (pool_slab* slab = entry.load(std::memory_order_relaxed)) {
      larger->insert(slab);
    }
  }
  generations_.push_back(std::move(larger));
  current_.store(generations_.back().get(), std::memory_order_release);
}

void slab_table::insert(pool_slab* slab) noexcept { generations_.back()->insert(slab); }

pool_slab* slab_table::find(std::uint32_t lkey) const noexcept {
  const slots& table = *current_.load(std::memory_order_acquire);
  for (std::size_t at = table.home(lkey);; at = (at + 1) & (table.entries.size() - 1)) {
    pool_slab* slab = table.entries[at].load(std::memory_order_acquire);
    if (slab == nullptr || slab->lkey() == lkey) {
      return slab;
    }
  }
}

}  // namespace memopt::detail
