#!/bin/bash
# SPDX-License-Identifier: MIT
# In a guest: make the software RDMA device rxe0 on the dummy interface d0 with
# address 10.9.9.1/24, and wait until it is usable. Running it again is harmless.
set -euo pipefail

device=rxe0
interface=d0
address=10.9.9.1
gids=/sys/class/infiniband/$device/ports/1/gids

die() {
	printf 'setup-rxe: %s\n' "$*" >&2
	exit 1
}

# wait_for WHAT COMMAND...: up to a minute, an emulated guest can be slow.
wait_for() {
	local what=$1
	shift
	for _ in {1..600}; do
		if "$@" 2>/dev/null; then return 0; fi
		sleep 0.1
	done
	die "waited in vain for $what"
}

# rxe needs crc32 as a crypto algorithm on 6.1 and does not load it itself. Later
# kernels have no such module and need none.
modprobe -q crc32_generic || true
modprobe -a rdma_rxe ib_uverbs rdma_cm rdma_ucm || die "the RDMA modules do not load"

if [ ! -e "/sys/class/net/$interface" ]; then
	ip link add "$interface" type dummy || die "no dummy interface"
fi
ip link set "$interface" mtu 9000 up
if ! ip -4 -o addr show dev "$interface" | grep -q " $address/"; then
	ip addr add "$address/24" dev "$interface"
fi
if [ ! -e "/sys/class/infiniband/$device" ]; then
	rdma link add "$device" type rxe netdev "$interface" || die "no rxe device"
fi

active() { grep -q ACTIVE "/sys/class/infiniband/$device/ports/1/state"; }
# Index 0 is the link-local IPv6 address, index 1 the IPv4 address.
gid() { grep -q 'ffff:0a09:0901$' "$gids/1"; }
node() { compgen -G '/dev/infiniband/uverbs*' >/dev/null && [ -c /dev/infiniband/rdma_cm ]; }
wait_for "$device to become active" active
wait_for "the IPv4 address at GID index 1" gid
wait_for "the nodes in /dev/infiniband" node
