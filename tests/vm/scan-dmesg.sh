#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Print the lines of a kernel log that no good kernel writes; exit status 1 if there
# is one, 2 if the log can not be read.
#
#   scan-dmesg.sh FILE [ALLOW]
#
# ALLOW (dmesg.allow) holds known-harmless lines, "extended regular expression # reason".
# It can only excuse a line that is not on the list of what is never harmless.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

file=${1:?usage: scan-dmesg.sh FILE [ALLOW]}
allow=${2:-$VM_DIR/dmesg.allow}
[ -s "$file" ] || {
	printf '%s is missing or empty\n' "$file"
	exit 2
}

# Never harmless, whatever dmesg.allow says.
never='\bBUG[: ]|BUG at |kernel BUG|KASAN|KCSAN|KFENCE|UBSAN|Oops|general protection fault|'
never+='Bad page (state|map)|Bad rss-counter|refcount_t: |list_(add|del) corruption|'
never+='double fault|Kernel panic|use-after-free|unable to handle'

bad='WARNING: |INFO: (task|rcu|possible|suspicious|lockdep|trying to register)|'
bad+='rcu: INFO: |possible (recursive locking|circular locking|irq lock inversion)|'
bad+='circular locking dependency|inconsistent lock state|suspicious RCU usage|'
bad+='Call Trace:|cut here|scheduling while atomic|sleeping function called|'
bad+='blocked for more than|soft lockup|hard LOCKUP|workqueue lockup|'
bad+='unregister_netdevice: waiting|page allocation failure|Out of memory: |oom-kill:|'
bad+='DMA-API: |kmemleak: [0-9]+ new|unreferenced object|Voluntary context switch within RCU|'
bad+='still has locks held|held lock freed|held when returning|Trying to vfree|'
bad+='[Oo]bjects remaining'

allowed=$(mktemp)
trap 'rm -f "$allowed"' EXIT
while IFS= read -r line; do
	case $line in
	'#'* | '') continue ;;
	*' # '?*) ;;
	*) die "$allow: no reason given: $line" ;;
	esac
	printf '%s\n' "${line%%" # "*}" >>"$allowed"
done <"$allow"

found=0
while IFS= read -r line; do
	if ! grep -Eq -- "$never" <<<"$line" && [ -s "$allowed" ] &&
		grep -Eq -f "$allowed" <<<"$line"; then
		continue
	fi
	printf '%s\n' "$line"
	found=1
done < <(grep -aE -- "$never|$bad" "$file")
exit "$found"
