#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=dash
# First process of a guest: load what 9p needs, put a writable layer over the
# read-only root, and hand over to guest-init.sh of the project.
export PATH=/bin
/bin/busybox --install -s /bin

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

# Port 3 of the virtio serial device carries the verdict; see guest.sh.
fail() {
	echo "initrd: $*" >/dev/kmsg
	echo "setup $*" >/dev/vport0p3
	echo o >/proc/sysrq-trigger
	sleep 60
}

for module in /modules/*.ko; do
	# Built in, or there is nothing to say: a mount below would fail anyway.
	insmod "$module" || echo "initrd: $module did not load" >/dev/kmsg
done

share() { # TAG DIRECTORY OPTIONS
	mkdir -p "$2"
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" ||
		fail "cannot mount $1"
}

mkdir -p /lower /layer /root
share root /lower ro,cache=loose
mount -t tmpfs -o size=1280m,mode=755 tmpfs /layer || fail "no tmpfs"
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work overlay /root ||
	fail "no overlay"
share src /root/src ro,cache=loose

for dir in proc sys dev; do
	mount --move "/$dir" "/root/$dir"
done
exec switch_root /root /bin/bash /src/tests/vm/guest-init.sh
