// SPDX-License-Identifier: MIT
#include <memopt/buffer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/mman.h>

#include "detail/buffer_state.hpp"
#include "detail/system_calls.hpp"

namespace memopt {
namespace {

constexpr std::array<std::pair<scheme, std::string_view>, 6> names{{
    {scheme::plain, "plain"},
    {scheme::thp, "thp"},
    {scheme::hugetlb_2m, "hugetlb_2m"},
    {scheme::hugetlb_1g, "hugetlb_1g"},
    {scheme::cma, "cma"},
    {scheme::contig, "contig"},
}};

}  // namespace

namespace detail {

buffer_state::~buffer_state() {
  if (address != nullptr) {
    sys().munmap(address, mapped_size);
  }
  if (buffer_id != 0) {
    // Shares and MRs keep duplicates of the file, so closing alone would not give it up.
    memopt_buf_free argument{};
    argument.buf_id = buffer_id;
    (void)call_module(file.fd(), MEMOPT_BUF_FREE, argument);
  }
}

void relocate(buffer& memory, void* target) {
  buffer_state& state = *memory.state();
  void* moved = mremap(state.address, state.mapped_size, state.mapped_size,
                       MREMAP_MAYMOVE | MREMAP_FIXED, target);
  if (moved == MAP_FAILED) {
    throw error{errno, errno == ENOMEM ? reason::max_map_count : reason::unsupported,
                "move " + std::to_string(state.mapped_size) + " bytes of " +
                    std::string{to_string(state.scheme)} + " memory"};
  }
  const auto shift =
      reinterpret_cast<std::uintptr_t>(moved) ^ reinterpret_cast<std::uintptr_t>(state.address);
  state.address = moved;
  if (shift != 0) {
    state.alignment = std::min<std::size_t>(state.alignment, shift & (~shift + 1));
  }
}

const buffer_state& module_buffer(const buffer& memory, const std::string& operation) {
  if (!memory || memory.state()->buffer_id == 0) {
    throw error{EINVAL, reason::invalid_argument, operation,
                memory ? std::string{to_string(memory.scheme())} +
                             " memory is not the module's; take cma or contig"
                       : std::string{"the buffer is empty"}};
  }
  return *memory.state();
}

}  // namespace detail

std::string_view to_string(scheme which) noexcept {
  const auto found = std::ranges::find(names, which, &decltype(names)::value_type::first);
  return found == names.end() ? std::string_view{"unknown"} : found->second;
}

scheme scheme_from_string(std::string_view name) {
  const auto found = std::ranges::find(names, name, &decltype(names)::value_type::second);
  if (found != names.end()) {
    return found->first;
  }
  std::string known = "known are:";
  for (const auto& entry : names) {
    known += ' ';
    known += entry.second;
  }
  throw error{EINVAL, reason::invalid_argument, "find the scheme '" + std::string{name} + "'",
              known};
}

std::string to_string(std::span<const refusal> refusals) {
  std::string text;
  for (const refusal& r : refusals) {
    text += text.empty() ? "" : ", ";
    text += to_string(r.scheme);
    text += ": ";
    text += to_string(r.reason);
  }
  return text;
}

buffer::buffer() noexcept = default;
buffer::buffer(std::unique_ptr<detail::buffer_state> state) noexcept : state_{std::move(state)} {}
buffer::buffer(buffer&&) noexcept = default;
buffer& buffer::operator=(buffer&&) noexcept = default;
buffer::~buffer() = default;

void* buffer::data() const noexcept { return state_ ? state_->address : nullptr; }

std::size_t buffer::size() const noexcept { return state_ ? state_->size : 0; }

std::size_t buffer::mapped_size() const noexcept { return state_ ? state_->mapped_size : 0; }

std::span<std::byte> buffer::bytes() const noexcept {
  return {static_cast<std::byte*>(data()), size()};
}

memopt::scheme buffer::scheme() const noexcept {
  return state_ ? state_->scheme : memopt::scheme::plain;
}

std::size_t buffer::page_size() const noexcept { return state_ ? state_->page_size : 0; }

std::size_t buffer::page_count() const noexcept {
  return state_ && state_->page_size != 0 ? state_->mapped_size / state_->page_size : 0;
}

std::size_t buffer::mapping_size() const noexcept { return state_ ? state_->mapping_size : 0; }

std::size_t buffer::segments() const noexcept { return state_ ? state_->segments : 0; }

std::size_t buffer::alignment() const noexcept { return state_ ? state_->alignment : 0; }

int buffer::node() const noexcept { return state_ ? state_->node : any_node; }

bool buffer::pinnable() const noexcept { return state_ && state_->pinnable; }

std::span<const refusal> buffer::refusals() const noexcept {
  return state_ ? std::span<const refusal>{state_->refusals} : std::span<const refusal>{};
}

}  // namespace memopt
