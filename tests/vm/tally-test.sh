#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tally decides whether a change is good, so it is tested with output that must
# not pass: silence, crashes, missing tests, skips nobody allowed. Prints TAP.
set -euo pipefail

dir=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0
failed=0

# expect NAME VERDICT: the tally of suite "s", with $work/s.* as it left them, must
# print VERDICT as its last line, and exit 0 only if that says "0 failed".
expect() {
	local name=$1 verdict=$2 output status=0 wanted=1
	output=$("$dir/tally.sh" --allow "$work/allow" "$work" "$work/summary.json" s 2>&1) || status=$?
	[[ $verdict == *" 0 failed,"* ]] && wanted=0
	number=$((number + 1))
	if [ "${output##*$'\n'}" = "$verdict" ] && [ "$status" = "$wanted" ]; then
		printf 'ok %d - %s\n' "$number" "$name"
	else
		printf 'not ok %d - %s\n' "$number" "$name"
		printf '%s\n' "$output" | sed 's/^/# /'
		printf '# exit status %s\n' "$status"
		failed=1
	fi
}

# suite EXTENSION RC, output on stdin
suite() {
	rm -f "$work"/s.*
	cat >"$work/s.$1"
	[ "$2" = none ] || printf '%s\n' "$2" >"$work/s.rc"
}

echo 1..16
echo 's:allowed* # the device is missing here' >"$work/allow"

printf '1..2\nok 1 - a\nok 2 - b\n' | suite tap 0
expect "plain TAP passes" "2 passed, 0 failed, 0 skipped"

printf '1..2\nok 1 - a\nnot ok 2 - b\n' | suite tap 1
expect "a failed test fails" "1 passed, 1 failed, 0 skipped"

printf '1..3\nok 1 - a\nok 2 - b\n' | suite tap 0
expect "fewer results than planned fail" "2 passed, 1 failed, 0 skipped"

printf '1..1\nok 1 - a\n' | suite tap none
expect "a suite without an end fails" "1 passed, 1 failed, 0 skipped"

printf '1..1\nok 1 - a\n' | suite tap 1
expect "an exit status no result explains fails" "1 passed, 1 failed, 0 skipped"

printf '1..1\nok 1 - a\n' | suite tap 124
expect "the time limit fails" "1 passed, 1 failed, 0 skipped"

suite tap 0 </dev/null
expect "silence fails" "0 passed, 1 failed, 0 skipped"

echo 'hello' | suite tap 0
expect "output without results fails" "0 passed, 1 failed, 0 skipped"

printf '1..2\nok 1 - allowed one # SKIP no device\nok 2 - b\n' | suite tap 0
expect "a skip on the list is a skip" "1 passed, 0 failed, 1 skipped"

printf '1..2\nok 1 - other # SKIP no device\nok 2 - b\n' | suite tap 0
expect "a skip not on the list fails" "1 passed, 1 failed, 0 skipped"

printf 'KTAP version 1\n1..2\n  1..2\n  ok 1 a\n  ok 2 b\nok 1 x\n# 1..1\n# ok 1 c\nok 2 y\n' |
	suite tap 0
expect "nested results are counted once" "3 passed, 0 failed, 0 skipped"

printf '1..1\n# 1..3\n# ok 1 a\n# ok 2 b\nnot ok 1 x\n' | suite tap 1
expect "a subtest that ends early fails" "2 passed, 1 failed, 0 skipped"

printf '1..1\n# 1..1\n# ok 1 a\nnot ok 1 x # exit=139\n' | suite tap 1
expect "a subtest that fails after its tests fails" "1 passed, 1 failed, 0 skipped"

xml_case() { # NAME RESULT-ATTRIBUTES
	printf '  <TestCase name="%s" filename="t.cpp" line="1">\n' "$1"
	printf '    <OverallResult %s/>\n  </TestCase>\n' "$2"
}

{
	xml_case a 'success="true" skips="0"'
	xml_case 'allowed &lt;b>' 'success="true" skips="1"'
	xml_case c 'success="false" skips="0"'
} | suite xml 1
expect "Catch2 cases are told apart" "1 passed, 1 failed, 1 skipped"

{
	xml_case a 'success="true" skips="0"'
	printf '  <TestCase name="b" filename="t.cpp" line="1">\n'
} | suite xml 139
expect "a Catch2 program that dies fails in its open test" "1 passed, 1 failed, 0 skipped"

xml_case a 'success="true" skips="0"' | suite xml 0
echo 2 >"$work/s.plan"
expect "fewer Catch2 cases than listed fail" "1 passed, 1 failed, 0 skipped"
exit "$failed"
