# SPDX-License-Identifier: MIT
# Test output in, one line a result out: STATUS <tab> NAME <tab> REASON, with STATUS
# pass, fail or skip. Understands TAP and KTAP, nested by spaces or by "# ", and the
# XML of Catch2. What was announced but never came is a failure of its own.
#
#   awk -v format=tap|xml -v plan=N -f tally.awk FILE
#
# A result that closes a subtest is counted only if it says "not ok" and nothing
# below it did: its children are the results.

function emit(status, name, reason) {
	gsub(/\t/, " ", name)
	gsub(/\t/, " ", reason)
	printf "%s\t%s\t%s\n", status, name, reason
}

function plain(text) { # undo the escapes of XML
	gsub(/&lt;/, "<", text)
	gsub(/&gt;/, ">", text)
	gsub(/&quot;/, "\"", text)
	gsub(/&apos;/, "'", text)
	gsub(/&amp;/, "\\&", text)
	return text
}

# The subtests at this depth are over: all that were planned must have come.
function close_level(depth) {
	if (planned[depth] != "" && seen[depth] < planned[depth])
		emit("fail", "plan" (depth ? " of a subtest" : ""),
		     "planned " planned[depth] ", ran " seen[depth])
	planned[depth] = ""
	seen[depth] = 0
	bad[depth] = 0
}

function result(depth, ok, name, directive, d, had, had_bad) {
	for (d = deepest; d > depth + 1; d--)
		close_level(d)
	had = seen[depth + 1] > 0 || planned[depth + 1] != ""
	had_bad = bad[depth + 1]
	if (had && planned[depth + 1] != "" && seen[depth + 1] < planned[depth + 1])
		had_bad = 1
	close_level(depth + 1)
	deepest = depth
	seen[depth]++

	if (had) {
		if (!ok) {
			bad[depth] = 1
			if (!had_bad)
				emit("fail", name, directive)
		} else if (had_bad) {
			bad[depth] = 1
		}
	} else if (toupper(directive) ~ /^ *(SKIP|XFAIL)/) {
		emit("skip", name, directive)
	} else if (!ok || toupper(directive) ~ /^ *TODO/) {
		bad[depth] = 1
		emit("fail", name, directive)
	} else {
		emit("pass", name, "")
	}
}

BEGIN { deepest = 0 }

format == "tap" {
	line = $0
	sub(/\r$/, "", line)
	depth = 0
	while (match(line, /^(  |# )/)) {
		line = substr(line, 3)
		depth++
	}
	if (depth > deepest && line ~ /^((not )?ok|1\.\.)/)
		deepest = depth
	if (match(line, /^1\.\.[0-9]+/)) {
		planned[depth] = substr(line, 4) + 0
		if (planned[depth] == 0 && toupper(line) ~ /SKIP/)
			emit("skip", "the whole suite", line)
		next
	}
	if (line ~ /^Bail out!/) {
		emit("fail", "bailed out", line)
		next
	}
	if (line !~ /^(not )?ok( |$)/)
		next
	ok = line ~ /^ok/
	sub(/^(not )?ok *[0-9]* *(- )?/, "", line)
	directive = ""
	if (match(line, / *# */)) {
		directive = substr(line, RSTART + RLENGTH)
		line = substr(line, 1, RSTART - 1)
	}
	result(depth, ok, line, directive)
	next
}

format == "xml" && /^ *<TestCase / {
	name = $0
	sub(/^[^"]*"/, "", name)
	sub(/".*/, "", name)
	name = plain(name)
	open = 1
	text = ""
	next
}

# What a person needs to see first: the last expression or message before the verdict.
format == "xml" && /<(Skip|Expanded|Exception|FatalErrorCondition|Failure)[ >]/ {
	wanted = 1
	next
}

format == "xml" && wanted {
	text = plain($0)
	gsub(/^ +/, "", text)
	wanted = 0
	next
}

format == "xml" && open && /<OverallResult / {
	open = 0
	seen[0]++
	if ($0 !~ /success="true"/)
		emit("fail", name, text)
	else if ($0 !~ /skips="0"/)
		emit("skip", name, text)
	else
		emit("pass", name, "")
	next
}

END {
	if (open)
		emit("fail", name, "died in this test")
	if (plan != "" && planned[0] == "")
		planned[0] = plan
	for (d = deepest; d > 0; d--)
		close_level(d)
	close_level(0)
}
