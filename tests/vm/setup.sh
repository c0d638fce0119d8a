#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a step needs before it can start: packages on this machine and guest roots.
# Says what it will install before it does, and is quick when nothing is missing.
#
#   setup.sh demo|check|style|shell [KERNEL]
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

usage="usage: setup.sh demo|check|style|shell [KERNEL]"
purpose=${1:?$usage}

# This machine only boots guests and reads their verdicts; compilers live in the roots.
packages=(mmdebstrap qemu-system-x86 rsync cpio kmod xz-utils zstd busybox-static jq)
case $purpose in
demo) kernels=(7.3) ;;
check) kernels=(7.3 6.1) ;;
shell) kernels=("${2:?$usage}") ;;
style)
	kernels=(7.3)
	packages+=(clang-format shellcheck codespell)
	;;
*) die "$usage" ;;
esac

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done

update_lists() {
	[ -z "${lists_updated:-}" ] || return 0
	need_root
	say "updating the package lists of this machine"
	apt-get update -q >&2 || die "apt-get update failed; is the package archive reachable?"
	lists_updated=1
}

if [ ${#missing[@]} -gt 0 ]; then
	say "packages to be installed on this machine: ${missing[*]}"
	need_root
	update_lists
	DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 install -q -y --no-install-recommends \
		"${missing[@]}" >&2 || die "could not install: ${missing[*]}"
fi

for kernel in "${kernels[@]}"; do
	# root.sh takes the archive from apt's lists; a fresh machine may have none yet.
	if [ -z "${DEBIAN_MIRROR:-}" ] && ! (debian_mirror >/dev/null 2>&1); then
		update_lists
	fi
	"$VM_DIR/root.sh" "$kernel" >/dev/null || die "no guest root for kernel $kernel"
done
say "set-up for '$purpose' is complete"
