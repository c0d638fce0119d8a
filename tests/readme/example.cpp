// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <memopt/memopt.hpp>

namespace mo = memopt;
using namespace mo::literals;

int main() {
  auto dev = mo::device::open("rxe0");
  mo::source src{mo::scheme::contig, mo::scheme::hugetlb_2m, mo::scheme::thp};
  auto meta = src.allocate(64_MiB, {.alignment = 2_MiB, .node = dev.numa_node()});
  fmt::print("{}, refused before: [{}]\n", mo::to_string(meta.scheme()),
             mo::to_string(meta.refusals()));
  mo::memory_region mr{dev, std::move(meta), mo::access::local_write | mo::access::remote_read};
  fmt::print("{} bytes, rkey {:#x}\n", mr.length(), mr.rkey());
  mo::pool pool{dev, {.hot = src, .bytes = 64_MiB, .limit = 256_MiB}};
  auto block = pool.get(64_KiB);  // keys ready, no system call
  pool.put(block);
}
