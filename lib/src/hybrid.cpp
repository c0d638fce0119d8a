// SPDX-License-Identifier: MIT

#include <memopt/hybrid.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <memopt/memory_region.hpp>

#include "detail/buffer_state.hpp"
#include "detail/smaps.hpp"
#include "hybrid_layout.hpp"

namespace memopt {

namespace {

using detail::hybrid_base;
using detail::hybrid_huge;
using detail::hybrid_layout;

/// Address space that nobody else can get while the parts are put into it.
///
/// A part that is placed belongs to its buffer. The rest is unmapped at the end; were a part's
/// range unmapped again here, that could hit a mapping another thread got there meanwhile.
class reservation {
 public:
  explicit reservation(std::size_t length) : length_{length} {
    void* at = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw error{errno, reason::out_of_memory,
                  "reserve " + std::to_string(length) + " bytes of address space"};
    }
    start_ = reinterpret_cast<std::uintptr_t>(at);
  }
  reservation(const reservation&) = delete;
  reservation& operator=(const reservation&) = delete;
  ~reservation() {
    if (length_ != 0) {
      munmap(reinterpret_cast<void*>(start_), length_);
    }
  }

  [[nodiscard]] std::uintptr_t start() const noexcept { return start_; }
  /// First border of that alignment with `before` bytes of the reservation in front of it.
  [[nodiscard]] std::uintptr_t border(std::size_t alignment, std::size_t before) const noexcept {
    return (start_ + before + alignment - 1) & ~(alignment - 1);
  }
  /// Unmap everything below the address.
  void drop_below(std::uintptr_t address) noexcept {
    if (address != start_) {
      munmap(reinterpret_cast<void*>(start_), address - start_);
    }
    release_below(address);
  }
  /// Everything below the address belongs to somebody else from now on.
  void release_below(std::uintptr_t address) noexcept {
    length_ -= address - start_;
    start_ = address;
  }

 private:
  std::uintptr_t start_ = 0;
  std::size_t length_;
};

/// Refuse what the contract excludes; nothing of it can be had by waiting or configuring.
void check_body(std::span<const scheme> preference, const std::string& operation) {
  for (const scheme which : preference) {
    if (which == scheme::plain || which == scheme::hugetlb_1g) {
      throw error{EINVAL, reason::invalid_argument, operation,
                  "a body of " + std::string{to_string(which)} +
                      " has no pages of 2 MiB and is not contiguous"};
    }
  }
}

/// The body, or why that scheme can not give it.
result<buffer> allocate_body(scheme which, std::size_t length) {
  auto body = source{which}.try_allocate(length, {.alignment = hybrid_huge, .node = any_node});
  if (!body) {
    return body;
  }
  const std::string operation =
      "take " + std::to_string(length) + " bytes of " + std::string{to_string(which)} + " as body";
  if (!body->pinnable()) {
    return tl::unexpected{error{EFAULT, reason::pfnmap, operation}};
  }
  if (body->mapped_size() != length || (body->page_size() < hybrid_huge && body->segments() != 1)) {
    return tl::unexpected{error{ENOMEM, reason::unsupported, operation,
                                "its pages are of " + std::to_string(body->page_size()) +
                                    " bytes in " + std::to_string(body->segments()) + " runs"}};
  }
  return body;
}

/// Moving takes 2 MiB at a time along if it can. Whether it did is seen in smaps only.
bool has_its_pages(const buffer& part) {
  if (part.scheme() != scheme::thp) {
    return true;
  }
  std::size_t huge = 0;
  for (const detail::vma& mapping : detail::mappings_of(part.data(), part.mapped_size())) {
    huge += mapping.anonymous_huge;
  }
  return huge >= part.mapped_size();
}

}  // namespace

struct hybrid_region::impl {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::vector<buffer> memory;             // in order of address
  std::vector<memory_region> registered;  // after memory: deregistered first
  std::vector<hybrid_piece> pieces;       // one for each of the above
  std::vector<refusal> refusals;

  [[nodiscard]] bool build(const hybrid_layout& layout, buffer&& body);
  void place(reservation& space, buffer&& part);
  void register_all(const device& dev, access rights);
};

/// Put a part to the start of what is left of the reservation.
void hybrid_region::impl::place(reservation& space, buffer&& part) {
  void* target = reinterpret_cast<void*>(space.start());
  space.release_below(space.start() + part.mapped_size());
  detail::relocate(part, target);
  memory.push_back(std::move(part));
}

/// Allocate the edges and put all parts in order; without a body all is on base pages.
/// @return false if the body lost its huge pages on the way; nothing is built then
bool hybrid_region::impl::build(const hybrid_layout& layout, buffer&& body) {
  const source base{scheme::plain};
  std::vector<buffer> parts;
  if (!body) {
    parts.push_back(base.allocate(layout.all_pages));
  } else {
    if (layout.front_pages != 0) {
      parts.push_back(base.allocate(layout.front_pages));
    }
    parts.push_back(std::move(body));
    if (layout.tail_pages != 0) {
      parts.push_back(base.allocate(layout.tail_pages));
    }
  }
  reservation space{layout.reservation()};
  space.drop_below(space.border(hybrid_huge, layout.front_pages) - layout.front_pages);
  data = reinterpret_cast<std::byte*>(space.start()) + layout.lead;
  for (buffer& part : parts) {
    place(space, std::move(part));
  }
  if (std::ranges::all_of(memory, has_its_pages)) {
    return true;
  }
  memory.clear();
  return false;
}

/// Registers the caller's bytes only, not the unused ones of the first and last page.
void hybrid_region::impl::register_all(const device& dev, access rights) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + size;
  for (const buffer& part : memory) {
    const auto part_begin = reinterpret_cast<std::uintptr_t>(part.data());
    const std::uintptr_t first = std::max(begin, part_begin);
    const std::size_t length = std::min(end, part_begin + part.mapped_size()) - first;
    void* address = reinterpret_cast<void*>(first);
    const memory_region& mr = registered.emplace_back(dev, address, length, rights);
    pieces.push_back({address, length, part.page_size(), mr.lkey(), mr.rkey()});
  }
}

hybrid_region::hybrid_region(const device& dev, std::size_t length, std::size_t offset,
                             const hybrid_options& options)
    : impl_{std::make_unique<impl>()} {
  const std::string operation = "make a hybrid region of " + std::to_string(length) + " bytes";
  const auto layout = detail::lay_out(length, offset);
  if (!dev || !layout) {
    throw error{EINVAL, reason::invalid_argument, operation,
                dev ? "offset " + std::to_string(offset) : "the device is empty"};
  }
  check_body(options.body.preference(), operation);
  impl_->size = length;
  bool built = false;
  for (const scheme which : options.body.preference()) {
    if (layout->body == 0 || built) {
      break;
    }
    auto body = allocate_body(which, layout->body);
    if (!body) {
      impl_->refusals.push_back({which, body.error().reason(), body.error().what()});
    } else if (!(built = impl_->build(*layout, std::move(*body)))) {
      impl_->refusals.push_back(
          {which, reason::thp_unavailable, "the kernel split the huge pages when they were moved"});
    }
  }
  if (!built) {
    (void)impl_->build(*layout, buffer{});
  }
  impl_->register_all(dev, options.rights);
}

hybrid_region::hybrid_region(hybrid_region&&) noexcept = default;
hybrid_region& hybrid_region::operator=(hybrid_region&&) noexcept = default;
hybrid_region::~hybrid_region() = default;

void* hybrid_region::data() const noexcept { return impl_ ? impl_->data : nullptr; }

std::size_t hybrid_region::size() const noexcept { return impl_ ? impl_->size : 0; }

std::span<const hybrid_piece> hybrid_region::pieces() const noexcept {
  return impl_ ? std::span<const hybrid_piece>{impl_->pieces} : std::span<const hybrid_piece>{};
}

std::span<const refusal> hybrid_region::refusals() const noexcept {
  return impl_ ? std::span<const refusal>{impl_->refusals} : std::span<const refusal>{};
}

const hybrid_piece* hybrid_region::find(const void* address, std::size_t length) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  for (const hybrid_piece& piece : pieces()) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.address);
    if (first >= begin && first - begin < piece.length) {
      return length <= piece.length - (first - begin) ? &piece : nullptr;
    }
  }
  return nullptr;
}

}  // namespace memopt
