// SPDX-License-Identifier: MIT
// The comparison as a picture, drawn by gnuplot.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <sys/wait.h>

#include <fmt/format.h>

#include "../text_table.hpp"
#include "reports.hpp"

namespace memopt::tool::bench {
namespace {

// In a gnuplot string in double quotes these would end it or start an escape or markup.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    } else if (c == '_' || c == '^' || c == '{' || c == '}' || c == '@' || c == '&' || c == '~') {
      out += "\\\\";
    }
    out += c;
  }
  return out;
}

// A panel of clustered bars: columns of the data block $d by number, with their titles.
struct series {
  int column;
  std::string_view title;
  std::string_view colour;
};

std::string panel(std::string_view title, std::string_view axis, bool logarithmic,
                  std::initializer_list<series> bars) {
  std::string out = fmt::format("set title \"{}\"\nset ylabel \"{}\"\n", title, axis);
  // A bar on a logarithmic axis starts at the axis, so the range must be fixed from below.
  out +=
      logarithmic ? "set logscale y\nset yrange [0.5:*]\n" : "unset logscale y\nset yrange [0:*]\n";
  out += "plot ";
  bool first = true;
  for (const series& s : bars) {
    out += fmt::format("{}$d using {}:xtic(1) title \"{}\" linecolor rgb \"{}\"", first ? "" : ", ",
                       s.column, s.title, s.colour);
    first = false;
  }
  return out + "\n";
}

}  // namespace

std::string to_gnuplot(const report& r, const system_facts& facts) {
  std::string data;
  std::string refused;
  for (const row& l : r.rows) {
    if (l.why) {
      refused += fmt::format("{}{}: {}", refused.empty() ? "" : ", ", l.scheme, to_string(*l.why));
      continue;
    }
    data +=
        fmt::format("\"{}\" {} {} {} {} {} {} {} {} {} {}\n", plain(l.scheme), l.alloc_ms,
                    l.first_touch_ms, l.reg_first_us, l.reg_again_us, l.dereg_us, l.entries.at_4k,
                    l.entries.at_2m, l.entries.at_1g, l.write_1m_mbps, l.read_1m_mbps);
  }
  const std::string heading =
      fmt::format("rdma_memopt: schemes on {}, kernel {}", r.device, facts.kernel);
  const std::string remark =
      refused.empty() ? std::string{} : fmt::format("did not run: {}", refused);

  std::string out = "set terminal svg size 1200,900 font \"Helvetica,13\" background \"white\"\n";
  out += fmt::format("$d << EOD\n{}EOD\n", data);
  out +=
      "set style data histogram\nset style histogram clustered gap 1\n"
      "set style fill solid 0.9 noborder\nset boxwidth 0.9\n"
      "set grid ytics linecolor rgb \"#dddddd\"\nset border 3\n"
      "set xtics nomirror rotate by -35\nset ytics nomirror\n";
  // Between the title of a panel and its bars; an outer place would be that of the whole picture.
  out +=
      "set key at graph 0.5,1.01 center bottom horizontal samplen 1 width 1\n"
      "set title offset 0,1.3\n";
  out += fmt::format(
      "set multiplot layout 2,2 title \"{}\" font \",16\" margins 0.08,0.98,0.12,0.86 "
      "spacing 0.1,0.2\n",
      plain(heading));
  if (!data.empty()) {
    // Every panel draws every label there is.
    out += fmt::format("set label 1 \"{}\" at screen 0.02,0.015 font \",11\"\n", plain(remark));
    out += panel("Getting the memory", "ms, log scale", true,
                 {{2, "allocate", "#4477aa"}, {3, "first touch", "#ccbb44"}});
    out += "unset label 1\n";
    out += panel("Registration", "us, log scale", true,
                 {{4, "first", "#aa3377"}, {5, "again", "#ee6677"}, {6, "deregister", "#bbbbbb"}});
    out += panel("Translation entries by largest device page", "entries, log scale", true,
                 {{7, "4 KiB", "#222255"}, {8, "2 MiB", "#4477aa"}, {9, "1 GiB", "#66ccee"}});
    out += panel("RDMA, 1 MiB requests one at a time", "10^6 B/s", false,
                 {{10, "write", "#228833"}, {11, "read", "#ccbb44"}});
  }
  out += "unset multiplot\n";
  return out;
}

void write_svg(const report& r, const system_facts& facts, const std::string& path) {
  // The script goes in by standard input and the picture to a file of the shell's, so that no
  // name is ever part of a command line.
  const std::string script = "set output \"" + [&] {
    std::string escaped;
    for (const char c : path) {
      if (c == '"' || c == '\\') {
        escaped += '\\';
      }
      escaped += c;
    }
    return escaped;
  }() + "\"\n" + to_gnuplot(r, facts);
  if (!std::ofstream{path, std::ios::app}) {
    throw std::runtime_error{fmt::format("can not write {}: {}", path, std::strerror(errno))};
  }
  std::FILE* gnuplot = popen("gnuplot", "w");  // NOLINT: a fixed command
  if (gnuplot == nullptr) {
    throw std::runtime_error{"can not start gnuplot"};
  }
  const bool sent = std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  const int status = pclose(gnuplot);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw std::runtime_error{"--svg needs gnuplot; install the package gnuplot-nox"};
  }
  if (!sent || status != 0) {
    throw std::runtime_error{fmt::format("gnuplot failed with status {}", status)};
  }
}

}  // namespace memopt::tool::bench
