#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compile the uapi header in every way a program may, and print one TAP line each.
# Needs a compiler for 32 bits too (gcc-multilib, g++-multilib).
set -euo pipefail

dir=$(cd "$(dirname "$0")" && pwd)
include=$dir/../../uapi
common=(-fsyntax-only -Wall -Wextra -Werror -I "$include")
number=0
failed=0

report() { # STATUS NAME
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		printf 'ok %d - %s\n' "$number" "$2"
	else
		printf 'not ok %d - %s\n' "$number" "$2"
		failed=1
	fi
}

# compile NAME COMMAND...: the test passes if the compiler is content.
compile() {
	local name=$1 status=0 output
	shift
	output=$("$@" 2>&1) || status=1
	[ -z "$output" ] || printf '%s\n' "$output" | sed 's/^/# /'
	report "$status" "$name"
}

# The header as the only text of a translation unit.
alone() { # NAME COMPILER LANGUAGE FLAGS...
	local name=$1 compiler=$2 language=$3
	shift 3
	compile "$name" "$compiler" -x "$language" "${common[@]}" "$@" \
		-include linux/rdma_memopt.h /dev/null
}

echo 1..11
for bits in 64 32; do
	compile "layout is fixed, C, $bits bits" \
		gcc -std=gnu11 "-m$bits" "${common[@]}" "$dir/layout.c"
	compile "layout is fixed, C++, $bits bits" \
		g++ -x c++ -std=c++20 "-m$bits" "${common[@]}" "$dir/layout.c"
	alone "header compiles alone, C, $bits bits" gcc c -std=gnu11 "-m$bits"
	alone "header compiles alone, C++, $bits bits" g++ c++ -std=c++20 "-m$bits"
	alone "no struct has a hole, $bits bits" gcc c -std=gnu11 "-m$bits" -Wpadded
done

status=0
gcc -std=gnu11 "${common[@]}" -DMEMOPT_LAYOUT_MUST_FAIL "$dir/layout.c" 2>/dev/null || status=1
report $((1 - status)) "a wrong size is found"
exit "$failed"
