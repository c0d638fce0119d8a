#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Boot a guest, run one command in it as root, and return with its exit status.
#
#   guest.sh [OPTIONS] -- COMMAND [ARGUMENT...]
#   guest.sh [OPTIONS] --shell
#
#   --kernel 7.3|6.12|6.1  kernel and root to use (7.3)
#   --append "WORDS"       kernel parameters; they replace a default of the same name
#   --mem MIB              memory (4096)
#   --smp N                processors (2)
#   --hugepages N          2 MiB pages reserved after boot (128)
#   --timeout SECONDS      hard limit for the whole run (600)
#   --build DIR            build directory, at /build, read-only ($BUILD_DIR)
#   --out DIR              results, at /out, writable (thrown away)
#   --name NAME            host name of the guest (guest)
#   --accel tcg|kvm        do not ask accel.sh
#   --keep-dmesg           a bad line in the kernel log does not fail the run
#
# The project is at /src, read-only. The root is a fresh writable layer over the
# cached one. Output and errors of the command appear as they are written. OUT gets
# dmesg (kernel log) and console.log.
#
# Exit status: that of the command; else
#   121  the guest crashed or ended without a verdict
#   122  the kernel log has a line that scan-dmesg.sh objects to
#   123  the guest could not be set up
#   124  the time is over
#
# The verdict comes through a port of its own, never from the console text.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

crashed=121
bad_log=122
no_setup=123
too_late=124

setup_failed() {
	printf 'guest: %s\n' "$*" >&2
	exit $no_setup
}

kernel=7.3
append=
mem=4096
smp=2
hugepages=128
timeout=600
build=
out=
name=guest
accel=
keep_dmesg=0
shell=0
while [ $# -gt 0 ]; do
	case $1 in
	--shell) shell=1 ;;
	--keep-dmesg) keep_dmesg=1 ;;
	--)
		shift
		break
		;;
	--kernel | --append | --mem | --smp | --hugepages | --timeout | --build | --out | \
		--name | --accel)
		[ $# -ge 2 ] || setup_failed "$1 needs a value"
		variable=${1#--}
		printf -v "$variable" '%s' "$2"
		shift
		;;
	*) setup_failed "unknown option '$1'; the command goes after --" ;;
	esac
	shift
done
[ $# -gt 0 ] || [ "$shell" = 1 ] || setup_failed "no command given"
for number in "$mem" "$smp" "$hugepages" "$timeout"; do
	[[ $number =~ ^[0-9]+$ ]] || setup_failed "'$number' is not a number"
done
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9.-]*$ ]] || setup_failed "'$name' is not a host name"
command -v qemu-system-x86_64 >/dev/null ||
	setup_failed "qemu-system-x86_64 is missing; 'make setup' installs it"

work=$(mktemp -d "${TMPDIR:-/tmp}/memopt-guest.XXXXXX")
qemu=
tails=()
cleanup() {
	trap - EXIT INT TERM HUP
	if [ -n "$qemu" ]; then
		kill "$qemu" 2>/dev/null || true
		wait "$qemu" 2>/dev/null || true
	fi
	[ ${#tails[@]} = 0 ] || kill "${tails[@]}" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$work/control"
[ -n "$build" ] || build=$BUILD_DIR
if [ ! -d "$build" ]; then
	build=$work/build
	mkdir "$build"
fi
[ -n "$out" ] || out=$work/out
mkdir -p "$out" || setup_failed "cannot make $out"
rm -f "$out/dmesg" "$out/console.log"

root=$(root_of_kernel "$kernel") || setup_failed "no guest root for kernel $kernel"
release=$(kernel_release "$root" "$kernel") || exit $no_setup
initrd=$("$VM_DIR/initrd.sh" "$root" "$release") || setup_failed "no initrd for $release"
if [ -z "$accel" ]; then
	accel=$("$VM_DIR/accel.sh") || exit $no_setup
fi

# A word of --append replaces the default of the same name. The huge page words
# belong together: the size says what the number counts.
default_append() {
	local word words=(cma=512M)
	case " $append" in
	*' hugepages'*) ;;
	*) words+=(hugepagesz=1G hugepages=1) ;;
	esac
	# Emulation on a busy machine stops for seconds; that is no fault of the guest.
	words+=(watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 tsc=reliable)
	# The log must hold the whole run for the scan.
	words+=(log_buf_len=8M)
	for word in "${words[@]}"; do
		case " $append" in
		*" ${word%%=*}="*) ;;
		*) printf '%s ' "$word" ;;
		esac
	done
}
cmdline="console=ttyS0 quiet panic=-1 oops=panic $(default_append)$append"

terminal=$(stty size 2>/dev/null) || terminal=
printf 'kernel=%q\nhugepages=%q\nname=%q\nshell=%q\nterminal=%q\n' \
	"$kernel" "$hugepages" "$name" "$shell" "$terminal" >"$work/control/settings"
[ $# = 0 ] || printf '%s\0' "$@" >"$work/control/command"
: >>"$work/control/command"
: >"$work/stdout"
: >"$work/stderr"
: >"$work/verdict"

case $accel in
tcg) machine=(-accel "tcg,thread=multi" -cpu "max,la57=off") ;;
kvm) machine=(-accel kvm -cpu host) ;;
*) setup_failed "unknown accelerator '$accel'" ;;
esac

# In an option of QEMU a comma is written twice.
share() { # TAG DIRECTORY [OPTIONS]
	local path
	path=$(realpath "$2")
	arguments+=(-virtfs
		"local,path=${path//,/,,},mount_tag=$1,security_model=none,multidevs=remap${3:-}")
}
port() { # NUMBER FILE
	arguments+=(-chardev "file,id=port$1,path=${2//,/,,}"
		-device "virtserialport,chardev=port$1,nr=$1")
}

arguments=(-name "$name" "${machine[@]}" -smp "$smp" -m "$mem"
	-display none -no-reboot -nodefaults -nic none
	-kernel "$root/boot/vmlinuz-$release" -initrd "$initrd" -append "$cmdline")
# Without ioeventfd a write to a port is in the file when the guest goes on: the
# last lines before the power goes off can not get lost.
arguments+=(-device "virtio-serial-pci,ioeventfd=off")
port 1 "$work/stdout"
port 2 "$work/stderr"
port 3 "$work/verdict"
share root "$root" ,readonly=on
share src "$PROJECT_DIR" ,readonly=on
share build "$build" ,readonly=on
share control "$work/control" ,readonly=on
share out "$out"

if [ "$shell" = 1 ]; then
	state=$(stty -g 2>/dev/null) || state=
	status=0
	qemu-system-x86_64 "${arguments[@]}" -serial mon:stdio || status=$no_setup
	[ -z "$state" ] || stty "$state"
	exit "$status"
fi

console=$(realpath "$out")/console.log
status=0
timeout --kill-after=5 "$timeout" qemu-system-x86_64 "${arguments[@]}" \
	-serial "file:$console" </dev/null >"$work/qemu.log" 2>&1 &
qemu=$!
tail -q -n +1 -s 0.2 -f --pid="$qemu" "$work/stdout" 2>/dev/null &
tails+=($!)
tail -q -n +1 -s 0.2 -f --pid="$qemu" "$work/stderr" >&2 2>/dev/null &
tails+=($!)
wait "$qemu" || status=$?
qemu=
wait "${tails[@]}" || true
tails=()

verdict=$(tail -n 1 "$work/verdict")
last_words() {
	[ ! -s "$console" ] || sed 's/\r$//; s/^/guest: console: /' "$console" | tail -n 40 >&2
}

if [[ $verdict =~ ^exit\ ([0-9]+)$ ]]; then
	status=${BASH_REMATCH[1]}
	hits=0
	"$VM_DIR/scan-dmesg.sh" "$out/dmesg" >"$work/hits" || hits=$?
	if [ "$hits" != 0 ]; then
		printf 'guest: the kernel log is bad (the command returned %s):\n' "$status" >&2
		sed 's/^/guest: dmesg: /' "$work/hits" >&2
		[ "$keep_dmesg" = 1 ] || exit $bad_log
	fi
	exit "$status"
fi

# No verdict: what the kernel said last is on the console only.
sed 's/\r$//' "$console" >"$out/dmesg" 2>/dev/null || true
if [[ $verdict = setup\ * ]]; then
	last_words
	setup_failed "set-up in the guest failed: ${verdict#setup }"
elif [ "$status" = 124 ] || [ "$status" = 137 ]; then
	last_words
	printf 'guest: stopped after %s s\n' "$timeout" >&2
	exit $too_late
elif [ "$status" != 0 ]; then
	cat "$work/qemu.log" >&2
	setup_failed "QEMU ended with status $status"
fi
last_words
printf 'guest: the guest ended without a verdict\n' >&2
exit $crashed
