#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Loading and unloading: under users that are killed, with and without a CMA
# region, and that nothing is lost over it.  Leaves the module loaded with the
# parameters run.sh uses.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
module=${MEMOPT_BUILD:-}/kmod/rdma_memopt.ko
workers=4
cycles=100
number=0
failed=0
began=$(date +%s.%N)
pids=()

cleanup() {
	local pid

	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
}
trap cleanup EXIT

load() {
	if [ -e "$module" ]; then
		insmod "$module" "$@"
	else
		modprobe rdma_memopt "$@"
	fi
}

unload() {
	rmmod rdma_memopt
}

has_cma() {
	grep -q '^CmaTotal: *[1-9]' /proc/meminfo
}

check() { # NAME COMMAND...
	local name=$1

	shift
	number=$((number + 1))
	if "$@"; then
		printf 'ok %s %s\n' "$number" "$name"
	else
		printf 'not ok %s %s\n' "$number" "$name"
		failed=1
	fi
}

skip() { # NAME REASON
	number=$((number + 1))
	printf 'ok %s %s # SKIP %s\n' "$number" "$1" "$2"
}

# Free bytes equal total bytes in every region.
idle() {
	"$here/load_cycle" idle
}

kinds_are() { # KIND...
	diff <(printf '%s\n' "$@" | sort) <("$here/load_cycle" kinds | sort) |
		sed 's/^/# /'
	[ "${PIPESTATUS[0]}" = 0 ]
}

# One cycle: a worker allocates, maps, fills, registers and frees until it is
# killed or done.  Killed, it leaves everything to the kernel.
storm() { # IBDEV
	local ibdev=$1 started=0 slot status bad=0 ended_well=0 killed=0

	pids=()
	while [ "$started" -lt "$cycles" ]; do
		for ((slot = 0; slot < workers; slot++)); do
			"$here/load_cycle" run $((1 + RANDOM % 8)) "$RANDOM" \
				${ibdev:+"$ibdev"} &
			pids[slot]=$!
			started=$((started + 1))
		done
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
		# Half of them, wherever they are.
		for slot in 0 $((1 + RANDOM % (workers - 1))); do
			kill -KILL "${pids[slot]}" 2>/dev/null
		done
		for ((slot = 0; slot < workers; slot++)); do
			wait "${pids[slot]}" 2>/dev/null
			status=$?
			case $status in
			0) ended_well=$((ended_well + 1)) ;;
			137) killed=$((killed + 1)) ;;
			*)
				printf '# worker ended with %s\n' "$status"
				bad=$((bad + 1))
				;;
			esac
		done
	done
	printf '# %s done, %s killed, %s failed\n' "$ended_well" "$killed" "$bad"
	# Without either the storm was none.
	[ "$bad" = 0 ] && [ "$ended_well" -gt 0 ] && [ "$killed" -gt 0 ]
}

busy_refuses_unload() {
	local status=0

	exec 7<>/dev/rdma_memopt
	if unload 2>/dev/null; then
		status=1
	fi
	exec 7>&-
	return "$status"
}

log_is_clean() {
	local bad

	bad=$(dmesg --since "@${began%.*}" 2>/dev/null |
		grep -E 'WARNING|BUG|Oops|Call Trace|possible .* deadlock|Bad (page|rss)|memory leak') ||
		return 0
	printf '%s\n' "$bad" | sed 's/^/# /'
	return 1
}

refused() { # PARAMETER...
	! load "$@" 2>/dev/null
}

# The rdma device is there if run.sh could make one; without it nothing is
# registered, which is a test of its own right.
ibdev=
[ -e /sys/class/infiniband/rxe0 ] && ibdev=rxe0
params=(contig_size=128M)
all_kinds=(contig)
if has_cma; then
	params+=(cma_size=128M)
	all_kinds+=(cma)
fi

printf 'KTAP version 1\n1..16\n'
if grep -q '^rdma_memopt ' /proc/modules; then
	unload
fi
check "loads" load "${params[@]}"
check "has the regions asked for" kinds_are "${all_kinds[@]}"
check "an open file keeps it loaded" busy_refuses_unload
check "serves $workers processes, half of them killed" storm "$ibdev"
check "all memory comes back" idle
check "unloads" unload
check "loads again" load "${params[@]}"
check "is all free again" idle
check "serves once more" "$here/load_cycle" run 4 1
check "unloads again" unload
check "loads with contig only" load contig_size=32M cma_size=0
check "has the contig region only" kinds_are contig
check "serves without a cma region" "$here/load_cycle" run 4 2
check "unloads from that" unload
if has_cma; then
	check "more memory than there is refuses the load" \
		refused contig_size=0 cma_size=1T
else
	check "a cma region without an area refuses the load" \
		refused cma_size=32M
fi
load "${params[@]}"
check "the kernel log is clean" log_is_clean

exit "$failed"
