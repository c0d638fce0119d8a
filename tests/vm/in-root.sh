#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run a command natively, on this machine's kernel, in the user land of a guest root.
#
#   in-root.sh KERNEL [--user NAME] [--bind SOURCE:TARGET[:ro]]... [--] COMMAND...
#
# The project is at /src (read-only), BUILD_DIR at /build (writable), /tmp is empty.
# A --bind of the same target wins. Nothing else of the root can be written: it is
# shared by everything that uses the cache. Needs root.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

usage="usage: in-root.sh KERNEL [--user NAME] [--bind SOURCE:TARGET[:ro]] [--] COMMAND..."
kernel=${1:?$usage}
shift
user=root
binds=()
while [ $# -gt 0 ]; do
	case $1 in
	--user)
		user=${2:?$usage}
		shift
		;;
	--bind)
		[[ ${2:-} =~ ^[^:]+:/[^:]+(:ro)?$ ]] || die "$usage"
		binds+=("$2")
		shift
		;;
	--)
		shift
		break
		;;
	-*) die "$usage" ;;
	*) break ;;
	esac
	shift
done
[ $# -gt 0 ] || die "$usage"
[ "$(id -u)" = 0 ] || die "in-root.sh mounts file systems and needs root; run it with sudo"

root=$(root_of_kernel "$kernel")
mkdir -p "$BUILD_DIR"
for bind in "$PROJECT_DIR:/src:ro" "$BUILD_DIR:/build"; do
	target=${bind#*:}
	printf '%s\n' "${binds[@]}" | grep -q ":${target%:ro}\(:ro\)\?$" || binds+=("$bind")
done

# The script for the inner side: a tmpfs that has every entry of the root as a
# read-only bind mount, so that mount points can be made without touching the root.
inside=$(
	cat <<'INSIDE'
set -euo pipefail
root=$1 user=$2 count=$3
shift 3
new=/mnt
mount -t tmpfs -o mode=755 tmpfs "$new"
bind() { # SOURCE TARGET [ro]
	if [ -d "$1" ]; then mkdir -p "$2"; else [ -e "$2" ] || : >"$2"; fi
	mount --bind "$1" "$2"
	[ "${3:-}" != ro ] || mount -o remount,bind,ro "$2"
}
for entry in "$root"/*; do
	name=${entry##*/}
	case $name in
	proc | sys | dev | tmp | run | src | build) ;;
	*)
		if [ -L "$entry" ]; then
			cp -P "$entry" "$new/$name"
		else
			bind "$entry" "$new/$name" ro
		fi
		;;
	esac
done
mkdir -p "$new/proc" "$new/sys" "$new/dev" "$new/run"
mkdir -m 1777 "$new/tmp"
mount -t proc proc "$new/proc"
mount -t sysfs -o ro sysfs "$new/sys"
mount --rbind /dev "$new/dev"
[ ! -d "$new/dev/shm" ] || mount -t tmpfs -o mode=1777 tmpfs "$new/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$new/tmp"
home=$(awk -F: -v user="$user" '$1 == user { print $6 }' "$root/etc/passwd")
[ -n "$home" ] || { echo "error: the root has no user $user" >&2; exit 1; }
mount -t tmpfs -o "mode=755" tmpfs "$new$home"
chroot "$new" chown "$user:" "$home"
while [ "$count" -gt 0 ]; do
	IFS=: read -r source target mode <<<"$1"
	bind "$source" "$new$target" "$mode"
	shift
	count=$((count - 1))
done
exec chroot --userspec="$user:" "$new" env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
	TERM="${TERM:-dumb}" V="${V:-0}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	"$@"
INSIDE
)
exec unshare --mount --propagation private --pid --fork --kill-child \
	bash -c "$inside" in-root "$root" "$user" "${#binds[@]}" "${binds[@]}" "$@"
