#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The module as the administrator meets it: it loads, shows a device node, takes its
# parameters, and goes again. Runs as root in the guest, prints TAP.
#
#   check-module.sh load MODULE     before the other suites; leaves it loaded
#   check-module.sh unload          after them: nothing they did may hold it
set -euo pipefail
# shellcheck source=tests/vm/tap.sh
. "$(dirname "$0")/tap.sh"

node=/dev/rdma_memopt

loaded() { grep -q '^rdma_memopt ' /proc/modules; }
node_is_private() {
	local mode
	[ -c "$node" ] || return 1
	mode=$(stat -c %a "$node")
	echo "mode $mode"
	# Nobody but owner and group: the last digit.
	[ "${mode: -1}" = 0 ]
}
gone() { ! loaded && [ ! -e "$node" ]; }
refused() { ! "$@"; }

case ${1:-} in
load)
	module=${2:?usage: check-module.sh load MODULE}
	tap_test "loads" insmod "$module"
	tap_test "has a device node that is not for everybody" node_is_private
	tap_test "unloads when nobody uses it" rmmod rdma_memopt
	tap_test "leaves no device node" gone
	tap_test "loads with contiguous memory only" insmod "$module" contig_size=32M cma_size=0
	tap_test "unloads again" rmmod rdma_memopt
	tap_test "a size that is none is refused" refused insmod "$module" contig_size=much
	tap_test "loads with its defaults once more" insmod "$module"
	;;
unload)
	tap_test "is still loaded" loaded
	tap_test "unloads after all tests" rmmod rdma_memopt
	tap_test "leaves nothing behind" gone
	;;
*)
	echo "usage: check-module.sh load MODULE|unload" >&2
	exit 2
	;;
esac
tap_done
