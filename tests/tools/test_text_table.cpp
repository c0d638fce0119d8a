// SPDX-License-Identifier: MIT
#include <sstream>
#include <stdexcept>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "text_table.hpp"

using namespace memopt::tool;
using align = text_table::align;

TEST_CASE("a table aligns its columns and leaves no blanks at line ends", "[text_table]") {
  text_table table{{{"name"}, {"n"}, {"text", align::left}}};
  table.add({"a", "12345", "x"});
  table.add({"longer", "1", "yy"});
  CHECK(table.render() ==
        "name        n  text\n"
        "a       12345  x\n"
        "longer      1  yy\n");
}

TEST_CASE("a row with another number of cells is refused", "[text_table]") {
  text_table table{{{"a"}, {"b"}}};
  CHECK_THROWS_AS(table.add({"only one"}), std::invalid_argument);
  CHECK_THROWS_AS(table.add({"1", "2", "3"}), std::invalid_argument);
}

TEST_CASE("a remark wraps inside the width and never widens other columns", "[text_table]") {
  text_table table{{{"scheme"}, {"value"}}};
  table.add({"contig", "7"});
  table.add_remark("odp", std::string(3, 'w') + " " + std::string(30, 'x') + " " +
                              std::string(30, 'y') + " " + std::string(30, 'z'));
  std::istringstream lines{table.render(60)};
  std::string line;
  std::size_t count = 0;
  while (std::getline(lines, line)) {
    CHECK(line.size() <= 60);
    ++count;
  }
  CHECK(count == 5);
  CHECK(table.render(60).find("contig      7\n") != std::string::npos);
}

TEST_CASE("a character of several bytes takes one column", "[text_table]") {
  text_table table{{{"x"}, {"µs"}}};
  table.add({"r", "10"});
  CHECK(table.render() == "x  µs\nr  10\n");
}

TEST_CASE("wrap keeps a word that is longer than the line whole", "[text_table]") {
  CHECK(wrap("aa bbbbbbbbbbbb cc", 8, 0, 2) == "aa\n  bbbbbbbbbbbb\n  cc");
  CHECK(wrap("", 10, 0, 2).empty());
}

TEST_CASE("sizes are shown in the largest whole unit", "[text_table]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(4096) == "4 KiB");
  CHECK(format_bytes(5000) == "5000 B");
  CHECK(format_bytes(3ULL << 30U) == "3 GiB");
  CHECK(format_bytes((1ULL << 30U) + (1ULL << 20U)) == "1025 MiB");
  CHECK(format_bytes(1ULL << 40U) == "1 TiB");
}
