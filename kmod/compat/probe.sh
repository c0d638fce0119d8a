#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Find out which kernel interfaces the headers in KDIR offer.
#
#   probe.sh KDIR [make arguments]
#
# Every compat/probes/NAME.c uses one interface.  If it compiles as an object of
# a module and every symbol it needs is exported, compat/probes.h gets
# "#define MEMOPT_HAVE_NAME 1".  Kernel versions are never compared: back-ports
# make them lie.
#
# A probe may only fail because of what it asks for.  Two guards see to that:
# baseline.c must pass, and a compiler error must be in the probe's own lines, not
# in a header.  Otherwise the compiler's message is shown and the build stops.
set -euo pipefail

die() {
	printf 'probe.sh: %s\n' "$*" >&2
	exit 1
}

[ $# -ge 1 ] || die "usage: probe.sh KDIR"
kdir=$1
shift
cd "$(dirname "$0")"

[ -e "$kdir/Makefile" ] ||
	die "no kernel headers in '$kdir'; install them or pass KDIR="
symvers=$kdir/Module.symvers
[ -s "$symvers" ] ||
	die "'$symvers' is missing: this kernel tree has not been built"

out=$PWD/.probes
names=()
for source in probes/*.c; do
	name=${source##*/}
	names+=("${name%.c}")
done

# The same question has the same answer: keep the file, and with it the objects.
key=$({
	readlink -f "$kdir"
	sha256sum "$symvers" probe.sh probes/*.c
	cat "$kdir/include/generated/autoconf.h" \
		"$kdir/include/generated/compile.h" 2>/dev/null || true
	printf '%s\n' "${ARCH:-}" "${CROSS_COMPILE:-}" "${LLVM:-}" "${CC:-}" "$@"
} | sha256sum | cut -c1-32)
if [ -e probes.h ] && grep -q "$key" probes.h; then
	exit 0
fi

rm -rf "$out"
mkdir -p "$out"
trap 'rm -rf "$out"' EXIT
cp probes/*.c "$out/"
for name in "${names[@]}"; do
	printf 'obj-m += %s.o\n' "$name"
done >"$out/Kbuild"

# -k: one failure must not hide the others.  Objects are asked for by name, so
# that no module is linked.  Without jobs the messages do not mix.
read -r -a make <<<"${MAKE:-make}"
MAKEFLAGS='' MFLAGS='' "${make[@]}" -k -j1 -C "$kdir" M="$out" KCFLAGS=-Werror \
	"$@" "${names[@]/%/.o}" >"$out/log" 2>&1 || true

read -r -a nm <<<"${NM:-${CROSS_COMPILE:-}nm}"
awk '{ print $2 }' "$symvers" | sort -u >"$out/exported"

# 0 if the object exists and needs only what is exported; else the reason in $why.
probe_passes() {
	local object=$out/$1.o missing
	why=
	if [ ! -e "$object" ]; then
		why=$(grep -E "(^|[/ ])$1\.c:[0-9]+.*error:" "$out/log" || true)
		[ -n "$why" ] || why=unknown
		return 1
	fi
	missing=$("${nm[@]}" -u "$object" | awk '{ print $NF }' | sort -u |
		comm -23 - "$out/exported" | tr '\n' ' ')
	why="not exported: $missing"
	[ -z "$missing" ]
}

probe_passes baseline || {
	cat "$out/log" >&2
	die "can not compile the simplest module against '$kdir' ($why)"
}

tmp=$out/probes.h
{
	printf '/* SPDX-License-Identifier: GPL-2.0 */\n'
	printf '/* Made by compat/probe.sh; key %s */\n' "$key"
	for name in "${names[@]}"; do
		if probe_passes "$name"; then
			printf '#define MEMOPT_HAVE_%s 1\n' "${name^^}"
		elif [ "$why" = unknown ]; then
			cat "$out/log" >&2
			die "probe '$name' failed outside its own source"
		else
			printf '/* %s: %s */\n' "${name^^}" \
				"$(printf '%s' "${why%%$'\n'*}" | sed 's/.*error: //; s,\*/,,g')"
		fi
	done
} >"$tmp"
mv "$tmp" probes.h
