# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# TAP from a shell script: tap_test NAME COMMAND..., then tap_done. Sourced, never run.
# The plan comes last, so a script that dies has none; its exit status tells.
tap_number=0
tap_failed=0

# The test passes if the command succeeds; what it printed is shown if it does not.
# The names of the locals keep out of the way of variables a tested function uses.
tap_test() {
	local tap_name=$1 tap_status tap_output
	shift
	# Below "||" errexit would be off inside the command.
	set +e
	tap_output=$(
		set -e
		"$@" 2>&1
	)
	tap_status=$?
	set -e
	tap_number=$((tap_number + 1))
	if [ "$tap_status" = 0 ]; then
		printf 'ok %d - %s\n' "$tap_number" "$tap_name"
	else
		printf 'not ok %d - %s\n' "$tap_number" "$tap_name"
		printf '%s\nexit status %s\n' "$tap_output" "$tap_status" | tail -n 40 | sed 's/^/#   /'
		tap_failed=1
	fi
}

tap_done() {
	printf '1..%d\n' "$tap_number"
	exit "$tap_failed"
}
