# SPDX-License-Identifier: MIT
# The front door. Everything below only calls the scripts and builds that do the
# work: kmod/Makefile (module), CMakeLists.txt (user space), tests/vm/ (guests).

KERNEL ?= 7.3
KDIR ?= /lib/modules/$(shell uname -r)/build
prefix ?= /usr/local
DESTDIR ?=
V ?= 0

# VM_CACHE, DEBIAN_MIRROR and ACCEL reach the scripts through the environment,
# and only if the user set them: the scripts know the defaults.
export V
$(foreach name,VM_CACHE DEBIAN_MIRROR ACCEL,$(if $($(name)),$(eval export $(name))))

Q := $(if $(filter 1,$(V)),,@)
NATIVE := build/native
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"$$/\1/p' dkms.conf)
DKMS_SOURCE := /usr/src/rdma_memopt-$(VERSION)

.PHONY: help setup demo check style modules configure lib tools install dkms dkms-source \
	vm-shell clean

help:
	@echo 'Two commands (Debian 12, as root; they install what they need):'
	@echo '  make demo      boot a guest, install the module by DKMS, compare the schemes'
	@echo '  make check     every test a change must pass'
	@echo
	@echo 'For this machine:'
	@echo '  make modules   build kmod/rdma_memopt.ko against KDIR'
	@echo '  make lib       build libmemopt'
	@echo '  make tools     build the memopt command'
	@echo '  make install   install library, headers, command, udev rule (prefix, DESTDIR)'
	@echo '  make dkms      register, build and install the module with DKMS'
	@echo
	@echo 'For a change:'
	@echo '  make style     checkpatch, sparse, clang-format, shellcheck, codespell and our rules'
	@echo '  make setup     host packages and guest roots for demo and check, nothing else'
	@echo '  make vm-shell  a guest with the tree at /src (KERNEL=7.3 or 6.1)'
	@echo '  make clean     remove build products; guest roots stay in the cache'
	@echo
	@echo 'Variables:'
	@echo '  KERNEL         kernel of vm-shell ($(KERNEL))'
	@echo '  KDIR           kernel build directory of modules ($(KDIR))'
	@echo '  prefix DESTDIR where install puts things ($(prefix), "$(DESTDIR)")'
	@echo '  VM_CACHE       guest roots (~/.cache/rdma-memopt)'
	@echo '  DEBIAN_MIRROR  package archive for guests (the one of this machine)'
	@echo '  ACCEL          tcg or kvm for guests (tcg)'
	@echo '  V=1            show commands'

setup:
	$(Q)tests/vm/setup.sh check

demo:
	$(Q)tests/vm/demo.sh

check:
	$(Q)tests/vm/check.sh

style:
	$(Q)tests/style.sh

modules:
	$(Q)$(MAKE) -C kmod KDIR="$(KDIR)"

# Always run: it is quick, and prefix may differ from the last time.
configure:
	$(Q)cmake -S . -B $(NATIVE) -DCMAKE_INSTALL_PREFIX="$(prefix)" -DMEMOPT_BUILD_TESTS=OFF

lib: configure
	$(Q)cmake --build $(NATIVE) --target memopt

tools: configure
	$(Q)cmake --build $(NATIVE) --target memopt-tool

install: lib tools
	$(Q)DESTDIR="$(DESTDIR)" cmake --install $(NATIVE)
	$(Q)deploy/install.sh "$(DESTDIR)" "$(prefix)"

# What DKMS builds from: the module and its uapi header, without build products.
dkms-source:
	$(Q)rm -rf "$(DKMS_SOURCE)"
	$(Q)mkdir -p "$(DKMS_SOURCE)"
	$(Q)tar -cf - --exclude='*.o' --exclude='*.ko' --exclude='*.mod*' --exclude='.*.cmd' \
		--exclude=.probes --exclude=probes.h dkms.conf kmod uapi | tar -xf - -C "$(DKMS_SOURCE)"

dkms: dkms-source
	$(Q)if dkms status rdma_memopt/$(VERSION) | grep -q .; then \
		dkms remove rdma_memopt/$(VERSION) --all; fi
	$(Q)dkms add rdma_memopt/$(VERSION)
	$(Q)dkms build rdma_memopt/$(VERSION)
	$(Q)dkms install rdma_memopt/$(VERSION)

vm-shell:
	$(Q)tests/vm/setup.sh shell $(KERNEL)
	$(Q)tests/vm/shell.sh $(KERNEL)

clean:
	$(Q)rm -rf build
	$(Q)if [ -e kmod/Makefile ]; then $(MAKE) -s -C kmod clean; fi
