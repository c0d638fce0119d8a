// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>

namespace memopt::tool {

/// Exit statuses, the same for every verb.
enum exit_status : int {
  exit_success = 0,  ///< done; for check: nothing is missing
  exit_failure = 1,  ///< it could not be done; for check: something that is needed is missing
  exit_usage = 2,    ///< the command line makes no sense
};

/// Each adds its verb to the command line; when the verb was given, parsing runs it and stores an
/// exit status. Errors of the library pass through as memopt::error.
void add_info(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_share(CLI::App& app, int& status);

}  // namespace memopt::tool
