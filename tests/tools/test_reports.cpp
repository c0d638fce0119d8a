// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <unistd.h>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include "bench/reports.hpp"
#include "bench/schemes.hpp"

using namespace memopt;
using namespace memopt::tool;

namespace {

bench::row good_row(std::string name) {
  bench::row r;
  r.scheme = std::move(name);
  r.bytes = 64U << 20U;
  r.obtained = {4096, 16384, 4096, "malloc"};
  r.alloc_ms = 0.25;
  r.first_touch_ms = 120.5;
  r.reg_first_us = 123456;
  r.reg_again_us = 4321.5;
  r.dereg_us = 99.9;
  r.entries = {16384, 32, 1};
  r.write_64b_us = 161;
  r.read_64b_us = 170;
  r.write_1m_mbps = 21.5;
  r.read_1m_mbps = 20.25;
  r.bytes_moved = r.bytes_verified = 1000;
  return r;
}

bench::report sample() {
  bench::report report{"rxe0", 5, 32, {}};
  report.rows.push_back(good_row("hugetlb_2m"));
  bench::row cma = good_row("cma");
  cma.path = "share";
  cma.posted = bench::posted_entries{32, 2U << 20U};
  cma.note = "a \"note\"";
  report.rows.push_back(cma);
  bench::row odp;
  odp.scheme = "odp";
  odp.bytes = 64U << 20U;
  odp.why = reason::odp_unreliable;
  odp.detail = "bytes differ at offset 1024 of a page, and this sentence is long enough to wrap";
  report.rows.push_back(odp);
  return report;
}

std::size_t count_fields(const std::string& line) {
  bool inside = false;
  std::size_t fields = 1;
  for (const char c : line) {
    inside = c == '"' ? !inside : inside;
    fields += c == ',' && !inside ? 1 : 0;
  }
  return fields;
}

}  // namespace

TEST_CASE("JSON carries every figure, and a reason instead of them", "[reports]") {
  const auto document = bench::to_json(sample(), {});
  CHECK(document.at("version") == 1);
  CHECK(document.at("device") == "rxe0");
  REQUIRE(document.at("rows").size() == 3);

  const auto& row = document["rows"][0];
  CHECK(row.at("scheme") == "hugetlb_2m");
  CHECK(row.at("path") == "user_pd");
  CHECK(row.at("obtained").at("page_size") == 4096);
  CHECK(row.at("entries").at("4K") == 16384);
  CHECK(row.at("entries").at("2M") == 32);
  CHECK(row.at("entries").at("1G") == 1);
  CHECK(row.at("write_1M_MBps") == 21.5);
  CHECK(row.at("bytes_verified") == 1000);
  CHECK(row.at("reason").is_null());

  CHECK(document["rows"][1].at("path") == "share");
  CHECK(document["rows"][1].at("posted").at("entries") == 32);

  const auto& refused = document["rows"][2];
  CHECK(refused.at("reason") == "odp_unreliable");
  CHECK_FALSE(refused.contains("alloc_ms"));
}

TEST_CASE("every CSV line has as many fields as the header", "[reports]") {
  std::istringstream lines{bench::to_csv(sample())};
  std::string line;
  std::getline(lines, line);
  const std::size_t fields = count_fields(line);
  std::size_t rows = 0;
  while (std::getline(lines, line)) {
    CAPTURE(line);
    CHECK(count_fields(line) == fields);
    ++rows;
  }
  CHECK(rows == 3);
}

TEST_CASE("the table stays under 80 columns, with the widest figures too", "[reports]") {
  bench::report report = sample();
  for (const std::string& name : bench::scheme_names()) {
    bench::row wide = good_row(name);
    wide.bytes = 1U << 30U;
    wide.obtained = {2U << 20U, 262144, 2U << 20U, "2 MiB body"};
    wide.alloc_ms = 12345.6;
    wide.first_touch_ms = 12345.6;
    wide.reg_first_us = 12345678;
    wide.reg_again_us = 1234567;
    wide.dereg_us = 123456;
    wide.entries = {262144, 262144, 262144};
    wide.write_64b_us = 12345;
    wide.read_64b_us = 12345;
    wide.write_1m_mbps = 12345;
    wide.read_1m_mbps = 12345;
    report.rows.push_back(wide);
  }
  system_facts facts;
  facts.kernel = "7.3.4+deb13-amd64";
  std::istringstream lines{bench::to_table(report, facts)};
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() < 80);
  }
}

TEST_CASE("the table shows the reason and never hides bytes that came out wrong", "[reports]") {
  bench::report report = sample();
  report.rows[0].bytes_verified = 999;
  const std::string table = bench::to_table(report, {});
  CHECK(table.find("odp_unreliable") != std::string::npos);
  CHECK(table.find("WRONG") != std::string::npos);
  CHECK(table.find("32 entries of 2 MiB") != std::string::npos);
}

TEST_CASE("the picture names the schemes that ran and those that did not", "[reports]") {
  const std::string script = bench::to_gnuplot(sample(), {});
  CHECK(script.find("\"hugetlb\\\\_2m\" 0.25 120.5 123456") != std::string::npos);
  CHECK(script.find("did not run: odp: odp") != std::string::npos);
  CHECK(script.find("\"odp\" ") == std::string::npos);
}

TEST_CASE("a picture without a single row is still a picture", "[reports]") {
  bench::report report = sample();
  CHECK(bench::to_gnuplot(report, {}).find("\nplot ") != std::string::npos);
  report.rows.erase(report.rows.begin(), report.rows.begin() + 2);
  CHECK(bench::to_gnuplot(report, {}).find("\nplot ") == std::string::npos);
}

TEST_CASE("gnuplot draws the picture", "[reports]") {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("memopt \"quoted\" {}.svg", getpid());
  bench::write_svg(sample(), {}, path.string());
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::filesystem::remove(path);
  CHECK(text.find("<svg") != std::string::npos);
  CHECK(text.find("Registration") != std::string::npos);
  CHECK(text.find("</svg>") != std::string::npos);
  CHECK_THROWS(bench::write_svg(sample(), {}, "/nowhere/at/all.svg"));
}
