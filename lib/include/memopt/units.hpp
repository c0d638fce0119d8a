// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace memopt {

inline namespace literals {

/// Sizes in binary units: 64_MiB is 67108864 bytes.
constexpr std::size_t operator""_KiB(unsigned long long n) { return std::size_t{n} << 10; }
constexpr std::size_t operator""_MiB(unsigned long long n) { return std::size_t{n} << 20; }
constexpr std::size_t operator""_GiB(unsigned long long n) { return std::size_t{n} << 30; }

}  // namespace literals

}  // namespace memopt
