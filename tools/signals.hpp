// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>

#include <signal.h>

namespace memopt::tool {

/// Blocks SIGINT and SIGTERM for its lifetime, so that long work can ask for them at places where
/// stopping is clean. Make it before starting threads.
class stop_signals {
 public:
  stop_signals();
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  /// Wait for one of the signals. @return its number, or nothing when the time ran out
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

 private:
  sigset_t set_{};
  sigset_t before_{};
};

}  // namespace memopt::tool
