// SPDX-License-Identifier: MIT
// memopt share: serve contiguous memory to RDMA peers, and the client to try it with.
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memopt/remote_buffer.hpp>
#include <memopt/share.hpp>
#include <memopt/source.hpp>

#include "signals.hpp"
#include "text_table.hpp"
#include "verbs.hpp"

namespace memopt::tool {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr int json_version = 1;

// Largest piece moved by one work request: bounded so that the staging memory stays small.
constexpr std::size_t staging_bytes = 1U << 20U;

struct serve_options {
  std::string address;
  std::uint16_t port = 0;
  std::size_t bytes = 64ULL << 20U;
  std::string kind = "cma";
  std::string rights = "r";
  bool single_use = false;
  unsigned expires_seconds = 0;
  unsigned connections = 0;
  unsigned run_seconds = 0;
  std::string file;
  bool json = false;
};

struct connect_options {
  std::string address;
  std::uint16_t port = 0;
  std::string token;
  std::size_t offset = 0;
  std::size_t read_bytes = 0;
  std::string write_file;
  std::string output_file;
  unsigned timeout_seconds = 5;
  bool json = false;
};

access rights_from(std::string_view letters) {
  access rights = access::local_read;
  for (const char letter : letters) {
    switch (letter) {
      case 'r':
        rights = rights | access::remote_read;
        break;
      case 'w':
        rights = rights | access::remote_write | access::local_write;
        break;
      case 'a':
        rights = rights | access::remote_atomic | access::local_write;
        break;
      default:
        throw CLI::ValidationError{"--rights", fmt::format("'{}' is none of r, w, a", letter)};
    }
  }
  return rights;
}

std::string rights_to_string(access rights) {
  std::string letters;
  letters += has(rights, access::remote_read) ? "r" : "";
  letters += has(rights, access::remote_write) ? "w" : "";
  letters += has(rights, access::remote_atomic) ? "a" : "";
  return letters;
}

void fill_from(buffer& memory, const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    throw std::runtime_error{fmt::format("can not read {}: {}", path, std::strerror(errno))};
  }
  file.read(static_cast<char*>(memory.data()), static_cast<std::streamsize>(memory.size()));
  if (file.bad() || (file.eof() && file.gcount() == 0)) {
    throw std::runtime_error{fmt::format("{} has no contents", path)};
  }
  if (!file.eof() && file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error{
        fmt::format("{} does not fit into {}; raise --bytes", path, format_bytes(memory.size()))};
  }
}

json to_json(const share_info& info) {
  return {{"connections", info.connections},
          {"accepted", info.accepted},
          {"rejected", info.rejected},
          {"length", info.length},
          {"entries", info.entries},
          {"page_size", info.page_size},
          {"closed", info.closed},
          {"device_gone", info.device_gone},
          {"device", info.ibdev}};
}

void announce(const serve_options& given, const share& served, const share_info& info) {
  if (given.json) {
    json line = to_json(info);
    line["version"] = json_version;
    line["address"] = given.address;
    line["port"] = served.port();
    line["token"] = served.token().to_hex();
    line["rights"] = given.rights;
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("serving {} of {} memory on {}, {} translation entries of {}\n",
               format_bytes(info.length), given.kind, info.ibdev, info.entries,
               format_bytes(info.page_size));
    fmt::print("memopt share connect --address {} --port {} --token {}\n", given.address,
               served.port(), served.token().to_hex());
    fmt::print("Ctrl-C revokes the share and ends.\n");
  }
  std::fflush(stdout);
}

int serve(const serve_options& given) {
  const stop_signals signals;  // before the share exists, so that Ctrl-C always revokes
  const access rights = rights_from(given.rights);

  buffer memory = source{scheme_from_string(given.kind)}.allocate(given.bytes);
  if (!given.file.empty()) {
    fill_from(memory, given.file);
  }
  share served{memory,
               {.address = given.address,
                .port = given.port,
                .rights = rights,
                .single_use = given.single_use,
                .expires = std::chrono::seconds{given.expires_seconds},
                .max_connections = given.connections}};
  announce(given, served, served.info());

  const auto started = std::chrono::steady_clock::now();
  std::uint32_t connected = 0;
  for (bool running = true; running;) {
    running = !signals.wait_for(500ms);
    const share_info now = served.info();
    if (now.connections != connected && !given.json) {
      fmt::print("{} connected, {} admitted, {} turned away so far\n", now.connections,
                 now.accepted, now.rejected);
      std::fflush(stdout);
    }
    connected = now.connections;
    if (now.device_gone) {
      throw error{ENODEV, reason::device_gone, fmt::format("serve on {}", now.ibdev)};
    }
    const auto elapsed = std::chrono::steady_clock::now() - started;
    running =
        running && (given.run_seconds == 0 || elapsed < std::chrono::seconds{given.run_seconds});
  }

  const share_info last = served.info();
  served.revoke();
  if (given.json) {
    json line = to_json(last);
    line["version"] = json_version;
    line["revoked"] = true;
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("revoked: {} admitted, {} turned away\n", last.accepted, last.rejected);
  }
  return exit_success;
}

std::vector<char> contents_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    throw std::runtime_error{fmt::format("can not read {}: {}", path, std::strerror(errno))};
  }
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write_remote(remote_buffer& remote, const memory_region& staging,
                  const std::vector<char>& data, std::size_t offset) {
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t piece = std::min(staging.length(), data.size() - done);
    std::memcpy(staging.addr(), data.data() + done, piece);
    remote.write(staging, staging.addr(), piece, offset + done);
    done += piece;
  }
}

void read_remote(remote_buffer& remote, const memory_region& staging, std::size_t bytes,
                 std::size_t offset, std::ostream& out) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(staging.length(), bytes - done);
    remote.read(staging, staging.addr(), piece, offset + done);
    out.write(static_cast<const char*>(staging.addr()), static_cast<std::streamsize>(piece));
    done += piece;
  }
  if (!out.flush()) {
    throw std::runtime_error{"can not write the output"};
  }
}

std::string token_text(const connect_options& given) {
  if (given.token != "-") {
    return given.token;
  }
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error{"no token on standard input"};
  }
  return line;
}

int connect(const connect_options& given) {
  remote_buffer remote{{.address = given.address,
                        .port = given.port,
                        .token = share_token::from_hex(token_text(given)),
                        .timeout = std::chrono::seconds{given.timeout_seconds}}};
  const memory_region staging{remote.local_device(), source{scheme::plain}.allocate(staging_bytes),
                              access::local_write};

  std::size_t written = 0;
  if (!given.write_file.empty()) {
    const std::vector<char> data = contents_of(given.write_file);
    write_remote(remote, staging, data, given.offset);
    written = data.size();
  }
  if (given.read_bytes != 0) {
    if (given.output_file.empty() || given.output_file == "-") {
      read_remote(remote, staging, given.read_bytes, given.offset, std::cout);
    } else {
      std::ofstream out{given.output_file, std::ios::binary | std::ios::trunc};
      if (!out) {
        throw std::runtime_error{
            fmt::format("can not write {}: {}", given.output_file, std::strerror(errno))};
      }
      read_remote(remote, staging, given.read_bytes, given.offset, out);
    }
  }

  // Standard output may carry the data, so what happened goes to standard error.
  if (given.json) {
    const json line{{"version", json_version},
                    {"size", remote.size()},
                    {"rights", rights_to_string(remote.rights())},
                    {"device", remote.local_device().name()},
                    {"written", written},
                    {"read", given.read_bytes}};
    fmt::print(stderr, "{}\n", line.dump());
  } else {
    fmt::print(stderr, "connected on {}: {}, rights {}; wrote {} B, read {} B\n",
               remote.local_device().name(), format_bytes(remote.size()),
               rights_to_string(remote.rights()), written, given.read_bytes);
  }
  return exit_success;
}

void add_serve(CLI::App& verb, int& status) {
  auto given = std::make_shared<serve_options>();
  CLI::App* serve_verb = verb.add_subcommand("serve", "Let peers reach memory of this machine");
  serve_verb->add_option("--address", given->address, "Address of the RDMA device to listen on")
      ->required();
  serve_verb->add_option("--port", given->port, "Port; 0 lets the kernel choose")
      ->capture_default_str();
  serve_verb->add_option("--bytes", given->bytes, "How much, for example 64M")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  serve_verb->add_option("--kind", given->kind, "Memory of the module")
      ->check(CLI::IsMember({"cma", "contig"}))
      ->capture_default_str();
  serve_verb->add_option("--rights", given->rights, "r read, w write, a atomics; any of them")
      ->capture_default_str();
  serve_verb->add_flag("--single-use", given->single_use, "Admit one peer, then no more");
  serve_verb->add_option("--expires", given->expires_seconds,
                         "Seconds after which no peer is admitted; 0 means never");
  serve_verb->add_option("--connections", given->connections,
                         "Peers at a time; 0 means the module's limit");
  serve_verb->add_option("--seconds", given->run_seconds,
                         "End after that many seconds; 0 means at Ctrl-C");
  serve_verb->add_option("--file", given->file, "Fill the memory with this file first");
  serve_verb->add_flag("--json", given->json, "One JSON object a line");
  serve_verb->callback([given, &status] { status = serve(*given); });
}

void add_connect(CLI::App& verb, int& status) {
  auto given = std::make_shared<connect_options>();
  CLI::App* connect_verb = verb.add_subcommand("connect", "Read and write a share of a peer");
  connect_verb->add_option("--address", given->address, "Address of the share")->required();
  connect_verb->add_option("--port", given->port, "Port of the share")->required();
  connect_verb->add_option("--token", given->token, "Token of the share; - reads standard input")
      ->envname("MEMOPT_TOKEN")
      ->required();
  connect_verb->add_option("--offset", given->offset, "First byte to read or write")
      ->transform(CLI::AsSizeValue(false));
  connect_verb->add_option("--write", given->write_file, "Write this file, before any read");
  connect_verb->add_option("--read", given->read_bytes, "Read that many bytes, for example 1M")
      ->transform(CLI::AsSizeValue(false));
  connect_verb->add_option("--output", given->output_file,
                           "Where the bytes read go; standard output by default");
  connect_verb->add_option("--timeout", given->timeout_seconds, "Seconds for each step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  connect_verb->add_flag("--json", given->json, "Summary as JSON, on standard error");
  connect_verb->callback([given, &status] { status = connect(*given); });
}

}  // namespace

void add_share(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("share", "Share contiguous memory with RDMA peers");
  verb->require_subcommand(1);
  add_serve(*verb, status);
  add_connect(*verb, status);
}

}  // namespace memopt::tool
