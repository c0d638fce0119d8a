#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Check a result.json of `memopt bench` against docs/design.md section 5.
#
#   validate-result.sh FILE [SCHEME=REASON...]
#
# Every row must be there and have figures, all of its data verified; a row may give
# a reason instead only if SCHEME=REASON allows exactly that one. Each problem is a
# line on stdout; exit status 1 if there is one.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

file=${1:?usage: validate-result.sh FILE [SCHEME=REASON...]}
shift
[ -s "$file" ] || die "$file does not exist or is empty"
jq -e 'type == "object"' "$file" >/dev/null 2>&1 || die "$file is not a JSON object"

# The reasons are an enum of the library; read there, so that there is one list.
reasons=$(sed -n '/^enum class reason/,/^};/s/^ *\([a-z_0-9]*\),.*/\1/p' \
	"$PROJECT_DIR/lib/include/memopt/error.hpp" | jq -R . | jq -s .)
allowed=$(printf '%s\n' "$@" | jq -R 'select(. != "") | split("=") | {(.[0]): .[1]}' | jq -s 'add // {}')

problems=$(jq -r --argjson reasons "$reasons" --argjson allowed "$allowed" '
	def positive: type == "number" and . > 0;
	def wanted: ["baseline", "thp", "hugetlb_2m", "hugetlb_1g", "contig/user_pd",
		"cma/share", "odp", "pool", "hybrid"];
	def key: if (.scheme == "contig" or .scheme == "cma") then "\(.scheme)/\(.path)" else .scheme end;

	# What a row with figures must have, as [what, is it right].
	def figures: [
		(["alloc_ms", "first_touch_ms", "reg_first_us", "reg_again_us", "dereg_us",
		  "write_64B_us", "read_64B_us", "write_1M_MBps", "read_1M_MBps",
		  "bytes", "bytes_moved", "bytes_verified"][] as $name |
			["\($name) is \(.[$name] // "missing"), wanted more than 0", (.[$name] | positive)]),
		(["page_size", "segments", "mapping"][] as $name |
			["obtained.\($name) is \(.obtained[$name] // "missing"), wanted more than 0",
			 (.obtained[$name] | positive)]),
		["obtained.backend is missing", ((.obtained.backend // "") != "")],
		(["4K", "2M", "1G"][] as $cap |
			["entries.\($cap) is \(.entries[$cap] // "missing"), wanted more than 0",
			 (.entries[$cap] | positive)]),
		["\(.bytes_verified) bytes verified of \(.bytes_moved) moved",
		 (.bytes_verified == .bytes_moved)],
		["entries grow with the page size a device can use",
		 (.entries["4K"] >= .entries["2M"] and .entries["2M"] >= .entries["1G"])]
	];

	# What makes the scheme the scheme: figures of something else would be a lie.
	def essence:
		def is($name; $value; $is): ["\($name) is \($is), wanted \($value)", $is == $value];
		((.bytes // 0) / 4096) as $base |
		if key == "baseline" then [is("obtained.page_size"; 4096; .obtained.page_size),
			is("entries.4K"; $base; .entries["4K"]), is("entries.1G"; $base; .entries["1G"])]
		elif key == "thp" or key == "hugetlb_2m" then
			[is("obtained.page_size"; 2097152; .obtained.page_size)]
		elif key == "hugetlb_1g" then
			[is("obtained.page_size"; 1073741824; .obtained.page_size),
			 is("bytes"; 1073741824; .bytes)]
		elif key == "contig/user_pd" or key == "cma/share" then
			[is("obtained.segments"; 1; .obtained.segments),
			 is("entries.4K"; $base; .entries["4K"]),
			 is("entries.2M"; (.bytes // 0) / 2097152; .entries["2M"]),
			 is("entries.1G"; 1; .entries["1G"])]
		else [] end;

	(if .version == 1 then empty else "version is \(.version), wanted 1" end),
	(["kernel", "device"][] as $name | if (.[$name] // "") == "" then "\($name) is missing" else empty end),
	(if (.packages | type) == "object" and (.packages | length) > 0 then empty
	 else "packages is empty" end),
	([.rows[]? | key] as $have |
		(wanted - $have | .[] | "row \(.) is missing"),
		($have | group_by(.)[] | select(length > 1) | "row \(.[0]) is there \(length) times")),
	(.rows[]? | key as $key |
		if .reason == null then
			(figures + essence)[] | select(.[1] | not) | "row \($key): \(.[0])"
		elif ([.reason] - $reasons) != [] then
			"row \($key): \"\(.reason)\" is not a reason of the library"
		elif $allowed[.scheme] != .reason then
			"row \($key): did not run: \(.reason)" +
				(if (.detail // "") == "" then "" else " (\(.detail))" end)
		else empty end)' "$file")

[ -n "$problems" ] || exit 0
printf '%s\n' "$problems"
exit 1
