// SPDX-License-Identifier: MIT
#include <memopt/source.hpp>

#include <bit>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "detail/allocate.hpp"
#include "detail/attempt.hpp"

namespace memopt {
namespace {

constexpr std::size_t largest_alignment = std::size_t{1} << 30;

void check(std::size_t length, const allocation_options& options) {
  const std::string operation = "allocate " + std::to_string(length) + " bytes";
  if (length == 0) {
    throw error{EINVAL, reason::invalid_argument, operation, "the length must be more than 0"};
  }
  if (options.alignment != 0 &&
      (!std::has_single_bit(options.alignment) || options.alignment > largest_alignment)) {
    throw error{
        EINVAL, reason::invalid_argument, operation,
        "alignment " + std::to_string(options.alignment) + " is no power of two up to 1 GiB"};
  }
  if (options.node < any_node) {
    throw error{EINVAL, reason::invalid_argument, operation,
                "there is no node " + std::to_string(options.node)};
  }
  // Sums of length, page and alignment must not wrap.
  if (length > std::numeric_limits<std::size_t>::max() / 4) {
    throw error{ENOMEM, reason::out_of_memory, operation, "no address space is that large"};
  }
}

std::unique_ptr<detail::buffer_state> allocate_one(scheme which, std::size_t length,
                                                   const allocation_options& options) {
  switch (which) {
    case scheme::plain:
    case scheme::thp:
      return detail::allocate_anonymous(which, length, options);
    case scheme::hugetlb_2m:
    case scheme::hugetlb_1g:
      return detail::allocate_hugetlb(which, length, options);
    case scheme::cma:
    case scheme::contig:
      return detail::allocate_from_module(which, length, options);
  }
  throw error{EINVAL, reason::invalid_argument, "allocate memory", "the scheme does not exist"};
}

[[noreturn]] void fail(std::size_t length, const error& first,
                       const std::vector<refusal>& refusals) {
  if (refusals.size() == 1) {
    throw first;
  }
  std::string all;
  for (const refusal& r : refusals) {
    all += all.empty() ? "" : "; ";
    all += std::string{to_string(r.scheme)} + ": " + std::string{to_string(r.reason)} + ", " +
           r.detail;
  }
  throw error{first.code().value(), first.reason(),
              "allocate " + std::to_string(length) + " bytes of any scheme in the list", all};
}

}  // namespace

namespace detail {

std::string allocation_name(scheme which, std::size_t length) {
  return "allocate " + std::to_string(length) + " bytes of " + std::string{to_string(which)} +
         " memory";
}

std::size_t round_up(std::size_t length, std::size_t unit, const std::string& operation) {
  if (length > std::numeric_limits<std::size_t>::max() - (unit - 1)) {
    throw error{EOVERFLOW, reason::invalid_argument, operation, "the length does not fit"};
  }
  return (length + unit - 1) & ~(unit - 1);
}

}  // namespace detail

source::source(std::initializer_list<scheme> preference, policy otherwise)
    : source{std::span<const scheme>{preference.begin(), preference.size()}, otherwise} {}

source::source(std::span<const scheme> preference, policy otherwise)
    : preference_{preference.begin(), preference.end()}, otherwise_{otherwise} {
  if (preference_.empty()) {
    throw error{EINVAL, reason::invalid_argument, "make a source", "the list of schemes is empty"};
  }
}

buffer source::allocate(std::size_t length, const allocation_options& options) const {
  check(length, options);
  std::vector<refusal> refusals;
  std::vector<error> first;  // none or one
  const auto attempt_with = [&](scheme which) -> std::unique_ptr<detail::buffer_state> {
    try {
      return allocate_one(which, length, options);
    } catch (const error& failure) {
      refusals.push_back({which, failure.reason(), failure.what()});
      if (first.empty()) {
        first.push_back(failure);
      }
      return nullptr;
    }
  };
  for (const scheme which : preference_) {
    if (auto state = attempt_with(which)) {
      state->refusals = std::move(refusals);
      return buffer{std::move(state)};
    }
  }
  if (otherwise_ == policy::permissive) {
    if (auto state = attempt_with(scheme::plain)) {
      state->refusals = std::move(refusals);
      return buffer{std::move(state)};
    }
  }
  fail(length, first.front(), refusals);
}

result<buffer> source::try_allocate(std::size_t length,
                                    const allocation_options& options) const noexcept {
  return detail::attempt("allocate memory", [&] { return allocate(length, options); });
}

}  // namespace memopt
