#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Install what the system needs to know about the module: who may open the device
# node, and the group for it.
#
#   install.sh DESTDIR PREFIX
set -euo pipefail

dir=$(cd "$(dirname "$0")" && pwd)
dest=${1?usage: install.sh DESTDIR PREFIX}
prefix=${2:?usage: install.sh DESTDIR PREFIX}
doc=$dest$prefix/share/doc/rdma_memopt

install -D -m 0644 "$dir/90-rdma-memopt.rules" "$dest$prefix/lib/udev/rules.d/90-rdma-memopt.rules"
install -D -m 0644 "$dir/rdma-memopt.sysusers" "$dest$prefix/lib/sysusers.d/rdma-memopt.conf"
install -D -m 0644 -t "$doc" "$dir/modprobe-example.conf" "$dir/limits-example.conf" \
	"$dir/modules-load-example.conf"

# A package is being staged: its own scripts tell the running system.
[ -z "$dest" ] || exit 0

ldconfig
if ! getent group rdma >/dev/null; then
	groupadd --system rdma
fi
if command -v udevadm >/dev/null; then
	udevadm control --reload || echo "note: udev is not running; the rule works from its next start" >&2
fi
