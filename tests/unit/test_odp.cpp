// SPDX-License-Identifier: MIT
// The check behind probe_odp() against simulated devices: a right one, and ones that are wrong in
// the ways copies across pages and packets go wrong.

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "odp_probe.hpp"

using memopt::error;
using memopt::reason;
using memopt::detail::check_transfers;
using memopt::detail::probe_area;
using memopt::detail::probe_bench;
using memopt::detail::probe_page;
using memopt::detail::probe_transfer;
using kind = memopt::detail::probe_transfer::kind;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A device in memory. `copy` moves one packet; the default does it right.
struct simulated_device {
  std::vector<std::byte> subject = std::vector<std::byte>(probe_area);
  std::vector<std::byte> witness = std::vector<std::byte>(probe_area);
  std::size_t mtu = 1024;
  unsigned transfers = 0;
  unsigned drops = 0;
  bool forgets = true;
  /// Arguments: target area, target offset, source area, source offset, length, transfer.
  std::function<void(std::vector<std::byte>&, std::size_t, const std::vector<std::byte>&,
                     std::size_t, std::size_t, const probe_transfer&)>
      copy = [](auto& target, std::size_t to, const auto& source, std::size_t from,
                std::size_t length, const probe_transfer&) {
        std::memcpy(target.data() + to, source.data() + from, length);
      };

  void move(const probe_transfer& t) {
    ++transfers;
    const bool in = t.changes_subject();
    auto& target = in ? subject : witness;
    const auto& source = in ? witness : subject;
    const std::size_t to = in ? t.subject_offset : t.witness_offset;
    const std::size_t from = in ? t.witness_offset : t.subject_offset;
    for (std::size_t done = 0; done < t.length; done += mtu) {
      copy(target, to + done, source, from + done, std::min(mtu, t.length - done), t);
    }
  }

  void check() {
    const probe_bench bench{
        .subject = subject,
        .witness = witness,
        .move = [this](const probe_transfer& t) { move(t); },
        .forget =
            [this] {
              ++drops;
              if (forgets) {
                std::ranges::fill(subject, std::byte{0});
              }
            },
    };
    check_transfers(bench, "probe a simulated device");
  }

  /// The text of the verdict "unreliable"; empty if the check passed.
  std::string verdict() {
    try {
      check();
      return {};
    } catch (const error& failure) {
      REQUIRE(failure.reason() == reason::odp_unreliable);
      REQUIRE(failure.operation() == "probe a simulated device");
      return failure.what();
    }
  }
};

}  // namespace

TEST_CASE("a device that copies right passes at every packet size", "[odp]") {
  for (const std::size_t mtu : {256U, 512U, 1024U, 2048U, 4096U}) {
    simulated_device device;
    device.mtu = mtu;
    CHECK(device.verdict().empty());
    CHECK(device.transfers > 40);
    CHECK(device.drops * 2 == device.transfers);
  }
}

TEST_CASE("data that lands at the start of the page is found", "[odp]") {
  simulated_device device;
  // What soft RoCE of Linux 7.3 does: the offset inside the page is lost.
  const auto lose_offset = [](auto& target, std::size_t to, const auto& source, std::size_t from,
                              std::size_t length, const probe_transfer& t) {
    if (t.what == kind::write_to_subject) {
      to -= to % probe_page;
    }
    std::memcpy(target.data() + to, source.data() + from, length);
  };
  device.copy = lose_offset;
  CHECK_THAT(device.verdict(),
             ContainsSubstring("WRITE of 4096 bytes to offset 0") && ContainsSubstring("inside"));

  // With packets of a page, page-aligned transfers hide it; odd ones must not.
  device.mtu = 4096;
  CHECK_THAT(device.verdict(), ContainsSubstring("WRITE of 5 bytes to offset 3") &&
                                   ContainsSubstring("5 bytes wrong inside"));
}

TEST_CASE("each way of using a registration is checked", "[odp]") {
  for (const kind broken : {kind::write_to_subject, kind::read_from_subject,
                            kind::write_from_subject, kind::read_into_subject}) {
    simulated_device device;
    device.copy = [broken](auto& target, std::size_t to, const auto& source, std::size_t from,
                           std::size_t length, const probe_transfer& t) {
      std::memcpy(target.data() + to, source.data() + from, t.what == broken ? length - 1 : length);
    };
    INFO("kind " << static_cast<int>(broken));
    CHECK_THAT(device.verdict(), ContainsSubstring("1 bytes wrong inside") ||
                                     ContainsSubstring("4 bytes wrong inside"));
  }
}

TEST_CASE("bytes changed outside the target range are found", "[odp]") {
  simulated_device device;
  device.copy = [](auto& target, std::size_t to, const auto& source, std::size_t from,
                   std::size_t length, const probe_transfer&) {
    std::memcpy(target.data() + to, source.data() + from, length);
    const std::size_t behind = to + length;
    if (behind < target.size()) {
      target[behind] = static_cast<std::byte>(~std::to_integer<unsigned>(target[behind]));
    }
  };
  device.mtu = 1U << 20;
  CHECK_THAT(device.verdict(),
             ContainsSubstring("0 bytes wrong inside") && ContainsSubstring("1 changed outside"));
}

TEST_CASE("a copy that damages its source is found", "[odp]") {
  simulated_device device;
  device.copy = [&device](auto& target, std::size_t to, const auto& source, std::size_t from,
                          std::size_t length, const probe_transfer& t) {
    std::memcpy(target.data() + to, source.data() + from, length);
    if (!t.changes_subject() && from != 0) {
      device.subject[from - 1] ^= std::byte{1};
    }
  };
  CHECK_THAT(device.verdict(), ContainsSubstring("changed outside the target range of the "
                                                 "registered memory"));
}

TEST_CASE("a wrong byte only at a page border inside a packet is found", "[odp]") {
  simulated_device device;
  device.mtu = 4096;
  device.copy = [](auto& target, std::size_t to, const auto& source, std::size_t from,
                   std::size_t length, const probe_transfer&) {
    const std::size_t in_page = std::min(length, probe_page - to % probe_page);
    std::memcpy(target.data() + to, source.data() + from, in_page);
    if (in_page < length) {  // starts the second page's part from the source's beginning
      std::memcpy(target.data() + to + in_page, source.data() + from, length - in_page);
    }
  };
  CHECK_THAT(device.verdict(), ContainsSubstring("offset 4089"));
}

TEST_CASE("a device that serves dropped pages from old ones is found", "[odp]") {
  simulated_device device;
  device.forgets = false;
  CHECK_THAT(device.verdict(), ContainsSubstring("without resident pages"));
}

TEST_CASE("a transfer that fails ends the check with its own error", "[odp]") {
  simulated_device device;
  device.copy = [](auto&, std::size_t, const auto&, std::size_t, std::size_t,
                   const probe_transfer&) {
    throw error{ETIMEDOUT, reason::timeout, "wait"};
  };
  try {
    device.check();
    FAIL("the check passed");
  } catch (const error& failure) {
    CHECK(failure.reason() == reason::timeout);
    CHECK(failure.operation() == "wait");
  }
  CHECK(device.transfers == 1);
}
