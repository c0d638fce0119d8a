# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the VM scripts: cache location, package mirror, messages, cleanup.
# Sourced, never run.
set -euo pipefail

VM_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT_DIR=$(cd "$VM_DIR/../.." && pwd)
VM_CACHE=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdma-memopt}
BUILD_DIR=${BUILD_DIR:-$PROJECT_DIR/build}

say() { printf '%s\n' "--- $*" >&2; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# The package mirror: $DEBIAN_MIRROR, else the first Debian archive among the
# machine's own apt sources (the security archive has another layout).
debian_mirror() {
	if [ -n "${DEBIAN_MIRROR:-}" ]; then
		printf '%s\n' "$DEBIAN_MIRROR"
		return
	fi
	local found
	found=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 2>/dev/null |
		awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }')
	[ -n "$found" ] ||
		die "no Debian archive in this machine's apt sources; set DEBIAN_MIRROR=<url>"
	printf '%s\n' "${found%/}"
}

need_root() {
	[ "$(id -u)" = 0 ] || die "this step builds a VM root and needs root; run it with sudo"
}

# Which cached root serves a kernel: the 7.3 root holds the kernel of its release too.
root_of_kernel() { # KERNEL
	case $1 in
	6.12) "$VM_DIR/root.sh" 7.3 ;;
	*) "$VM_DIR/root.sh" "$1" ;;
	esac
}

# The full release ("7.3.4+deb13-amd64") of a kernel in a root: one that can boot, or
# with "build" one that modules can be built against.
kernel_release() { # ROOT KERNEL [build]
	local dir
	for dir in "$1/lib/modules/$2".*-amd64; do
		# The link is absolute, and right only inside the root.
		if [ -e "$dir/modules.dep" ] || { [ "${3:-}" = build ] && [ -L "$dir/build" ]; }; then
			printf '%s\n' "${dir##*/}"
			return
		fi
	done
	die "no kernel $2 in $1"
}
