#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The harness decides whether the product is good, so it is tested with guests that
# must not pass: a failing command, a crash, a warning, a hang. Prints KTAP.
#
#   selftest.sh [--no-guest]
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

guests=1
[ "${1:-}" != --no-guest ] || guests=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
number=0
failed=0

report() { # STATUS NAME, with details in $work/log
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		printf 'ok %d %s\n' "$number" "$2"
	else
		printf 'not ok %d %s\n' "$number" "$2"
		sed 's/^/# /' "$work/log"
		failed=1
	fi
}

# scan NAME WANTED ALLOW LOG: scan-dmesg.sh must exit with WANTED, and print something
# exactly if that is not 0.
scan() {
	local name=$1 wanted=$2 allow=$3 status=0 printed=0
	printf '%s' "$4" >"$work/dmesg"
	"$VM_DIR/scan-dmesg.sh" "$work/dmesg" "$allow" >"$work/log" 2>&1 || status=$?
	[ ! -s "$work/log" ] || printed=1
	if [ "$status" = "$wanted" ] && [ "$printed" = $((wanted != 0)) ]; then
		report 0 "$name"
	else
		echo "exit status $status, wanted $wanted" >>"$work/log"
		report 1 "$name"
	fi
}

# One line of each kind, as a kernel words it.
bad_lines=(
	'WARNING: CPU: 0 PID: 1 at mm/gup.c:70 try_grab_folio+0x1/0x2'
	'WARNING: possible circular locking dependency detected'
	'WARNING: possible recursive locking detected'
	'WARNING: inconsistent lock state'
	'WARNING: suspicious RCU usage'
	'BUG: kernel NULL pointer dereference, address: 0000000000000008'
	'BUG: unable to handle page fault for address: ffffc90000000000'
	'BUG: KASAN: slab-use-after-free in memopt_release+0x1/0x2'
	'BUG: sleeping function called from invalid context at mm/slab.h:1'
	'BUG: scheduling while atomic: kworker/0:1/9/0x00000002'
	'BUG: Bad page state in process memopt  pfn:12345'
	'BUG: Bad page map in process memopt  pte:8000000012345067 pmd:12345067'
	'BUG: Bad rss-counter state mm:0000000012345678 type:MM_FILEPAGES val:-1'
	'BUG: non-zero pgtables_bytes on freeing mm: 4096'
	'kernel BUG at mm/huge_memory.c:123!'
	'Oops: general protection fault, probably for non-canonical address: 0000 [#1]'
	'Oops: 0000 [#1] PREEMPT SMP NOPTI'
	'refcount_t: underflow; use-after-free.'
	'list_add corruption. next->prev should be prev'
	'------------[ cut here ]------------'
	'Call Trace:'
	'INFO: task memopt:123 blocked for more than 120 seconds.'
	'watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [memopt:123]'
	'rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:'
	'UBSAN: array-index-out-of-bounds in kmod/mmap.c:1:2'
	'KFENCE: memory corruption in memopt_release+0x1/0x2'
	'unregister_netdevice: waiting for d0 to become free. Usage count = 2'
	'memopt: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)'
	'Out of memory: Killed process 123 (memopt)'
	'DMA-API: device driver failed to check map error'
	'BUG rdma_memopt (Tainted: G): Objects remaining on __kmem_cache_shutdown()'
	'Kernel panic - not syncing: Fatal exception'
)
# What a good guest writes and the scan must not take offence at.
good_lines=(
	'Linux version 7.3.4 (debian-kernel@lists.debian.org)'
	'rdma_memopt: loading out-of-tree module taints kernel.'
	'rdma_memopt: module verification failed: signature and/or required key missing'
	'd0 speed is unknown, defaulting to 1000'
	'NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.'
	'rcu: Hierarchical RCU implementation.'
	'kmemleak: Kernel memory leak detector disabled'
	'debug: BUGS are fine in a word, so is a WARNING without a colon'
)

scan_tests() {
	local line allow=$VM_DIR/dmesg.allow
	for line in "${bad_lines[@]}"; do
		scan "finds: $line" 1 "$allow" $'[    1.000000] fine\n[    2.000000] '"$line"$'\n'
	done
	scan "a good log is good" 0 "$allow" \
		"$(printf '[    1.000000] %s\n' "${good_lines[@]}")"
	scan "an empty log is no good log" 2 "$allow" ""

	allow=$work/allow
	printf '# comment\nWARNING: known .* old # the old driver says so\n' >"$allow"
	scan "a line with a reason is excused" 0 "$allow" 'WARNING: known and old'
	scan "another line is not" 1 "$allow" 'WARNING: known and new'

	echo '.* # everything is harmless' >"$allow"
	for line in "${bad_lines[@]}"; do
		case $line in
		*BUG* | Oops* | refcount_t* | list_* | UBSAN* | KFENCE* | Kernel\ panic*)
			scan "is never excused: $line" 1 "$allow" "$line"
			;;
		esac
	done
	echo 'WARNING: known' >"$allow"
	scan "a pattern without a reason is an error" 1 "$allow" 'all is well'
}

# guest NAME WANTED OPTIONS... -- COMMAND...: guest.sh must exit with WANTED.
guest() {
	local name=$1 wanted=$2 status=0
	shift 2
	"$VM_DIR/guest.sh" --name selftest --mem 2048 --smp 1 --hugepages 0 --timeout 300 \
		--append "cma=0 hugepages=0" --out "$work/out" "$@" \
		>"$work/stdout" 2>"$work/log" </dev/null || status=$?
	if [ "$status" = "$wanted" ]; then
		report 0 "$name"
	else
		echo "exit status $status, wanted $wanted" >>"$work/log"
		report 1 "$name"
	fi
}

# check NAME COMMAND...: something about the guest that ran last.
check() {
	local name=$1 status=0
	shift
	"$@" >"$work/log" 2>&1 || status=1
	report "$status" "$name"
}

leftovers() { ! compgen -G "$TMPDIR/memopt-guest.*"; }

guest_tests() {
	# Found again below, so that nothing of a guest is left behind.
	export TMPDIR=$work/tmp
	mkdir "$TMPDIR"

	# shellcheck disable=SC2016 # for the shell in the guest
	guest "a guest does what it is told" 0 -- sh -ec '
		printf "KTAP version 1\nok 1 %s\n" "$*"
		echo to-stderr >&2
		echo to-stdout >/dev/stdout
		echo result >/out/result
		! touch /src/x 2>/dev/null
		! touch /build/x 2>/dev/null
		touch /usr/x' sh 'two  words' '"$quoted"'
	printf 'KTAP version 1\nok 1 two  words "$quoted"\nto-stdout\n' >"$work/wanted"
	check "its output comes through as it is" diff "$work/wanted" "$work/stdout"
	check "its results come out" grep -x result "$work/out/result"
	check "its kernel log comes out" grep -q 'Linux version' "$work/out/dmesg"

	guest "a kernel warning is 122" 122 -- \
		sh -c 'echo "WARNING: CPU: 0 PID: 1 at nowhere" >/dev/kmsg; dmesg -C'
	guest "the command's status is passed on, with --keep-dmesg past a warning" 42 --keep-dmesg -- \
		sh -c 'echo "WARNING: CPU: 0 PID: 1 at nowhere" >/dev/kmsg; exit 42'
	guest "a crash is 121" 121 -- sh -c 'echo c >/proc/sysrq-trigger; sleep 60'
	check "its last words are kept" grep -q 'sysrq triggered crash' "$work/out/dmesg"
	guest "power off without a verdict is 121" 121 -- \
		sh -c 'echo o >/proc/sysrq-trigger; sleep 60'
	guest "the end of time is 124" 124 --timeout 30 -- sleep 600
	guest "no such kernel is 123" 123 --kernel 1.0 -- true
	guest "a machine that can not be is 123" 123 --smp 9999 -- true
	check "nothing is left behind" leftovers
}

echo "KTAP version 1"
scan_tests
[ "$guests" = 0 ] || guest_tests
printf '1..%d\n' "$number"
exit "$failed"
