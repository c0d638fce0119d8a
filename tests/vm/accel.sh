#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Print the accelerator for guests: "tcg", or "kvm" if ACCEL=kvm asks for it and a
# guest really comes up under it. That /dev/kvm exists proves nothing: it may be
# there and never start an ordinary guest.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

case ${ACCEL:-tcg} in
tcg)
	echo tcg
	exit 0
	;;
kvm) ;;
*) die "ACCEL is '$ACCEL': use tcg or kvm" ;;
esac

# Asked once per boot of this machine.
mkdir -p "$VM_CACHE"
known=$VM_CACHE/accel-$(cat /proc/sys/kernel/random/boot_id)
if [ ! -e "$known" ]; then
	if [ -w /dev/kvm ] && "$VM_DIR/guest.sh" --accel kvm --timeout 60 -- true >&2; then
		echo kvm >"$known"
	else
		echo tcg >"$known"
	fi
fi
result=$(cat "$known")
[ "$result" = kvm ] || say "no guest boots under KVM here; using TCG"
printf '%s\n' "$result"
