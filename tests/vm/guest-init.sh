#!/bin/bash
# SPDX-License-Identifier: MIT
# Process 1 of a guest after the initrd: finish the system, run the command of
# guest.sh, and report. Port 1 and 2 of the virtio serial device are the command's
# output and errors, port 3 is the verdict: "setup REASON" or "exit STATUS".

verdict() { printf '%s\n' "$*" >/dev/vport0p3; }

power_off() {
	sync
	echo o >/proc/sysrq-trigger
	# Without a program: the root may be gone before the power is.
	while :; do :; done
}

fail() {
	echo "guest-init: $*" >/dev/kmsg
	verdict "setup $*"
	power_off
}

share() { # TAG DIRECTORY OPTIONS
	mkdir -p "$2"
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" ||
		fail "cannot mount $1 on $2"
}

# Every record since boot, also those a test cleared, as "[seconds] text".
kernel_log() {
	dd if=/dev/kmsg iflag=nonblock bs=16k status=none 2>/dev/null | awk '
		/^[0-9]+,[0-9]+,[0-9]+,/ {
			split($0, field, ",")
			text = $0
			sub(/^[^;]*;/, "", text)
			printf "[%5d.%06d] %s\n", field[3] / 1000000, field[3] % 1000000, text
		}'
}

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=${TERM:-linux}
umask 022

mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
[ ! -d /sys/kernel/config ] || mount -t configfs configfs /sys/kernel/config
mount -t cgroup2 cgroup2 /sys/fs/cgroup
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
for stream in stdin:0 stdout:1 stderr:2; do
	[ -e "/dev/${stream%:*}" ] || ln -s "/proc/self/fd/${stream#*:}" "/dev/${stream%:*}"
done

share control /run/guest ro,cache=none
share build /build ro,cache=loose
share out /out rw,cache=none

# Written by guest.sh; a setting it leaves out must not pass silently.
kernel='' hugepages='' name='' shell='' terminal=''
# shellcheck source=/dev/null
. /run/guest/settings || fail "no settings"
mapfile -d '' -t command </run/guest/command

hostname "$name"
grep -qw "$name" /etc/hosts 2>/dev/null || printf '127.0.0.1 localhost %s\n' "$name" >>/etc/hosts
ip link set lo up || fail "no loopback interface"
echo "$hugepages" >/proc/sys/vm/nr_hugepages
export MEMOPT_BUILD=/build/$kernel

cd / || fail "no root directory"

if [ "$shell" = 1 ]; then
	# A serial line does not know how large the window at its other end is.
	if [ -n "$terminal" ]; then
		stty -F /dev/ttyS0 rows "${terminal% *}" cols "${terminal#* }"
	fi
	setsid --ctty bash --login </dev/ttyS0 >/dev/ttyS0 2>&1
	power_off
fi

# Everything from here on goes to the console, so that a crash leaves its trace there.
echo 8 >/proc/sys/kernel/printk

# A pipe for each stream: a port can be open only once, but programs may want to
# open /dev/stdout or /dev/stderr again.
mkfifo /run/out /run/err
cat /run/out >/dev/vport0p1 &
readers=($!)
cat /run/err >/dev/vport0p2 &
readers+=($!)

status=0
"${command[@]}" </dev/null >/run/out 2>/run/err || status=$?

# The readers end with the last writer. A daemon that the command left behind may
# keep them open for ever: five seconds are enough for what is in the pipes.
for _ in {1..50}; do
	kill -0 "${readers[@]}" 2>/dev/null || break
	sleep 0.1
done

kernel_log >/out/dmesg || fail "cannot write the kernel log to /out"
sync
verdict "exit $status"
power_off
