// SPDX-License-Identifier: MIT
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memopt/error.hpp>

#include "verbs.hpp"

namespace {

using namespace memopt::tool;

int run(int argc, char** argv) {
  CLI::App app{"Memory for RDMA: what this machine has, what it lacks, and what each scheme costs.",
               "memopt"};
  app.set_version_flag("--version", MEMOPT_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);

  int status = exit_success;
  add_info(app, status);
  add_check(app, status);
  add_bench(app, status);
  add_share(app, status);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "memopt: {}\nTry 'memopt --help'.\n", wrong.what());
    return exit_usage;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const memopt::error& failure) {
    fmt::print(stderr, "memopt: {} [{}]\n", failure.what(), memopt::to_string(failure.reason()));
  } catch (const std::exception& failure) {
    fmt::print(stderr, "memopt: {}\n", failure.what());
  }
  return exit_failure;
}
