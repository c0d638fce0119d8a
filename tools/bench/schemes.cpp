// SPDX-License-Identifier: MIT
#include "schemes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <sys/mman.h>

#include <fmt/format.h>

#include <memopt/hybrid.hpp>
#include <memopt/kernel_mr.hpp>
#include <memopt/memory_region.hpp>
#include <memopt/odp.hpp>
#include <memopt/pool.hpp>
#include <memopt/share.hpp>
#include <memopt/source.hpp>
#include <memopt/translation.hpp>
#include <memopt/units.hpp>

#include "paths.hpp"

namespace memopt::tool::bench {
namespace {

using namespace memopt::literals;

constexpr std::size_t base_page = 4_KiB;
constexpr std::size_t request_bytes = 1_MiB;
constexpr access target_rights = access::local_write | access::remote_read | access::remote_write;

void set_registration(row& r, const registration_times& times) {
  r.reg_first_us = times.first_us;
  r.reg_again_us = times.again_us;
  r.dereg_us = times.dereg_us;
}

void set_transfers(row& r, data_path& path, std::span<const target_piece> pieces,
                   const transfer_plan& plan) {
  const transfer_figures figures = measure_transfers(path, pieces, plan);
  r.write_64b_us = figures.write_64b_us;
  r.read_64b_us = figures.read_64b_us;
  r.write_1m_mbps = figures.write_1m_mbps;
  r.read_1m_mbps = figures.read_1m_mbps;
  r.bytes_moved = figures.moved;
  r.bytes_verified = figures.verified;
}

void describe(row& r, const buffer& memory) {
  r.bytes = memory.size();
  r.obtained = {.page_size = memory.page_size(),
                .segments = memory.segments(),
                .mapping = memory.mapping_size(),
                .backend = std::string{to_string(memory.scheme())}};
}

entry_counts entries_of(const buffer& memory, std::uint64_t iova) {
  return {.at_4k = translation_entries(memory, iova, 4_KiB),
          .at_2m = translation_entries(memory, iova, 2_MiB),
          .at_1g = translation_entries(memory, iova, 1_GiB)};
}

// Pages of one size at a virtual address, contiguity unknown: no entry is larger than a page.
entry_counts entries_of_pages(std::uint64_t iova, std::uint64_t length, std::uint64_t page_size) {
  const auto at = [&](std::uint64_t cap) {
    return entries_for(iova, length, std::min(cap, page_size));
  };
  return {.at_4k = at(4_KiB), .at_2m = at(2_MiB), .at_1g = at(1_GiB)};
}

target_piece piece_of(const memory_region& mr) {
  return {.address = static_cast<std::byte*>(mr.addr()),
          .length = mr.length(),
          .remote = mr.iova(),
          .rkey = mr.rkey()};
}

void measure_on_user_pd(row& r, const device& dev, const options& given,
                        std::span<std::byte> memory) {
  set_registration(r, time_registration(
                          [&] {
                            return std::optional<memory_region>{std::in_place, dev, memory.data(),
                                                                memory.size(), target_rights};
                          },
                          given.repeats));
  const memory_region target{dev, memory.data(), memory.size(), target_rights};
  const target_piece piece = piece_of(target);
  user_pd_path path{dev};
  set_transfers(r, path, {&piece, 1}, given.transfers);
}

struct free_memory {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

// What a program has today: the C library's allocator on 4 KiB pages.
void run_baseline(row& r, const device& dev, const options& given) {
  r.bytes = given.bytes;
  const auto start = clock::now();
  const std::unique_ptr<std::byte, free_memory> owner{
      static_cast<std::byte*>(std::aligned_alloc(base_page, given.bytes))};
  if (!owner) {
    throw error{ENOMEM, reason::out_of_memory, fmt::format("allocate {} bytes", given.bytes)};
  }
  // Without this, transparent huge pages would make it another scheme on many machines.
  if (madvise(owner.get(), given.bytes, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) {
    throw error{errno, reason::unknown, "exclude huge pages"};
  }
  r.alloc_ms = micros_since(start) / 1000;
  const std::span<std::byte> memory{owner.get(), given.bytes};
  r.first_touch_ms = touch(memory);
  r.obtained = {.page_size = base_page,
                .segments = given.bytes / base_page,
                .mapping = base_page,
                .backend = "malloc"};
  r.entries =
      entries_of_pages(reinterpret_cast<std::uintptr_t>(owner.get()), given.bytes, base_page);
  measure_on_user_pd(r, dev, given, memory);
}

buffer allocate(row& r, scheme kind, std::size_t bytes, std::size_t alignment) {
  const auto start = clock::now();
  buffer memory = source{kind}.allocate(bytes, {.alignment = alignment});
  r.alloc_ms = micros_since(start) / 1000;
  describe(r, memory);
  r.first_touch_ms = touch(memory.bytes());
  return memory;
}

// A contiguous buffer aligned to its own size can be one entry.
std::size_t natural_alignment(std::size_t bytes) {
  return std::min(std::bit_floor(bytes), std::size_t{1_GiB});
}

void run_source(row& r, scheme kind, const device& dev, const options& given) {
  const std::size_t bytes =
      kind == scheme::hugetlb_1g ? (given.bytes + 1_GiB - 1) / 1_GiB * 1_GiB : given.bytes;
  const std::size_t alignment = kind == scheme::contig ? natural_alignment(bytes) : 0;
  const buffer memory = allocate(r, kind, bytes, alignment);
  r.entries = entries_of(memory, reinterpret_cast<std::uintptr_t>(memory.data()));
  measure_on_user_pd(r, dev, given, memory.bytes());
}

void run_cma_share(row& r, const device& dev, const options& given) {
  r.path = "share";
  r.note = "registration is the module's physical-address MR";
  const buffer memory = allocate(r, scheme::cma, given.bytes, natural_alignment(given.bytes));
  set_registration(
      r, time_registration(
             [&] {
               return std::optional<kernel_mr>{std::in_place, memory, dev.name(), target_rights};
             },
             given.repeats));
  {
    const kernel_mr registered{memory, dev.name(), target_rights};
    const kernel_mr_info info = registered.info();
    r.posted = {.entries = info.entries, .page_size = info.page_size};
    r.entries = entries_of(memory, registered.iova());
  }
  const std::optional<std::string> address =
      given.address.empty() ? ipv4_address(dev) : std::optional{given.address};
  if (!address) {
    throw error{EADDRNOTAVAIL, reason::address_unavailable, fmt::format("share on {}", dev.name()),
                "no IPv4 address; give --address"};
  }
  const share served{memory, {.address = *address, .rights = target_rights}};
  const target_piece piece{.address = static_cast<std::byte*>(memory.data()),
                           .length = memory.size()};
  share_path path{*address, served};
  set_transfers(r, path, {&piece, 1}, given.transfers);
}

void run_on_demand(row& r, const device& dev, const options& given) {
  r.bytes = given.bytes;
  if (const result<void> works = probe_odp(dev); !works) {
    throw works.error();
  }
  const buffer memory = allocate(r, scheme::plain, given.bytes, 0);
  set_registration(r, time_registration(
                          [&] {
                            return std::optional<memory_region>{register_on_demand(
                                dev, memory.data(), memory.size(), target_rights)};
                          },
                          given.repeats));
  const memory_region target = register_on_demand(dev, memory.data(), memory.size(), target_rights);
  r.entries = entries_of(memory, target.iova());
  const target_piece piece = piece_of(target);
  user_pd_path path{dev};
  set_transfers(r, path, {&piece, 1}, given.transfers);
}

void run_pool(row& r, const device& dev, const options& given) {
  r.note = "allocation includes registering; registration is get(), deregistration is put()";
  const source slabs{scheme::contig, scheme::hugetlb_2m, scheme::thp, scheme::plain};
  const pool_options settings{.hot = slabs, .bytes = given.bytes, .rights = target_rights};
  const auto start = clock::now();
  pool blocks{dev, settings};
  r.alloc_ms = micros_since(start) / 1000;
  r.bytes = blocks.statistics().registered;

  // The pool hides its slabs; a buffer of a slab's size from the same source shows what they are.
  const std::size_t slab_count = r.bytes / settings.slab;
  {
    const buffer slab = slabs.allocate(settings.slab);
    describe(r, slab);
    r.bytes = slab_count * settings.slab;
    r.obtained.segments *= slab_count;
    r.entries = entries_of(slab, reinterpret_cast<std::uintptr_t>(slab.data()));
    r.entries.at_4k *= slab_count;
    r.entries.at_2m *= slab_count;
    r.entries.at_1g *= slab_count;
  }

  std::vector<double> gets;
  std::vector<double> puts;
  for (unsigned i = 0; i <= std::max(given.repeats, 1U); ++i) {
    const auto getting = clock::now();
    const block b = blocks.get(request_bytes);
    gets.push_back(micros_since(getting));
    const auto putting = clock::now();
    blocks.put(b);
    puts.push_back(micros_since(putting));
  }
  r.reg_first_us = gets.front();
  r.reg_again_us = median({gets.begin() + 1, gets.end()});
  r.dereg_us = median(puts);

  std::vector<block> taken;
  std::vector<target_piece> pieces;
  for (std::size_t i = 0; i < r.bytes / request_bytes; ++i) {
    const block b = blocks.get(request_bytes);
    taken.push_back(b);
    pieces.push_back({.address = static_cast<std::byte*>(b.address),
                      .length = b.length,
                      .remote = reinterpret_cast<std::uintptr_t>(b.address),
                      .rkey = b.rkey});
  }
  for (const target_piece& piece : pieces) {
    r.first_touch_ms += touch({piece.address, piece.length});
  }
  {
    user_pd_path path{dev};
    set_transfers(r, path, pieces, given.transfers);
  }
  for (const block& b : taken) {
    blocks.put(b);
  }
}

void run_hybrid(row& r, const device& dev, const options& given) {
  r.note = "allocation includes registering; registration is all pieces once more";
  // A header in front of aligned data and a tail behind: what the scheme is for.
  const std::size_t header = 64_KiB;
  const std::size_t length = given.bytes + header;
  const auto start = clock::now();
  const hybrid_region region{dev, length, header, {.rights = target_rights}};
  r.alloc_ms = micros_since(start) / 1000;
  r.bytes = region.size();
  r.first_touch_ms = touch({static_cast<std::byte*>(region.data()), region.size()});

  std::vector<target_piece> pieces;
  const auto body = std::ranges::max_element(region.pieces(), {}, &hybrid_piece::length);
  r.obtained = {.page_size = body->page_size,
                .mapping = body->page_size,
                .backend = body->page_size > base_page ? "2 MiB body" : "base pages"};
  for (const hybrid_piece& piece : region.pieces()) {
    const auto address = reinterpret_cast<std::uintptr_t>(piece.address);
    const entry_counts one = entries_of_pages(address, piece.length, piece.page_size);
    r.entries.at_4k += one.at_4k;
    r.entries.at_2m += one.at_2m;
    r.entries.at_1g += one.at_1g;
    r.obtained.segments += piece.length / piece.page_size;
    pieces.push_back({.address = static_cast<std::byte*>(piece.address),
                      .length = piece.length,
                      .remote = address,
                      .rkey = piece.rkey});
  }
  set_registration(r, time_registration(
                          [&] {
                            std::optional<std::vector<memory_region>> all{std::in_place};
                            for (const target_piece& piece : pieces) {
                              all->emplace_back(dev, piece.address, piece.length, target_rights);
                            }
                            return all;
                          },
                          given.repeats));
  user_pd_path path{dev};
  set_transfers(r, path, pieces, given.transfers);
}

using runner = void (*)(row&, const device&, const options&);

template <scheme kind>
void run_kind(row& r, const device& dev, const options& given) {
  run_source(r, kind, dev, given);
}

constexpr std::array<std::pair<std::string_view, runner>, 9> runners{{
    {"baseline", run_baseline},
    {"thp", run_kind<scheme::thp>},
    {"hugetlb_2m", run_kind<scheme::hugetlb_2m>},
    {"hugetlb_1g", run_kind<scheme::hugetlb_1g>},
    {"contig", run_kind<scheme::contig>},
    {"cma", run_cma_share},
    {"odp", run_on_demand},
    {"pool", run_pool},
    {"hybrid", run_hybrid},
}};

}  // namespace

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const auto& entry : runners) {
    names.emplace_back(entry.first);
  }
  return names;
}

row run_scheme(std::string_view name, const device& dev, const options& given) {
  const auto entry = std::ranges::find(runners, name, &decltype(runners)::value_type::first);
  if (entry == runners.end()) {
    throw std::invalid_argument{fmt::format("no scheme is called {}", name)};
  }
  row measured;
  measured.scheme = name;
  measured.bytes = given.bytes;
  try {
    entry->second(measured, dev, given);
  } catch (const error& failure) {
    row refused;
    refused.scheme = name;
    refused.path = measured.path;
    refused.bytes = measured.bytes;
    refused.why = failure.reason();
    refused.detail = failure.what();
    return refused;
  }
  return measured;
}

}  // namespace memopt::tool::bench
