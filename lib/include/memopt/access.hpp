// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace memopt {

/// Rights of a registration. Combine with `|`. The least is `local_read`, which is always there.
/// As the verbs specification wants it, `remote_write` and `remote_atomic` need `local_write`;
/// leaving it out is an error (`reason::invalid_argument`), never silently repaired.
enum class access : std::uint32_t {
  local_read = 0,
  local_write = 1U << 0,
  remote_read = 1U << 1,
  remote_write = 1U << 2,
  remote_atomic = 1U << 3,
};

[[nodiscard]] constexpr access operator|(access a, access b) noexcept {
  return static_cast<access>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

[[nodiscard]] constexpr access operator&(access a, access b) noexcept {
  return static_cast<access>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}

/// True if every right in `wanted` is in `rights`.
[[nodiscard]] constexpr bool has(access rights, access wanted) noexcept {
  return (rights & wanted) == wanted;
}

/// False for a combination the verbs specification forbids (see above).
[[nodiscard]] constexpr bool is_valid(access rights) noexcept {
  const bool changes = (rights & (access::remote_write | access::remote_atomic)) != access{};
  return !changes || has(rights, access::local_write);
}

}  // namespace memopt
