// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "../system.hpp"
#include "row.hpp"

namespace memopt::tool::bench {

/// The versioned document of docs/design.md section 5.
[[nodiscard]] nlohmann::ordered_json to_json(const report& r, const system_facts& facts);

/// One header line, one line a row; text fields are quoted.
[[nodiscard]] std::string to_csv(const report& r);

/// Two blocks under 80 columns: memory and registration, then translation and transfers.
[[nodiscard]] std::string to_table(const report& r, const system_facts& facts);

/// A gnuplot script that draws four panels as SVG to its standard output; rows with a reason
/// appear as a remark. Pure text, so that it can be tested without gnuplot.
[[nodiscard]] std::string to_gnuplot(const report& r, const system_facts& facts);

/// Run gnuplot on to_gnuplot() and write the picture.
/// @throws std::runtime_error if gnuplot is missing or fails, or the file can not be written
void write_svg(const report& r, const system_facts& facts, const std::string& path);

}  // namespace memopt::tool::bench
