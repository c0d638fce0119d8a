#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build (once) the root file system of a test guest and print its path.
#
#   root.sh KERNEL        KERNEL is 7.3 or 6.1
#
# The root lives in the cache under a key made from everything that shapes it,
# so a changed package list builds a new one and an unchanged one costs nothing.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

kernel=${1:?usage: root.sh 7.3|6.1}

base=(
	build-essential kmod xz-utils zstd iproute2 procps strace busybox-static gdb jq
	rdma-core libibverbs-dev librdmacm-dev ibverbs-utils rdmacm-utils perftest
	cmake ninja-build pkg-config libfmt-dev libcli11-dev nlohmann-json3-dev
	libexpected-dev
	libnl-3-dev libnl-route-3-dev libnuma-dev liburing-dev
	dkms linux-image-amd64 linux-headers-amd64 sparse
)
case $kernel in
7.3)
	suite=trixie
	pockets=(trixie trixie-backports)
	pin=trixie-backports
	extra=(catch2 gnuplot-nox gcc-multilib g++-multilib)
	# Headers of the release kernel too: the module is built against both.
	also_release_headers=1
	;;
6.1)
	suite=bookworm
	pockets=(bookworm)
	pin=
	extra=(gcc-multilib)
	also_release_headers=0
	;;
*) die "unknown kernel '$kernel': use 7.3 or 6.1" ;;
esac

packages=("${base[@]}" "${extra[@]}")
if [ -n "$pin" ]; then
	packages=("${packages[@]/#linux-image-amd64/linux-image-amd64\/$pin}")
	packages=("${packages[@]/#linux-headers-amd64/linux-headers-amd64\/$pin}")
fi

key=$( (printf '%s\n' "$suite" "${pockets[@]}" "${packages[@]}" "$also_release_headers" v1) |
	sha256sum | cut -c1-12)
root=$VM_CACHE/root-$kernel-$key
if [ -e "$root/.complete" ]; then
	printf '%s\n' "$root"
	exit 0
fi

need_root
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; 'make setup' installs it"
mirror=$(debian_mirror)
mkdir -p "$VM_CACHE"

# One builder at a time; whoever waits finds the finished root.
exec 9>"$VM_CACHE/root-$kernel.lock"
flock 9
if [ -e "$root/.complete" ]; then
	printf '%s\n' "$root"
	exit 0
fi

partial=$VM_CACHE/partial-$kernel.$$
cleanup() {
	rm -rf --one-file-system "$partial"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say "building the $kernel guest root in $VM_CACHE (about 3 minutes, once)"
sources=()
for pocket in "${pockets[@]}"; do
	sources+=("deb $mirror $pocket main")
done

hooks=()
if [ "$also_release_headers" = 1 ]; then
	# shellcheck disable=SC2016 # $1 belongs to mmdebstrap's hook shell
	hooks+=(--customize-hook='chroot "$1" sh -c "
		pkg=\$(apt-cache show linux-headers-amd64 | sed -n \"s/^Depends:.* \\(linux-headers-6[^ ]*\\).*/\\1/p\" | head -n 1)
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \$pkg"')
fi

start=$SECONDS
mmdebstrap --quiet --variant=minbase --include="$(
	IFS=,
	echo "${packages[*]}"
)" --aptopt='APT::Install-Recommends "false"' \
	"${hooks[@]}" \
	--customize-hook='rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/var/cache/apt/archives/*.deb' \
	--customize-hook='chroot "$1" useradd -m tester' \
	"$suite" "$partial" "${sources[@]}" >&2

# Older roots of the same kernel are of no use to this tree any more, but
# another checkout may be using them: keep those younger than a week.
find "$VM_CACHE" -maxdepth 1 -name "root-$kernel-*" -mtime +7 -exec rm -rf --one-file-system {} +
touch "$partial/.complete"
mv "$partial" "$root"
say "guest root for $kernel ready after $((SECONDS - start)) s"
printf '%s\n' "$root"
