// SPDX-License-Identifier: MIT
#include "signals.hpp"

#include <algorithm>
#include <cerrno>

namespace memopt::tool {

stop_signals::stop_signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
}

stop_signals::~stop_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> stop_signals::wait_for(std::chrono::milliseconds time) const {
  const auto until = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::max(std::chrono::nanoseconds{0},
                               std::chrono::nanoseconds{until - std::chrono::steady_clock::now()});
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{seconds.count(), (left - seconds).count()};
    const int number = sigtimedwait(&set_, nullptr, &limit);
    if (number > 0) {
      return number;
    }
    if (errno != EINTR) {
      return std::nullopt;
    }
  }
}

}  // namespace memopt::tool
