#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build everything a guest runs, natively in the user land of its root:
#
#   build.sh KERNEL [--only modules|user|kselftest] [--kdir-release 6.12]
#
#   BUILD_DIR/KERNEL/kmod/rdma_memopt.ko   the module
#   BUILD_DIR/KERNEL/cmake/                library, command, C++ tests
#   BUILD_DIR/KERNEL/kselftest/            C and shell tests
#   BUILD_DIR/KERNEL/log/                  what the tools said (V=1: shown too)
#
# --kdir-release builds only the module, against other headers of the same root, into
# BUILD_DIR/KERNEL/kmod-RELEASE/. What is up to date is not built again.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

usage="usage: build.sh KERNEL [--only modules|user|kselftest] [--kdir-release RELEASE]"
kernel=${1:?$usage}
shift
steps=(modules user kselftest)
headers=$kernel
suffix=
while [ $# -gt 0 ]; do
	case $1 in
	--only)
		steps=("${2:?$usage}")
		;;
	--kdir-release)
		headers=${2:?$usage}
		suffix=-$headers
		steps=(modules)
		;;
	*) die "$usage" ;;
	esac
	shift 2
done

command -v rsync >/dev/null || die "rsync is missing; 'make setup' installs it"
root=$(root_of_kernel "$kernel")
build=$BUILD_DIR/$kernel
inside=/build/$kernel
mkdir -p "$build/log"

# Two builds of one directory would spoil each other.
exec 9>"$build/.lock"
flock 9

in_root() { "$VM_DIR/in-root.sh" "$kernel" -- "$@"; }

# The kernel's build writes next to the sources, so it gets a copy of its own.
build_modules() {
	local release copy=kmod-src$suffix
	release=$(kernel_release "$root" "$headers" build)
	mkdir -p "$build/$copy" "$build/kmod$suffix"
	rsync -a --delete --exclude='*.o' --exclude='.*.cmd' --exclude='*.ko' --exclude='*.mod*' \
		--exclude=.probes --exclude=probes.h --exclude=Module.symvers \
		--exclude=modules.order "$PROJECT_DIR/kmod" "$PROJECT_DIR/uapi" "$build/$copy/"
	in_root make -C "$inside/$copy/kmod" -j2 KDIR="/lib/modules/$release/build" W=1
	rsync -a "$build/$copy/kmod/rdma_memopt.ko" "$build/kmod$suffix/"
}

build_user() {
	# Only the main root has the Catch2 the tests are written for.
	local tests=ON
	[ -e "$root/usr/include/catch2/catch_all.hpp" ] || tests=OFF
	# Each time, because a directory with a new CMakeLists.txt would go unnoticed.
	# Optimised, but with the assertions that Release would drop.
	in_root cmake -S /src -B "$inside/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_C_FLAGS_RELEASE=-O2 -DCMAKE_CXX_FLAGS_RELEASE=-O2 \
		-DMEMOPT_WERROR=ON -DMEMOPT_BUILD_TESTS=$tests
	in_root cmake --build "$inside/cmake" -j2
}

build_kselftest() {
	in_root make -C /src/tests/kselftest -j2 OUT="$inside/kselftest"
}

for step in "${steps[@]}"; do
	[ "$(type -t "build_$step")" = function ] || die "$usage"
	log=$build/log/$step$suffix.log
	# A subshell for the step, because `set -e` does nothing below `||`.
	if [ "${V:-0}" = 1 ]; then
		log_to=(tee "$log")
	else
		log_to=(dd "of=$log" status=none)
	fi
	set +e
	(
		set -e
		"build_$step"
	) 2>&1 </dev/null | "${log_to[@]}" >&2
	status=${PIPESTATUS[0]}
	set -e
	if [ "$status" != 0 ]; then
		[ "${V:-0}" = 1 ] || tail -n 40 "$log" >&2
		die "building $step for $kernel failed; all of it is in $log"
	fi
done
