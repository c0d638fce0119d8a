#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The part of `make check` that runs as root in the guest. Each suite leaves its output,
# exit status and time in /out/results for the tally on the outside; this script only
# fails if it can not go on. A suite has a time limit of its own, so that one that hangs
# does not take the others with it.
set -euo pipefail

results=/out/results
export MEMOPT_TOOL=$MEMOPT_BUILD/cmake/tools/memopt
module=$MEMOPT_BUILD/kmod/rdma_memopt.ko

# run_suite NAME EXTENSION SECONDS COMMAND...
run_suite() {
	local name=$1 extension=$2 limit=$3 status=0 began=$SECONDS
	shift 3
	printf -- '--- [guest %s s] %s\n' "$SECONDS" "$name" >&2
	timeout --kill-after=10 "$limit" "$@" >"$results/$name.$extension" 2>"$results/$name.log" || status=$?
	printf '%s\n' "$status" >"$results/$name.rc"
	printf '%s\n' "$((SECONDS - began))" >"$results/$name.seconds"
}

# run_catch2 NAME SECONDS PROGRAM: a program that dies leaves fewer cases than it listed.
run_catch2() {
	local name=$1 limit=$2 program=$3
	if [ -x "$program" ]; then
		"$program" --list-tests --verbosity quiet | grep -c . >"$results/$name.plan" || true
	fi
	run_suite "$name" xml "$limit" "$program" --reporter xml --warn NoAssertions
}

# What several suites rely on; a suite may leave it in another state. If it can not be
# had, the suites say so better than an early end of this script.
prepare() {
	if [ ! -d /sys/module/rdma_memopt ]; then
		insmod "$module" || echo "error: the module does not load" >&2
	fi
	if [ ! -d /sys/class/infiniband/rxe0 ]; then
		/src/tests/vm/setup-rxe.sh || echo "error: no soft RoCE device" >&2
	fi
}

# insmod takes no dependencies; they are the kernel's own modules.
modinfo -F depends "$module" | tr , '\n' | xargs -r modprobe -a ||
	echo "error: the modules $module depends on do not load" >&2

run_suite module tap 120 /src/tests/vm/check-module.sh load "$module"
prepare
# Without its programs run.sh would be content with the scripts.
run_suite kselftest tap 1200 bash -c '
	[ -x "$MEMOPT_BUILD/kselftest/test_ioctl" ] || {
		echo "Bail out! the kselftest programs are not built"
		exit 1
	}
	/src/tests/kselftest/run.sh'
prepare
run_catch2 integration 900 "$MEMOPT_BUILD/cmake/tests/integration/memopt-integration-tests"
prepare
run_catch2 tools 600 "$MEMOPT_BUILD/cmake/tests/tools/memopt-tools-tests"
prepare
run_suite readme tap 120 /src/tests/readme/run.sh
run_suite unload tap 120 /src/tests/vm/check-module.sh unload
printf -- '--- [guest %s s] done\n' "$SECONDS" >&2
