#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The part of `make demo` that runs as root in the guest: install the module as DKMS
# built it, make a soft RoCE device, compare the schemes.
set -euo pipefail

version=${1:?usage: demo-guest.sh VERSION}
tool=$MEMOPT_BUILD/cmake/tools/memopt

# What DKMS would have left here, had it added and built the module on this system.
mkdir -p /var/lib/dkms
cp -a /out/dkms/. /var/lib/dkms/
cp -a "/out/usr-src/rdma_memopt-$version" /usr/src/
ln -sfn "/usr/src/rdma_memopt-$version" "/var/lib/dkms/rdma_memopt/$version/source"
echo "--- DKMS: install for $(uname -r)" >&2
dkms install "rdma_memopt/$version" -k "$(uname -r)" >&2
dkms status >&2
modprobe rdma_memopt
echo "--- loaded $(modinfo -F filename rdma_memopt) $(cat /sys/module/rdma_memopt/version)" >&2

/src/tests/vm/setup-rxe.sh

# For the reader: the guest shows which optional parts this machine lacks.
"$tool" check >&2 || echo "--- memopt check found something missing, see above" >&2

"$tool" bench --device rxe0 --json /out/result.json --svg /out/schemes.svg
