#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every rule about form, one line a tool; a tool that complains shows what about.
#
#   style.sh [TOOL...]      all tools, or those named
#
# CHECKPATCH=/path/to/linux/scripts/checkpatch.pl saves fetching the kernel source.
# shellcheck source=tests/vm/common.sh
. "$(dirname "$0")/vm/common.sh"

tools=(checkpatch sparse clang-format shellcheck codespell spdx compat size versions)
[ $# -eq 0 ] || tools=("$@")

"$VM_DIR/setup.sh" style
cd "$PROJECT_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every file of the project: tracked, or new and not ignored.
git -c safe.directory="$PROJECT_DIR" ls-files -co --exclude-standard |
	while IFS= read -r file; do
		if [ -f "$file" ]; then printf '%s\n' "$file"; fi
	done >"$work/files"
[ -s "$work/files" ] || die "git lists no files; is this a clone?"

matching() { grep -E "$1" "$work/files"; }
c_files() { matching '^(kmod|uapi|tests/kselftest)/.*\.[ch]$'; }
cpp_files() { matching '\.[ch]pp$'; }
shell_files() {
	local file
	while IFS= read -r file; do
		case $file in
		*.sh) printf '%s\n' "$file" ;;
		*) if head -n 1 "$file" | grep -qE '^#!.*[/ ](ba)?sh$'; then printf '%s\n' "$file"; fi ;;
		esac
	done <"$work/files"
}

# Kernel packages carry no checkpatch, so it comes from the source of the guest's
# kernel, once. apt gets lists of its own: this machine's configuration is not touched.
fetch_checkpatch() {
	local dir=$VM_CACHE/checkpatch mirror apt deb
	if [ ! -e "$dir/.complete" ]; then
		say "fetching checkpatch from Debian's kernel source (about 150 MB, once)"
		mirror=$(debian_mirror)
		mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/deb"
		echo "deb $mirror trixie-backports main" >"$work/apt/sources.list"
		apt=(apt-get -q -o APT::Sandbox::User=root
			-o "Dir::Etc::SourceList=$work/apt/sources.list"
			-o Dir::Etc::SourceParts=/dev/null
			-o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache")
		"${apt[@]}" update >&2
		(cd "$work/deb" && "${apt[@]}" download linux-source-7.3 >&2) ||
			die "could not download linux-source-7.3; set CHECKPATCH=<path of checkpatch.pl>"
		deb=("$work"/deb/*.deb)
		rm -rf "$dir"
		mkdir -p "$dir"
		dpkg-deb --fsys-tarfile "${deb[0]}" |
			tar -xO ./usr/src/linux-source-7.3.tar.xz |
			tar -xJ -C "$dir" --strip-components=2 linux-source-7.3/scripts/checkpatch.pl \
				linux-source-7.3/scripts/spelling.txt \
				linux-source-7.3/scripts/const_structs.checkpatch
		touch "$dir/.complete"
	fi
	printf '%s\n' "$dir/checkpatch.pl"
}

# Switched off, everywhere:
#   FILE_PATH_CHANGES, LINUX_VERSION_CODE, SPDX_LICENSE_TAG: about patches to the kernel
#   ALLOC_WITH_SIZEOF: kzalloc_obj() is younger than the oldest kernel supported
#   MACRO_ARG_REUSE: the name of a member has no side effects
# In the uapi header BIT_MACRO: programs have no BIT(). In the tests, which are programs
# of user space, what is about the kernel's own types, helpers and syscalls.
checkpatch() {
	local base=FILE_PATH_CHANGES,LINUX_VERSION_CODE,SPDX_LICENSE_TAG,ALLOC_WITH_SIZEOF,MACRO_ARG_REUSE
	mkdir -p "$work/checkpatch"
	cp "$(dirname "$CHECKPATCH")"/{checkpatch.pl,spelling.txt,const_structs.checkpatch} "$work/checkpatch"
	c_files | grep '^kmod/' >"$work/kernel_files"
	c_files | grep '^uapi/' >"$work/uapi_files"
	c_files | grep '^tests/' >"$work/test_files"
	# perl is in the guest root, not necessarily on this machine. The script leaves
	# a cache where it runs, so it runs in /tmp.
	"$VM_DIR/in-root.sh" 7.3 --bind "$work:/mnt" -- bash -c '
		run() { # LIST OPTIONS...
			local list=$1
			shift
			sed "s|^|/src/|" "$list" | xargs perl /mnt/checkpatch/checkpatch.pl --no-tree \
				--no-summary --terse --show-types --quiet "$@" -f | sed "s|^/src/||"
		}
		set -o pipefail
		cd /tmp
		status=0
		run /mnt/kernel_files --strict --ignore "$1" || status=1
		run /mnt/uapi_files --strict --ignore "$1,BIT_MACRO" || status=1
		run /mnt/test_files --ignore "$1,VOLATILE,ARRAY_SIZE,ENOSYS" \
			--ignore PREFER_DEFINED_ATTRIBUTE_MACRO || status=1
		exit $status' bash "$base"
}

sparse() {
	local release
	release=$(kernel_release "$(root_of_kernel 7.3)" 7.3 build)
	mkdir -p "$work/sparse"
	cp -r kmod uapi "$work/sparse/"
	"$VM_DIR/in-root.sh" 7.3 --bind "$work/sparse:/src" -- sh -ec '
		make -s -C /src/kmod clean
		make -s -C /src/kmod KDIR="/lib/modules/$1/build" C=2 W=1' sh "$release" >"$work/sparse.log" 2>&1 || {
		cat "$work/sparse.log"
		return 1
	}
	! grep -E '(warning|error):' "$work/sparse.log"
}

clang-format() {
	local status=0
	cpp_files >"$work/cpp_files"
	xargs "$(type -P clang-format)" --dry-run --Werror <"$work/cpp_files" 2>"$work/format" || status=1
	# Which files is enough: clang-format -i mends them.
	sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' "$work/format" | sort | uniq -c
	return "$status"
}

shellcheck() {
	shell_files | xargs "$(type -P shellcheck)" -x
}

codespell() {
	grep -v '^LICENSES/' "$work/files" |
		xargs "$(type -P codespell)" --ignore-words-list=filp,bjects
}

# The licence line is within the first three lines, and right for the zone.
spdx() {
	local file line wanted status=0
	while IFS= read -r file; do
		case $file in
		LICENSES/* | *.md | .gitignore | .editorconfig) continue ;;
		uapi/*) wanted='GPL-2.0 WITH Linux-syscall-note' ;;
		kmod/* | tests/kselftest/* | dkms.conf) wanted='GPL-2.0' ;;
		*.patch) continue ;; # a patch has the licence of what it changes
		*) wanted='MIT' ;;
		esac
		line=$(head -n 3 "$file" | grep -o 'SPDX-License-Identifier: .*' || true)
		line=${line#SPDX-License-Identifier: }
		line=${line%" */"}
		if [ "$line" != "$wanted" ]; then
			printf '%s: licence "%s", wanted "%s"\n' "$file" "$line" "$wanted"
			status=1
		fi
	done <"$work/files"
	return "$status"
}

# Kernel versions and interface variants are known in one place only.
compat() {
	! c_files | grep -v '^kmod/compat/' |
		xargs grep -nE 'KERNEL_VERSION|LINUX_VERSION_CODE|MEMOPT_HAVE_'
}

# Over 600 lines a file holds more than one thing.
size() {
	local file lines status=0
	while IFS= read -r file; do
		lines=$(wc -l <"$file")
		if [ "$lines" -gt 600 ]; then
			printf '%s: %s lines, limit 600\n' "$file" "$lines"
			status=1
		fi
	done < <(matching '\.([ch]|[ch]pp|sh)$')
	return "$status"
}

# One version: what DKMS calls the module, what it says itself, and the library.
versions() {
	local dkms cmake module
	dkms=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' dkms.conf)
	cmake=$(sed -n 's/^project(.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
	module=$(sed -n 's/^#define MEMOPT_VERSION "\(.*\)"$/\1/p' kmod/*.[ch])
	printf 'dkms.conf %s, CMakeLists.txt %s, kmod/ %s\n' "$dkms" "$cmake" "$module"
	[ -n "$dkms" ] && [ "$dkms" = "$cmake" ] && [ "$dkms" = "$module" ]
}

failed=0
for tool in "${tools[@]}"; do
	[ "$(type -t "$tool")" = function ] || die "no tool '$tool'; there are: ${tools[*]}"
	# Outside the loop's redirection, because it takes a while and says so.
	if [ "$tool" = checkpatch ] && [ -z "${CHECKPATCH:-}" ]; then
		CHECKPATCH=$(fetch_checkpatch)
	fi
	# Below "if" and "||" errexit would be off inside the function.
	set +e
	(
		set -e
		"$tool"
	) >"$work/$tool.out" 2>"$work/$tool.err"
	status=$?
	set -e
	if [ "$status" = 0 ]; then
		printf '%-14s ok\n' "$tool"
	else
		printf '%-14s FAILED\n' "$tool"
		sed 's/^/    /' "$work/$tool.err" "$work/$tool.out"
		failed=1
	fi
done
exit "$failed"
