// SPDX-License-Identifier: MIT
#include "detail/smaps.hpp"

#include <charconv>
#include <fstream>
#include <optional>

namespace memopt::detail {
namespace {

template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{}) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

void skip_blanks(std::string_view& text) {
  const auto first = text.find_first_not_of(" \t");
  text.remove_prefix(first == std::string_view::npos ? text.size() : first);
}

std::string_view take_word(std::string_view& text) {
  skip_blanks(text);
  const auto length = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

// "7f00-7f10 rw-p 00000000 00:00 0    name"
std::optional<vma> parse_header(std::string_view line) {
  const auto begin = take_number<std::uintptr_t>(line, 16);
  if (!begin || !line.starts_with('-')) {
    return std::nullopt;
  }
  line.remove_prefix(1);
  const auto end = take_number<std::uintptr_t>(line, 16);
  if (!end || *end <= *begin) {
    return std::nullopt;
  }
  vma found;
  found.begin = *begin;
  found.end = *end;
  found.permissions = take_word(line);
  for (int skipped = 0; skipped < 3; ++skipped) {  // offset, device, inode
    take_word(line);
  }
  skip_blanks(line);
  found.name = line;
  return found;
}

void parse_field(vma& current, std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) {
    return;
  }
  const std::string_view key = line.substr(0, colon);
  line.remove_prefix(colon + 1);
  skip_blanks(line);
  if (key == "VmFlags") {
    current.flags = line;
    if (!current.flags.ends_with(' ')) {
      current.flags += ' ';
    }
    return;
  }
  const auto kib = take_number<std::size_t>(line, 10);
  if (!kib || *kib > SIZE_MAX / 1024) {
    return;
  }
  const std::size_t bytes = *kib * 1024;
  if (key == "KernelPageSize") {
    current.kernel_page_size = bytes;
  } else if (key == "Rss") {
    current.resident = bytes;
  } else if (key == "AnonHugePages") {
    current.anonymous_huge = bytes;
  } else if (key == "FilePmdMapped" || key == "ShmemPmdMapped") {
    current.file_huge += bytes;
  }
}

}  // namespace

bool vma::has_flag(std::string_view two_letters) const noexcept {
  for (std::size_t at = 0; (at = flags.find(two_letters, at)) != std::string::npos; ++at) {
    const bool starts = at == 0 || flags[at - 1] == ' ';
    const std::size_t after = at + two_letters.size();
    if (starts && after < flags.size() && flags[after] == ' ') {
      return true;
    }
  }
  return false;
}

std::vector<vma> parse_smaps(std::istream& text, std::uintptr_t begin, std::uintptr_t end) {
  std::vector<vma> found;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (auto header = parse_header(line)) {
      if (header->begin >= end) {
        break;  // the file is in ascending order
      }
      inside = header->end > begin;
      if (inside) {
        found.push_back(std::move(*header));
      }
    } else if (inside) {
      parse_field(found.back(), line);
    }
  }
  return found;
}

std::vector<vma> mappings_of(const void* address, std::size_t length) {
  std::ifstream text{"/proc/self/smaps"};
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return parse_smaps(text, begin, begin + length);
}

}  // namespace memopt::detail
