// SPDX-License-Identifier: MIT
#include "text_table.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace memopt::tool {
namespace {

// Column width in characters: a UTF-8 continuation byte takes no room.
std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string pad(std::string_view text, std::size_t width, text_table::align alignment) {
  const std::size_t used = display_width(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return alignment == text_table::align::left ? fmt::format("{}{}", text, blanks)
                                              : fmt::format("{}{}", blanks, text);
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

}  // namespace

text_table::text_table(std::vector<column> columns) : columns_{std::move(columns)} {
  if (!columns_.empty()) {
    columns_.front().alignment = align::left;
  }
}

void text_table::add(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw std::invalid_argument{
        fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size())};
  }
  rows_.push_back({std::move(cells), false});
}

void text_table::add_remark(std::string first_cell, std::string text) {
  rows_.push_back({{std::move(first_cell), std::move(text)}, true});
}

std::string text_table::render(std::size_t width) const {
  std::vector<std::size_t> widths;
  widths.reserve(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = display_width(columns_[i].title);
    for (const row& r : rows_) {
      if (i == 0 || !r.remark) {
        widest = std::max(widest, display_width(r.cells[i]));
      }
    }
    widths.push_back(widest);
  }

  std::string out;
  const auto line_of = [&](auto&& cell_at) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += pad(cell_at(i), widths[i], columns_[i].alignment);
    }
    append_line(out, std::move(line));
  };

  line_of([&](std::size_t i) { return std::string_view{columns_[i].title}; });
  for (const row& r : rows_) {
    if (r.remark) {
      const std::size_t indent = widths.empty() ? 0 : widths.front() + 2;
      append_line(out,
                  pad(r.cells[0], indent, align::left) + wrap(r.cells[1], width, indent, indent));
    } else {
      line_of([&](std::size_t i) { return std::string_view{r.cells[i]}; });
    }
  }
  return out;
}

std::string wrap(const std::string& text, std::size_t width, std::size_t first_used,
                 std::size_t indent) {
  std::istringstream words{text};
  std::string out;
  std::string word;
  std::size_t used = first_used;
  bool line_is_empty = true;
  while (words >> word) {
    const std::size_t length = display_width(word);
    if (!line_is_empty && used + 1 + length > width) {
      out += '\n';
      out.append(indent, ' ');
      used = indent;
      line_is_empty = true;
    }
    if (!line_is_empty) {
      out += ' ';
      ++used;
    }
    out += word;
    used += length;
    line_is_empty = false;
  }
  return out;
}

std::string format_bytes(unsigned long long bytes) {
  static constexpr std::array<std::pair<unsigned, std::string_view>, 4> units{
      {{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  for (const auto& [shift, name] : units) {
    const unsigned long long unit = 1ULL << shift;
    if (bytes >= unit && bytes % unit == 0) {
      return fmt::format("{} {}", bytes >> shift, name);
    }
  }
  return fmt::format("{} B", bytes);
}

}  // namespace memopt::tool
