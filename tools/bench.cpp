// SPDX-License-Identifier: MIT
// memopt bench: the schemes side by side on one device.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "bench/reports.hpp"
#include "bench/schemes.hpp"
#include "verbs.hpp"

namespace memopt::tool {
namespace {

struct bench_options {
  std::string device;
  std::vector<std::string> schemes;
  bench::options measuring;
  std::string json_file;
  std::string csv_file;
  std::string svg_file;
  bool quiet = false;
};

device open_device(const std::string& name) {
  if (!name.empty()) {
    return device::open(name);
  }
  const std::vector<std::string> names = device::list();
  if (names.empty()) {
    throw error{ENODEV, reason::no_device, "find an RDMA device"};
  }
  return device::open(names.front());
}

// "-" is standard output. A file that can not be written must be known before minutes of work.
void check_writable(const std::string& path) {
  if (!path.empty() && path != "-" && !std::ofstream{path, std::ios::app}) {
    throw std::runtime_error{fmt::format("can not write {}: {}", path, std::strerror(errno))};
  }
}

void write_text(const std::string& path, const std::string& text) {
  if (path.empty()) {
    return;
  }
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file{path, std::ios::trunc};
  if (!(file << text).flush()) {
    throw std::runtime_error{fmt::format("can not write {}: {}", path, std::strerror(errno))};
  }
}

bench::report measure(const device& dev, const bench_options& given) {
  bench::report report{
      std::string{dev.name()}, given.measuring.repeats, given.measuring.transfers.large, {}};
  std::size_t number = 0;
  for (const std::string& scheme : given.schemes) {
    ++number;
    if (!given.quiet) {
      fmt::print(stderr, "[{}/{}] {} ...\n", number, given.schemes.size(), scheme);
    }
    report.rows.push_back(bench::run_scheme(scheme, dev, given.measuring));
  }
  return report;
}

// Bytes that came out wrong make every other figure worthless.
bool all_verified(const bench::report& report) {
  for (const bench::row& row : report.rows) {
    if (!row.why && row.bytes_verified != row.bytes_moved) {
      fmt::print(stderr, "memopt: {}: only {} of {} bytes arrived right\n", row.scheme,
                 row.bytes_verified, row.bytes_moved);
      return false;
    }
  }
  return true;
}

int run(const bench_options& given) {
  for (const std::string* path : {&given.json_file, &given.csv_file, &given.svg_file}) {
    check_writable(*path);
  }
  const device dev = open_device(given.device);
  const bench::report report = measure(dev, given);
  const system_facts facts = read_system_facts();

  if (given.json_file != "-" && given.csv_file != "-") {
    fmt::print("{}", bench::to_table(report, facts));
  }
  write_text(given.json_file, bench::to_json(report, facts).dump(2) + '\n');
  write_text(given.csv_file, bench::to_csv(report));
  if (!given.svg_file.empty()) {
    bench::write_svg(report, facts, given.svg_file);
  }
  return all_verified(report) ? exit_success : exit_failure;
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto given = std::make_shared<bench_options>();
  given->schemes = bench::scheme_names();
  CLI::App* verb = app.add_subcommand("bench", "Compare the memory schemes on an RDMA device");
  verb->add_option("--device", given->device, "RDMA device; the first one by default");
  verb->add_option("--schemes", given->schemes, "Comma-separated list; all by default")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::scheme_names()));
  verb->add_option("--bytes", given->measuring.bytes,
                   "Memory of each scheme, 1M to 1G; 1 GiB pages round it up")
      ->transform(CLI::AsSizeValue(false) & CLI::Range(1ULL << 20U, 1ULL << 30U))
      ->default_str("64M");
  verb->add_option("--repeats", given->measuring.repeats, "Registrations to take the median of")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  verb->add_option("--transfers", given->measuring.transfers.large, "Requests of 1 MiB each way")
      ->check(CLI::Range(1U, 100000U))
      ->capture_default_str();
  verb->add_option("--address", given->measuring.address,
                   "Where the share listens; the device's first IPv4 address by default");
  verb->add_option("--json", given->json_file, "Write JSON to this file; - replaces the table");
  verb->add_option("--csv", given->csv_file, "Write CSV to this file; - replaces the table");
  verb->add_option("--svg", given->svg_file, "Draw the comparison into this file (needs gnuplot)");
  verb->add_flag("--quiet", given->quiet, "No progress on standard error");
  verb->callback([given, &status] { status = run(*given); });
}

}  // namespace memopt::tool
