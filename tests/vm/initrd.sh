#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build (once) the initial RAM disk that mounts a guest's root over 9p, print its path.
#
#   initrd.sh ROOT RELEASE
#
# It holds busybox, initrd-init.sh and the few modules the mount needs.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

usage="usage: initrd.sh ROOT RELEASE"
root=${1:?$usage}
release=${2:?$usage}
modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)

key=$({
	printf '%s\n' "$root" "$release" "${modules[@]}"
	cat "$VM_DIR/initrd.sh" "$VM_DIR/initrd-init.sh"
} | sha256sum | cut -c1-12)
image=$VM_CACHE/initrd-$release-$key.cpio.gz
if [ -e "$image" ]; then
	printf '%s\n' "$image"
	exit 0
fi

for tool in cpio modprobe xz zstd; do
	command -v "$tool" >/dev/null || die "$tool is missing; 'make setup' installs it"
done

work=$(mktemp -d "$VM_CACHE/initrd.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$work"/tree/{bin,proc,sys,dev,root,modules}
cp "$root/bin/busybox" "$work/tree/bin/busybox"
install -m 755 "$VM_DIR/initrd-init.sh" "$work/tree/init"

# In load order: modprobe lists what a module needs before the module.
modprobe -d "$root" -S "$release" --show-depends -a "${modules[@]}" >"$work/depends" ||
	die "a module of ${modules[*]} is missing in $root/lib/modules/$release"
number=100
while read -r kind file _; do
	[ "$kind" = insmod ] || continue
	name=${file##*/}
	name=${name%%.ko*}
	# Two modules may need the same third one.
	[ -z "$(find "$work/tree/modules" -name "???-$name.ko")" ] || continue
	number=$((number + 1))
	target=$work/tree/modules/$number-$name.ko
	case $file in
	*.ko) cp "$file" "$target" ;;
	*.ko.xz) xz -dc "$file" >"$target" ;;
	*.ko.zst) zstd -qdc "$file" >"$target" ;;
	*) die "unknown compression of $file" ;;
	esac
done <"$work/depends"

(cd "$work/tree" && find . -print0 | cpio --quiet --null -o -H newc) | gzip -9 >"$work/image"
mv "$work/image" "$image"
printf '%s\n' "$image"
