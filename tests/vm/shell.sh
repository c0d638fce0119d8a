#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A guest to try things in: a root shell on the console, the tree at /src, the build
# directory at /build. "exit" or Ctrl-D powers it off.
#
#   shell.sh [KERNEL] [OPTIONS OF guest.sh]
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

kernel=7.3
if [ $# -gt 0 ] && [[ $1 != -* ]]; then
	kernel=$1
	shift
fi
cat >&2 <<EOT
--- guest with kernel $kernel; in it:
      /src/tests/vm/setup-rxe.sh              make the RDMA device rxe0, 10.9.9.1
      insmod \$MEMOPT_BUILD/kmod/rdma_memopt.ko
                                               load the module, if build.sh $kernel built it
    exit or Ctrl-D powers it off; Ctrl-A X ends it at once
EOT
exec "$VM_DIR/guest.sh" --kernel "$kernel" --name memopt "$@" --shell
