#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example of the README is the program in this directory, and it does what the
# README says. Needs the module and rxe0; prints TAP.
set -euo pipefail

dir=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/vm/tap.sh
. "$dir/../vm/tap.sh"
example=$MEMOPT_BUILD/cmake/tests/readme/readme-example

# The first C++ block of the README against the program without its licence line.
same_text() {
	diff <(sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$dir/../../README.md") <(tail -n +2 "$dir/example.cpp")
}

output=$(mktemp)
trap 'rm -f "$output"' EXIT
runs() { "$example" >"$output"; }
got_contig() { grep -qx 'contig, refused before: \[\]' "$output" || { cat "$output" && false; }; }
has_key() { grep -qxE '67108864 bytes, rkey 0x[0-9a-f]+' "$output" || { cat "$output" && false; }; }

tap_test "the README shows the program that is tested" same_text
tap_test "it runs" runs
tap_test "it gets the memory it prefers" got_contig
tap_test "its registration has a length and a key" has_key
tap_done
