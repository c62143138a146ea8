# SPDX-License-Identifier: GPL-2.0-only
DURATION ?= 600
REPORT ?= results/soak.md
LISTS := $(wildcard lab/packages.txt tests/packages.txt)

help:
	@echo 'make demo             packages, kernel, lab, a first comparison, table and report'
	@echo 'make test             everything that CI checks; ends with N passed, N failed'
	@echo 'make soak DURATION=N  the long checks, about N seconds for each; $(DURATION) by default;'
	@echo '                      what ran and what it found is in $(REPORT)'
	@echo 'make deps             install the Debian packages that are missing'
	@echo 'make lint             ruff and mypy only'
	@echo 'make speed            seconds of one core for a busy second of a CPU in virtual time'
	@echo './pvsync --help       everything else: build, list, run, replay, report, top, shell, series'

deps:
	@lab/deps.sh $(LISTS)

demo:
	@lab/deps.sh lab/packages.txt
	@./pvsync build
	@./pvsync run demo

test: deps
	@venv=$$(PVSYNC_DEV=1 ./pvsync venv) && "$$venv/bin/python" -m tests.run_all

soak: LISTS += tests/soak-packages.txt
soak: deps
	@venv=$$(PVSYNC_DEV=1 ./pvsync venv) && "$$venv/bin/python" -m tests.run_all --soak $(DURATION) --report $(REPORT)

lint: deps
	@venv=$$(PVSYNC_DEV=1 ./pvsync venv) && "$$venv/bin/python" -m tests.run_all --only ruff,mypy

speed: deps
	@venv=$$(PVSYNC_DEV=1 ./pvsync venv) && "$$venv/bin/python" -m tests.speed

.PHONY: help deps demo test soak lint speed
