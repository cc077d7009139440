# SPDX-License-Identifier: GPL-2.0
# What can be made. Each target does its own set-up; everything built lands in out/.

SHELL := /bin/bash
OUT := out
KERNELS ?= 6.1 6.12

.DEFAULT_GOAL := help
.PHONY: help all kmod demo check bench lint clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

all: kmod ## build the module for both Debian kernels, and swiftctl

# The module, once per kernel release that its headers are there for. The sources are
# copied, because a kernel build writes beside them and two kernels must not share.
kmod: $(KERNELS:%=kmod-%) ## build the module alone

kmod-%:
	@scripts/build-module $*

clean: ## remove out/
	rm -rf $(OUT)
