// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace memopt::tool {

/// Plain-text table for a terminal: the first column is left-aligned, the others as asked for.
/// Widths follow the contents; render() never adds trailing blanks. Column counts must agree.
class text_table {
 public:
  enum class align : unsigned char { left, right };

  struct column {
    std::string title;
    align alignment = align::right;
  };

  explicit text_table(std::vector<column> columns);

  /// @throws std::invalid_argument if the number of cells differs from the number of columns.
  void add(std::vector<std::string> cells);

  /// A line that starts like a row and then runs on freely ("odp  odp_unreliable: …"), wrapped at
  /// `width` with a hanging indent under the second column.
  void add_remark(std::string first_cell, std::string text);

  /// @param width columns of the terminal; only remarks are wrapped
  [[nodiscard]] std::string render(std::size_t width = 79) const;

 private:
  struct row {
    std::vector<std::string> cells;
    bool remark;
  };

  std::vector<column> columns_;
  std::vector<row> rows_;
};

/// Break at blanks so that no line is longer than `width` (a longer word stays whole). Lines after
/// the first start with `indent` blanks.
[[nodiscard]] std::string wrap(const std::string& text, std::size_t width, std::size_t first_used,
                               std::size_t indent);

/// "4 KiB", "2 MiB", "64 MiB", "1 GiB"; bytes where it is no whole unit ("5000 B").
[[nodiscard]] std::string format_bytes(unsigned long long bytes);

}  // namespace memopt::tool
