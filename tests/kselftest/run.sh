#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Load the module and run its tests as root.  Prints one KTAP document with a
# subtest for every program.
#
#   run.sh [pattern]     only the programs whose name matches the shell pattern
#
# The programs are looked for in MEMOPT_BUILD/kselftest if that is set, else next
# to this script, and the module in MEMOPT_BUILD/kmod, else among the installed
# ones.  Tests named rdma_* want a soft RoCE device, which setup-rxe.sh makes.
set -uo pipefail

pattern=${1:-*}
here=$(cd "$(dirname "$0")" && pwd)
dir=${MEMOPT_BUILD:+$MEMOPT_BUILD/kselftest}
[ -n "$dir" ] && [ -d "$dir" ] || dir=$here
setup_rxe=${MEMOPT_SETUP_RXE:-$here/../vm/setup-rxe.sh}
limit=${MEMOPT_TEST_TIMEOUT:-900}

bail() {
	printf 'Bail out! %s\n' "$*"
	exit 1
}

load_module() {
	local module=${MEMOPT_BUILD:-}/kmod/rdma_memopt.ko
	local params=(contig_size=128M)

	if grep -q '^rdma_memopt ' /proc/modules; then
		rmmod rdma_memopt || return
	fi
	# Asked for by name it must be there; without an area there is none.
	if grep -q '^CmaTotal: *[1-9]' /proc/meminfo; then
		params+=(cma_size=128M)
	fi
	if [ -e "$module" ]; then
		modinfo -F depends "$module" | tr , '\n' |
			xargs -r modprobe -a || return
		insmod "$module" "${params[@]}"
	else
		modprobe rdma_memopt "${params[@]}"
	fi
}

add_test() { # PATH
	# shellcheck disable=SC2053 # a pattern on purpose
	if [ -f "$1" ] && [ -x "$1" ] && [[ ${1##*/} == $pattern ]]; then
		found+=("$1")
	fi
}

# The ones that need less come first; test_load.sh unloads the module, so last.
find_tests() {
	local path

	for path in "$dir"/test_* "$dir"/rdma_*; do
		case ${path##*/} in
		*.[cod] | rdma_client | test_load.sh) ;;
		*) add_test "$path" ;;
		esac
	done
	add_test "$dir/test_load.sh"
}

run_test() { # PATH; prints its output as a subtest
	local status

	printf '    # Subtest: %s\n' "${1##*/}"
	timeout --kill-after=10 "$limit" "$1" 2>&1 </dev/null | sed -u 's/^/    /'
	status=${PIPESTATUS[0]}
	case $status in
	124 | 137) printf '    # stopped after %s s\n' "$limit" ;;
	esac
	return "$status"
}

[ "$(id -u)" = 0 ] || bail "run.sh must run as root"

found=()
find_tests
[ ${#found[@]} -gt 0 ] || bail "no test in $dir matches '$pattern'"

printf 'KTAP version 1\n'
printf '1..%s\n' ${#found[@]}
load_module 2>&1 | sed 's/^/# /'
[ "${PIPESTATUS[0]}" = 0 ] || bail "the module does not load"

failed=0
number=0
rxe=
for path in "${found[@]}"; do
	name=${path##*/}
	number=$((number + 1))
	if [ -z "$rxe" ] && [[ $name == rdma_* || $name == test_load.sh ]]; then
		rxe=tried
		"$setup_rxe" 2>&1 | sed 's/^/# /'
	fi
	run_test "$path"
	case $? in
	0) printf 'ok %s %s\n' "$number" "$name" ;;
	4) printf 'ok %s %s # SKIP\n' "$number" "$name" ;;
	*)
		printf 'not ok %s %s\n' "$number" "$name"
		failed=$((failed + 1))
		;;
	esac
done

[ "$failed" = 0 ]
