// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <memopt/access.hpp>
#include <memopt/device.hpp>
#include <memopt/error.hpp>
#include <memopt/source.hpp>

namespace memopt {

/// A block of registered memory: a plain value, to be put back into the pool it came from.
struct block {
  void* address = nullptr;
  std::size_t length = 0;  ///< bytes of the size class, at least what was asked for
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

struct pool_options {
  source hot{scheme::plain};        ///< where slabs come from
  std::size_t bytes = 64ULL << 20;  ///< allocated and registered at construction; more than 0
  std::size_t limit = 0;            ///< grow on demand up to this; 0 means `bytes`: never grow
  std::size_t slab = 4ULL << 20;    ///< bytes registered at once, a power of two of 64 KiB or more
  access rights = access::local_write;
  int node = any_node;
};

struct pool_statistics {
  std::size_t registered;       ///< bytes registered
  std::size_t in_use;           ///< bytes in blocks handed out
  std::uint64_t registrations;  ///< MRs made since construction
  std::uint64_t gets;
  std::uint64_t puts;
  std::uint64_t exhausted;  ///< gets refused at the limit
};

/// Memory registered once and handed out in blocks, keys included: get() makes no system call
/// unless the pool has to grow.
///
/// Size classes are the powers of two from min_block to the slab size. Each class is one free
/// list, filled by cutting slabs; a slab is one MR and stays in one class. Thread-safe. Blocks
/// must be back before the pool is destroyed: the keys die with it. Move-only.
class pool {
 public:
  static constexpr std::size_t min_block = 256;

  /// @throws error of source::allocate() or of registering.
  pool(const device& dev, const pool_options& options);

  pool(pool&&) noexcept;
  pool& operator=(pool&&) noexcept;
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool();

  /// @param length bytes, from 1 to max_block()
  /// @throws error `pool_exhausted` at the limit, `invalid_argument`, or why growing failed.
  [[nodiscard]] block get(std::size_t length);
  [[nodiscard]] result<block> try_get(std::size_t length) noexcept;

  /// Give a block back. @throws error `invalid_argument` for a block that is not of this pool or
  /// was put back already; the pool is unchanged.
  void put(const block& b);

  [[nodiscard]] std::size_t max_block() const noexcept;
  [[nodiscard]] pool_statistics statistics() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace memopt
