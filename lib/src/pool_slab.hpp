// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <memopt/memory_region.hpp>
#include <memopt/pool.hpp>

namespace memopt::detail {

/// A registered piece of memory that is cut into blocks of one size.
///
/// What is free is recorded beside the memory and not in it: blocks belong to peers and users,
/// who may write to them at any time. One 32-bit word per block serves as link of the free list
/// and as mark that the block is out, so that a second put() of a block is seen at once.
///
/// take() and give_back() need the lock of the slab's size class; the rest is fixed once
/// assigned and may be read by anybody.
class pool_slab {
 public:
  explicit pool_slab(memory_region&& registered) noexcept;

  /// Cut into blocks of this size, a power of two; once only. @throws std::bad_alloc
  void assign(std::size_t block_size);

  /// 0 before assign().
  [[nodiscard]] std::size_t block_size() const noexcept {
    return block_size_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint32_t lkey() const noexcept { return registered_.lkey(); }

  /// Number of the block if `b` is what take() gives, at some time, for one of this slab.
  [[nodiscard]] std::optional<std::uint32_t> index_of(const block& b) const noexcept;

  [[nodiscard]] bool full() const noexcept { return free_ == none && cut_ == count_; }
  /// The block put back last, else the next one never used. Not if full().
  [[nodiscard]] block take() noexcept;
  /// False if the block is not out: nothing changes then.
  [[nodiscard]] bool give_back(std::uint32_t index) noexcept;

 private:
  friend class slab_list;

  static constexpr std::uint32_t none = 0xffffffff;  // end of the free list
  static constexpr std::uint32_t out = 0xfffffffe;   // block is handed out

  memory_region registered_;
  std::byte* base_;
  std::atomic<std::size_t> block_size_{0};
  std::uint32_t count_ = 0;
  std::uint32_t cut_ = 0;  // blocks from here on were never handed out, their links are not set
  std::uint32_t free_ = none;
  std::unique_ptr<std::uint32_t[]> links_;
  pool_slab* next_ = nullptr;  // in slab_list
};

/// Slabs of a size class that have a free block, last in first out.
class slab_list {
 public:
  [[nodiscard]] pool_slab* front() const noexcept { return first_; }
  void push(pool_slab* slab) noexcept;
  void pop() noexcept;

 private:
  pool_slab* first_ = nullptr;
};

/// Finds a slab by its lkey. One writer at a time; readers need no lock.
///
/// When it has to grow, a larger copy is published and the old one kept until the end: a reader
/// may still be in it. Whoever holds a block got it after its slab was published, so no reader
/// misses the slab of a block it holds.
class slab_table {
 public:
  slab_table();

  /// Make room for so many slabs. @throws std::bad_alloc
  void reserve(std::size_t slabs);
  /// Needs room from reserve().
  void insert(pool_slab* slab) noexcept;
  [[nodiscard]] pool_slab* find(std::uint32_t lkey) const noexcept;

 private:
  struct slots {
    explicit slots(unsigned bits);
    [[nodiscard]] std::size_t home(std::uint32_t lkey) const noexcept;
    void insert(pool_slab* slab) noexcept;

    unsigned bits;
    std::vector<std::atomic<pool_slab*>> entries;
  };

  std::vector<std::unique_ptr<slots>> generations_;
  std::atomic<const slots*> current_;
};

}  // namespace memopt::detail
