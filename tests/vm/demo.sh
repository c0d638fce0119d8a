#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make demo`: from nothing to the comparison of the memory schemes. Sets up, builds,
# installs the module by DKMS in a guest, runs `memopt bench` there on soft RoCE, and
# leaves build/demo/result.json and build/demo/schemes.svg.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

kernel=7.3
out=$BUILD_DIR/demo
start=$SECONDS
step() { say "[$((SECONDS - start)) s] $*"; }
interrupted() {
	say "interrupted; run it again, finished steps are kept"
	exit 130
}
trap interrupted INT TERM

step "set-up"
"$VM_DIR/setup.sh" demo
root=$("$VM_DIR/root.sh" "$kernel")
release=$(kernel_release "$root" "$kernel")

step "building library and command"
"$VM_DIR/build.sh" "$kernel" --only user

rm -rf "$out"
mkdir -p "$out/dkms" "$out/usr-src"
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$PROJECT_DIR/dkms.conf")
make -s -C "$PROJECT_DIR" dkms-source DKMS_SOURCE="$out/usr-src/rdma_memopt-$version"

# DKMS adds and builds in the guest root's userland, not in the booted guest: the
# compilers and headers are the same files, and under emulation the compiler would
# take minutes. What DKMS keeps goes to the guest, where it installs the result.
step "DKMS: add and build for $release"
"$VM_DIR/in-root.sh" "$kernel" --bind "$out:/mnt" -- sh -ec '
	trees="--sourcetree /mnt/usr-src --dkmstree /mnt/dkms"
	dkms add $trees rdma_memopt/"$1"
	dkms build $trees rdma_memopt/"$1" -k "$2"' sh "$version" "$release" >"$out/dkms.log" 2>&1 || {
	tail -n 30 "$out/dkms.log" >&2
	die "DKMS could not build the module; the whole log is $out/dkms.log"
}

step "booting a guest with kernel $release, CMA and one 1 GiB page"
status=0
"$VM_DIR/guest.sh" --kernel "$kernel" --name demo --mem 4096 --timeout 1800 \
	--append "cma=512M hugepagesz=1G hugepages=1" --hugepages 192 \
	--out "$out" --build "$BUILD_DIR" -- \
	/src/tests/vm/demo-guest.sh "$version" || status=$?
case $status in
0) ;;
121) die "the guest crashed; see $out/console.log" ;;
122) die "the kernel of the guest complained; see $out/dmesg" ;;
124) die "the guest did not finish in time; see $out/console.log" ;;
*) die "the run in the guest failed with status $status; see above and $out/console.log" ;;
esac

[ -s "$out/schemes.svg" ] || die "no chart: $out/schemes.svg is missing or empty"
# Stock soft RoCE of this kernel corrupts data of on-demand registrations; the library
# finds that out by itself, and this is the one scheme that may give a reason here.
if ! problems=$("$VM_DIR/validate-result.sh" "$out/result.json" odp=odp_unreliable); then
	printf '%s\n' "$problems" >&2
	die "the result is not what it must be: $out/result.json"
fi
printf 'demo: %s schemes ran on kernel %s, all data verified, %s s; results: %s, chart: %s\n' \
	"$(jq '[.rows[] | select(.reason == null)] | length' "$out/result.json")" "$release" \
	"$((SECONDS - start))" "$out/result.json" "$out/schemes.svg"
