// SPDX-License-Identifier: MIT
// The comparison as JSON, CSV and a table for people.
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "../text_table.hpp"
#include "reports.hpp"

namespace memopt::tool::bench {
namespace {

using json = nlohmann::ordered_json;

constexpr int json_version = 1;

std::string number(double value) {
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.2f}", value);
}

std::string short_bytes(std::size_t bytes) {
  std::string text = format_bytes(bytes);
  std::erase(text, ' ');
  if (text.ends_with("iB")) {
    text.resize(text.size() - 2);
  }
  return text;
}

json row_to_json(const row& r) {
  json out;
  out["scheme"] = r.scheme;
  out["path"] = r.path;
  out["bytes"] = r.bytes;
  if (r.why) {
    out["reason"] = to_string(*r.why);
    out["detail"] = r.detail;
    return out;
  }
  out["obtained"] = {{"page_size", r.obtained.page_size},
                     {"segments", r.obtained.segments},
                     {"mapping", r.obtained.mapping},
                     {"backend", r.obtained.backend}};
  out["alloc_ms"] = r.alloc_ms;
  out["first_touch_ms"] = r.first_touch_ms;
  out["reg_first_us"] = r.reg_first_us;
  out["reg_again_us"] = r.reg_again_us;
  out["dereg_us"] = r.dereg_us;
  out["entries"] = {{"4K", r.entries.at_4k}, {"2M", r.entries.at_2m}, {"1G", r.entries.at_1g}};
  if (r.posted) {
    out["posted"] = {{"entries", r.posted->entries}, {"page_size", r.posted->page_size}};
  }
  out["write_64B_us"] = r.write_64b_us;
  out["read_64B_us"] = r.read_64b_us;
  out["write_1M_MBps"] = r.write_1m_mbps;
  out["read_1M_MBps"] = r.read_1m_mbps;
  out["bytes_moved"] = r.bytes_moved;
  out["bytes_verified"] = r.bytes_verified;
  if (!r.note.empty()) {
    out["note"] = r.note;
  }
  out["reason"] = nullptr;
  return out;
}

std::string csv_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') {
      out += '"';
    }
  }
  return out + '"';
}

std::string note_of(const row& r) {
  std::string out;
  const auto add = [&](const std::string& text) {
    out += wrap(fmt::format("{}: {}", r.scheme, text), 79, 0, 2) + '\n';
  };
  if (r.obtained.backend != r.scheme) {
    add(fmt::format("memory is {}", r.obtained.backend));
  }
  if (r.obtained.mapping > r.obtained.page_size) {
    add(fmt::format("mapped with pages of {}", format_bytes(r.obtained.mapping)));
  }
  if (r.posted) {
    add(fmt::format("the module posted {} {} of {}", r.posted->entries,
                    r.posted->entries == 1 ? "entry" : "entries",
                    format_bytes(r.posted->page_size)));
  }
  if (!r.note.empty()) {
    add(r.note);
  }
  return out;
}

}  // namespace

json to_json(const report& r, const system_facts& facts) {
  json out;
  out["version"] = json_version;
  out["kernel"] = facts.kernel;
  out["machine"] = facts.machine;
  out["device"] = r.device;
  out["packages"] = facts.packages;
  out["environment"] = {{"transparent_huge_pages", facts.transparent_huge_pages},
                        {"governor", facts.governor}};
  out["repeats"] = r.repeats;
  out["transfers_1M"] = r.transfers;
  out["rows"] = json::array();
  for (const row& line : r.rows) {
    out["rows"].push_back(row_to_json(line));
  }
  return out;
}

std::string to_csv(const report& r) {
  std::string out =
      "scheme,path,bytes,page_size,segments,mapping,backend,alloc_ms,first_touch_ms,reg_first_us,"
      "reg_again_us,dereg_us,entries_4K,entries_2M,entries_1G,write_64B_us,read_64B_us,"
      "write_1M_MBps,read_1M_MBps,bytes_moved,bytes_verified,reason\n";
  for (const row& l : r.rows) {
    if (l.why) {
      out += fmt::format("{},{},{},,,,,,,,,,,,,,,,,,,{}\n", csv_text(l.scheme), csv_text(l.path),
                         l.bytes, csv_text(to_string(*l.why)));
      continue;
    }
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\n", csv_text(l.scheme),
        csv_text(l.path), l.bytes, l.obtained.page_size, l.obtained.segments, l.obtained.mapping,
        csv_text(l.obtained.backend), l.alloc_ms, l.first_touch_ms, l.reg_first_us, l.reg_again_us,
        l.dereg_us, l.entries.at_4k, l.entries.at_2m, l.entries.at_1g, l.write_64b_us,
        l.read_64b_us, l.write_1m_mbps, l.read_1m_mbps, l.bytes_moved, l.bytes_verified);
  }
  return out;
}

std::string to_table(const report& r, const system_facts& facts) {
  text_table memory{{{"memory"},
                     {"size"},
                     {"page"},
                     {"pieces"},
                     {"alloc ms"},
                     {"touch ms"},
                     {"entries 4K"},
                     {"at 2M"},
                     {"at 1G"}}};
  text_table transfers{{{"RDMA"},
                        {"reg 1st"},
                        {"again"},
                        {"dereg"},
                        {"W 64B"},
                        {"R 64B"},
                        {"W 1M"},
                        {"R 1M"},
                        {"data"}}};
  std::string notes;
  for (const row& l : r.rows) {
    if (l.why) {
      memory.add_remark(l.scheme, std::string{to_string(*l.why)});
      transfers.add_remark(l.scheme, l.detail);
      continue;
    }
    memory.add({l.scheme, short_bytes(l.bytes), short_bytes(l.obtained.page_size),
                fmt::to_string(l.obtained.segments), number(l.alloc_ms), number(l.first_touch_ms),
                fmt::to_string(l.entries.at_4k), fmt::to_string(l.entries.at_2m),
                fmt::to_string(l.entries.at_1g)});
    transfers.add({l.scheme, number(l.reg_first_us), number(l.reg_again_us), number(l.dereg_us),
                   number(l.write_64b_us), number(l.read_64b_us), number(l.write_1m_mbps),
                   number(l.read_1m_mbps), l.bytes_verified == l.bytes_moved ? "right" : "WRONG"});
    notes += note_of(l);
  }
  return fmt::format(
      "memopt bench on {}, kernel {}\n"
      "medians of {} registrations, {} requests of 1 MiB each way, one at a time\n\n{}\n{}\n"
      "reg, again, dereg, W and R of 64 B in us; W and R of 1 MiB in 10^6 B/s\n"
      "entries: what a device whose largest page is 4K, 2M or 1G must hold for the\n"
      "  memory; an upper bound where contiguity is not known\n"
      "{}"
      "On soft RoCE and under emulation only ratios within one run mean anything.\n",
      r.device, facts.kernel, r.repeats, r.transfers, memory.render(), transfers.render(), notes);
}

}  // namespace memopt::tool::bench
