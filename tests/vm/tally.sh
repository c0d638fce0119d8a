#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Turn what the suites left behind into summary.json and a verdict.
#
#   tally.sh [--allow FILE] RESULTS SUMMARY SUITE...
#
# For each suite named, RESULTS holds SUITE.tap or SUITE.xml, SUITE.rc (exit status),
# SUITE.seconds, and optionally SUITE.plan (number of tests). A suite that left
# nothing, or no exit status, or an exit status its results do not explain, fails:
# silence is never success. Exit status 1 if anything failed.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/common.sh"

allow=$PROJECT_DIR/tests/skips.allow
if [ "${1:-}" = --allow ]; then
	allow=$2
	shift 2
fi
results=${1:?usage: tally.sh [--allow FILE] RESULTS SUMMARY SUITE...}
summary=${2:?usage: tally.sh [--allow FILE] RESULTS SUMMARY SUITE...}
shift 2
[ $# -gt 0 ] || die "tally.sh: no suite named"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

content() { # FILE DEFAULT
	if [ -s "$1" ]; then cat "$1"; else printf '%s\n' "$2"; fi
}

# A line of skips.allow is "suite:test-name-glob # reason"; without a reason it
# allows nothing.
allowed() { # SUITE NAME
	local line pattern reason
	while IFS= read -r line; do
		case $line in
		'#'* | '') continue ;;
		*' # '?*) ;;
		*) die "$allow: no reason given: $line" ;;
		esac
		reason=${line##* # }
		pattern=${line%" # $reason"}
		# shellcheck disable=SC2053 # the right side is a glob on purpose
		[[ "$1:$2" == $pattern ]] && return 0
	done <"$allow"
	return 1
}

failure() { # NAME REASON, to the lines of the suite
	printf 'fail\t%s\t%s\n' "$1" "$2"
}

suite_lines() { # SUITE
	local suite=$1 file='' format rc plan lines
	for format in tap xml; do
		if [ -s "$results/$suite.$format" ]; then
			file=$results/$suite.$format
			break
		fi
	done
	if [ -z "$file" ]; then
		failure "results" "the suite left no results"
		return
	fi
	plan=$(content "$results/$suite.plan" '')
	lines=$(awk -v format="$format" -v plan="$plan" -f "$VM_DIR/tally.awk" "$file")
	if [ -n "$lines" ]; then
		printf '%s\n' "$lines"
	else
		failure "results" "not one result in $(basename "$file")"
	fi

	rc=$(content "$results/$suite.rc" missing)
	case $rc in
	0) ;;
	4) # kselftest and Catch2: everything was skipped
		if ! grep -q '^skip' <<<"$lines"; then
			failure "exit status" "4 (skipped), but nothing was skipped"
		fi
		;;
	missing) failure "exit status" "the suite did not come to its end" ;;
	124 | 137) failure "exit status" "$rc: stopped by the time limit or killed" ;;
	*)
		if ! grep -q '^fail' <<<"$lines"; then
			failure "exit status" "$rc, although no test failed"
		fi
		;;
	esac
}

for suite in "$@"; do
	suite_lines "$suite" >"$work/lines"
	while IFS=$'\t' read -r status name reason; do
		if [ "$status" = skip ] && ! allowed "$suite" "$name"; then
			status=fail
			reason="skipped, and not in $(basename "$allow"): $reason"
		fi
		printf '%s\t%s\t%s\n' "$status" "$name" "$reason"
	done <"$work/lines" >"$work/judged"
	jq -R -n --arg name "$suite" --argjson seconds "$(content "$results/$suite.seconds" 0)" '
		[inputs | split("\t") | {status: .[0], name: .[1], reason: .[2]}] |
		{name: $name,
		 passed: (map(select(.status == "pass")) | length),
		 failed: (map(select(.status == "fail")) | length),
		 skipped: (map(select(.status == "skip")) | length),
		 seconds: $seconds,
		 failures: map(select(.status == "fail") | {name, reason})}' \
		"$work/judged" >>"$work/suites"
done

# The whole run took longer than its suites: there is set-up too.
jq -s --argjson wall "$(content "$results/seconds" null)" '{version: 1,
	passed: (map(.passed) | add), failed: (map(.failed) | add),
	skipped: (map(.skipped) | add), seconds: ($wall // (map(.seconds) | add)),
	suites: .}' "$work/suites" >"$summary"

jq -r '.suites[] | (.name as $suite |
	"\($suite): \(.passed) passed, \(.failed) failed, \(.skipped) skipped in \(.seconds) s",
	(.failures[] | "  FAILED \($suite): \(.name)" + (if .reason == "" or .reason == null then "" else " (\(.reason))" end)))' \
	"$summary"
[ "$(jq .failed "$summary")" = 0 ] || printf 'What each suite printed is in %s/SUITE.*\n' "$results"
jq -r '"\(.passed) passed, \(.failed) failed, \(.skipped) skipped"' "$summary"
[ "$(jq .failed "$summary")" = 0 ]
