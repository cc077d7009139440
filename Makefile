# SPDX-License-Identifier: GPL-2.0
# What can be made. Each target does its own set-up (scripts/setup says what it
# installs); everything that is built lands in out/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
KERNELS ?= $(shell awk '!/^\#/ && $$5 == "yes" { print $$1 }' scripts/kernels.txt)
MINUTES ?= 20
# Some suites wait for most of their time: one more than there are processors.
JOBS ?= $(shell echo $$(($$(nproc) + 1)))
SETUP ?= scripts/setup
PREFIX ?= /usr/local
BPF := $(patsubst bpf/%.bpf.c,out/bpf/%.bpf.o,$(wildcard bpf/*.bpf.c))
BPF_TESTS := $(addprefix out/build/bpf/,loader flows.bpf.o equality law_step.bpf.o law_step_wrong.bpf.o)
BPF_CC = clang -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror \
	-I/usr/include/$(shell gcc -print-multiarch) -Ikmod -Ibpf

.PHONY: help all kmod tools test-builds web bpf demo test check check-changed check-debian13 lab lab-kernel stress bench lint install install-dkms uninstall packages packages-check rpm clean setup-build setup-guests setup-report setup-bench setup-lint setup-packages setup-web setup-browser setup-fleet setup-lab check-builds docs compat

help: ## show this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

all: kmod tools ## the module for Debian's kernels, swiftctl and swiftd

kmod: $(KERNELS:%=kmod-%) ## the module alone, for KERNELS of scripts/kernels.txt; for others: scripts/build-module

kmod-%: setup-build
	@scripts/build-module $*

tools: setup-build setup-web ## swiftctl and swiftd
	@mkdir -p out/build
	@echo "building swiftctl and swiftd, minutes the first time (out/tools.log)"
	@flock out/build/userspace.lock sh -c 'cmake -S userspace -B out/build/userspace -G Ninja && \
		cmake --build out/build/userspace' >out/tools.log 2>&1 || { cat out/tools.log; exit 1; }
	@echo "built out/build/userspace/swiftctl and swiftd"

web: setup-web ## the dashboard alone: out/build/web/dist
	@userspace/web/build
	@echo "built out/build/web/dist"

bpf: $(BPF) ## the eBPF variants as files, for tests (swiftctl has its own inside)

demo: setup-guests setup-report kmod-6.12 tools out/build/wire.bpf.o ## Swift beside cubic, dctcp and bbr on a congested link, in a guest
	@scripts/demo

test: setup-guests test-builds bpf $(BPF_TESTS) ## what needs no guest and no lab: the first thing after a change
	@tests/check --jobs $(JOBS) $(addprefix --only ,unit fuzz swiftctl swiftd bpf-native)

check: setup-build setup-guests setup-lab setup-web setup-browser setup-packages setup-fleet setup-report ## all tests; the last line counts them
	@MAKEFLAGS= $(MAKE) --no-print-directory -j 2 KERNELS='$(KERNELS)' check-builds
	@tests/check --jobs $(JOBS) --kernels '$(KERNELS)' $(CHECKED)

# Two at a time: one downloads and unpacks while the other compiles.
check-builds: lab-kernel kmod test-builds bpf $(BPF_TESTS) out/build/wire.bpf.o out/build/tunables.txt

check-changed: CHECKED = --changed
check-changed: check ## of them, what a change since the branch's upstream can touch

check-debian13: ## user space and the packages, in a Debian 13 root; other suites: tests/debian/run
	@scripts/setup kernel packages
	@tests/debian/run --suite trixie

test-builds: setup-build setup-web
	@for kind in plain asan tsan; do echo "building user space and its tests ($$kind)"; tests/build $$kind || exit; done

lab: lab-kernel setup-report tools ## the papers' experiments, whole (hours; resumable); scripts/lab runs one
	@scripts/lab run all --jobs 2 --json out/lab/all.json --html out/lab/all.html

lab-kernel: setup-lab
	@tests/lab/kernel/build >/dev/null

stress: tools setup-lab ## the module in a kernel that finds mistakes, under faults: MINUTES=20
	@tests/lab/stress --minutes $(MINUTES)

bench: setup-guests setup-bench kmod-6.12 bpf $(addprefix out/build/bpf/,loader nothing.bpf.o) out/build/wire.bpf.o ## what an ACK costs
	@tests/bench/run

lint: setup-lint ## checkpatch, sparse, shellcheck, clang-tidy, codespell, licences
	@scripts/lint

install: tools ## to PREFIX (/usr/local) below DESTDIR; the module: install-dkms
	@scripts/packaging/install '$(PREFIX)' '$(DESTDIR)'

install-dkms: ## the module's sources to /usr/src below DESTDIR, for DKMS to build
	@scripts/packaging/dkms-source '$(DESTDIR)'

uninstall: ## remove what install has installed there
	@scripts/packaging/install --remove '$(PREFIX)' '$(DESTDIR)'

packages: setup-packages ## Debian packages in out/packages: tcp-swift-dkms, swift-tools
	@scripts/packages

rpm: setup-packages ## packages of Fedora's kind in out/packages, with their source package
	@scripts/packages --rpm

packages-check: setup-guests setup-packages tools ## install, upgrade and remove them in a Debian root, and in a guest
	@tests/packages/run install debs rpm chroot guest

docs: setup-guests setup-fleet tools ## the documentation's commands, names and links; scripts/fleet
	@tests/docs/run

compat: ## the README's table of kernels, from the last check
	@scripts/compat-table

clean: ## remove out/
	rm -rf out

out/build/wire.bpf.o: tests/vm/wire.bpf.c | setup-build
	@mkdir -p $(@D)
	clang -O2 -target bpf -I/usr/include/$(shell gcc -print-multiarch) -c $< -o $@

out/bpf/%.bpf.o: bpf/%.bpf.c bpf/bpf_swift.bpf.c $(wildcard bpf/*.h kmod/core/*.h kmod/uapi/*.h) | setup-build
	@mkdir -p $(@D)
	@$(BPF_CC) -c $< -o $@
	@echo "built $@"

out/build/bpf/%.bpf.o: tests/bpf/%.bpf.c $(wildcard tests/bpf/*.h bpf/*.h kmod/core/*.h) | setup-build
	@mkdir -p $(@D)
	$(BPF_CC) -c $< -o $@

# With one constant of the law, and of the clocks, changed: the comparison has to notice.
out/build/bpf/law_step_wrong.bpf.o: tests/bpf/law_step.bpf.c $(wildcard tests/bpf/*.h kmod/core/*.h) | setup-build
	@mkdir -p $(@D)/wrong/core
	@cp kmod/core/*.h $(@D)/wrong/core
	@sed -i 's/^#define SWIFT_CEILING 32$$/#define SWIFT_CEILING 31/' $(@D)/wrong/core/swift.h
	@sed -i 's/^#define SWIFT_CLOCK_ONE_Q32 (1ULL << 32)$$/#define SWIFT_CLOCK_ONE_Q32 ((1ULL << 32) + 64)/' $(@D)/wrong/core/clock.h
	$(BPF_CC:-Ikmod=-I$(@D)/wrong) -c $< -o $@

out/build/bpf/loader: tests/bpf/loader.c bpf/maps.h $(wildcard kmod/core/*.h) | setup-build
	@mkdir -p $(@D)
	gcc -O1 -Wall -Wextra -Wno-sign-compare -Werror -Ikmod -Ibpf $< -o $@ -lbpf

# As the module's objects are made. (Position-dependent code wants -no-pie.)
out/build/bpf/law_kernel.o: tests/bpf/law_kernel.c tests/bpf/law_step.h $(wildcard kmod/core/*.h) | setup-build
	@rm -rf $(@D)/kernel && mkdir -p $(@D)/kernel
	@cp -r kmod/core tests/bpf/law_kernel.c tests/bpf/law_step.h $(@D)/kernel
	@printf 'obj-m := law_kernel.o\nccflags-y := -I$$(src)\n' >$(@D)/kernel/Kbuild
	scripts/kernel-make 6.12 M=$(abspath $(@D)/kernel) KCFLAGS=-Werror law_kernel.o
	@cp $(@D)/kernel/law_kernel.o $@

out/build/bpf/equality: tests/bpf/equality.cpp out/build/bpf/law_kernel.o tests/bpf/law_step.h $(wildcard tests/unit/*.hpp kmod/core/*.h) | setup-build
	@mkdir -p $(@D)
	g++ -std=c++20 -O2 -Wall -Wextra -Werror -Ikmod -Ikmod/core -I. $< $(word 2,$^) -no-pie -Wl,-z,noexecstack -o $@ -lbpf

out/build/tunables.txt: tests/vm/tunables.c kmod/core/swift_params.h | setup-build
	@mkdir -p $(@D)
	gcc -Wall -o $(@D)/tunables $< && $(@D)/tunables >$@

setup-build:
	@mkdir -p out
	@$(SETUP) build kernel

setup-web:
	@$(SETUP) web

setup-browser:
	@scripts/setup browser

setup-lab:
	@scripts/setup build lab

setup-fleet:
	@scripts/setup fleet

setup-guests:
	@scripts/setup build kernel guests

setup-report:
	@scripts/setup report

setup-bench:
	@scripts/setup bench

setup-packages:
	@mkdir -p out
	@$(SETUP) build web packages

setup-lint:
	@scripts/setup build kernel lint
