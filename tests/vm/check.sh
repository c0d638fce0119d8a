#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make check`: every test a change must pass. Builds the module for each supported
# kernel, runs what needs no module natively in the guest root's userland, boots one
# guest for the rest, and tests the harness itself. Every result goes into
# build/check/summary.json; the last line is "N passed, N failed, N skipped".
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/vm/tap.sh
. "$VM_DIR/tap.sh"

main_kernel=7.3
out=$BUILD_DIR/check
results=$out/results
start=$SECONDS
# The order of the report. A suite that is on this list and leaves nothing fails.
suites=(build uapi harness unit guest module kselftest integration tools readme unload vm)

step() { say "[$((SECONDS - start)) s] $*"; }
trap 'say "interrupted; it can be run again"; exit 130' INT TERM

# run_suite NAME EXTENSION COMMAND...: its output is the result, stderr the log.
run_suite() {
	local name=$1 extension=$2 status began=$SECONDS
	shift 2
	step "$name"
	# Below "||" errexit would be off inside the suite.
	set +e
	(
		set -e
		"$@"
	) >"$results/$name.$extension" 2>"$results/$name.log"
	status=$?
	set -e
	# 130: the user pressed Ctrl-C, and this is not a result.
	[ "$status" != 130 ] || exit 130
	printf '%s\n' "$status" >"$results/$name.rc"
	printf '%s\n' "$((SECONDS - began))" >"$results/$name.seconds"
}

# The module, from a fresh copy each time: a warning shows only when a file is compiled.
module_builds_clean() { # KERNEL
	local copy=$out/kmod-$1 log=$results/kmod-$1.log release
	rm -rf "$copy"
	mkdir -p "$copy"
	cp -r "$PROJECT_DIR/kmod" "$PROJECT_DIR/uapi" "$copy"
	release=$(kernel_release "$(root_of_kernel "$1")" "$1" build) || return 1
	"$VM_DIR/in-root.sh" "$1" --bind "$copy:/src" -- sh -ec '
		make -s -C /src/kmod clean
		make -C /src/kmod KDIR="/lib/modules/$1/build" W=1' sh "$release" >"$log" 2>&1 || {
		tail -n 30 "$log"
		return 1
	}
	# What modpost and the compiler call a warning, wherever in the line.
	! grep -iE '\bwarning\b' "$log"
}

build_suite() {
	local kernel
	for kernel in 7.3 6.12 6.1; do
		tap_test "module builds for $kernel without warnings" module_builds_clean "$kernel"
	done
	tap_test "everything for the $main_kernel guest builds" "$VM_DIR/build.sh" "$main_kernel"
	tap_done
}

uapi_suite() {
	"$VM_DIR/in-root.sh" "$main_kernel" -- /src/tests/uapi/run.sh
}

# Unit tests need no module and no privilege, and run as a user who has none.
unit_tests() {
	"$VM_DIR/in-root.sh" "$main_kernel" --user tester -- \
		"/build/$main_kernel/cmake/tests/unit/memopt-unit-tests" "$@"
}

unit_suite() {
	unit_tests --list-tests --verbosity quiet | awk 'NF { n++ } END { print n + 0 }' >"$results/unit.plan"
	unit_tests --reporter xml --warn NoAssertions
}

# The suites of the guest write their results themselves, see check-guest.sh.
guest_suite() {
	local status=0
	"$VM_DIR/guest.sh" --kernel "$main_kernel" --name check --mem 4096 --timeout 3000 \
		--append "cma=512M hugepagesz=1G hugepages=1" --hugepages 192 --out "$out" --build "$BUILD_DIR" -- \
		/src/tests/vm/check-guest.sh >&2 || status=$?
	[ "$status" != 130 ] || exit 130
	tap_test "the guest came to its end" guest_ended "$status"
	tap_test "the kernel log has no warning" guest_quiet "$status"
	tap_done
}

guest_ended() {
	case $1 in
	0 | 122) return 0 ;;
	121) echo "the guest crashed, see $out/console.log" ;;
	123) echo "the guest could not be set up, see $results/guest.log" ;;
	124) echo "the guest did not finish in time, see $out/console.log" ;;
	*) echo "exit status $1, see $results/guest.log" ;;
	esac
	return 1
}

guest_quiet() {
	case $1 in
	0) return 0 ;;
	122) "$VM_DIR/scan-dmesg.sh" "$out/dmesg" | head -n 20 ;;
	*) echo "unknown: the guest ended with status $1" ;;
	esac
	return 1
}

step "set-up"
"$VM_DIR/setup.sh" check
rm -rf "$out"
mkdir -p "$results"

run_suite build tap build_suite
run_suite uapi tap uapi_suite
run_suite harness tap "$VM_DIR/tally-test.sh"
run_suite unit xml unit_suite
run_suite guest tap guest_suite
run_suite vm tap "$VM_DIR/selftest.sh"

printf '%s\n' "$((SECONDS - start))" >"$results/seconds"
step "results in $out/summary.json, logs in $results"
"$VM_DIR/tally.sh" "$results" "$out/summary.json" "${suites[@]}"
