# `make demo` and `make test` are the two commands of the README. Each sets up first, which is quick once it is done.
#
#   PYTHON=python3.12   the interpreter that makes the environment, 3.11 or newer
#   VENV=/tmp/venv      where the environment lies
#   TORCH_INDEX=URL     a further package index to find PyTorch in, for instance the one of its CPU builds
#   ARGS='...'          more arguments for demo, test, test-full and bench
#   JOBS=2              processes that run tests
#   V=1                 show what pip does

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
ARGS ?=
JOBS ?= 2

BIN := $(VENV)/bin
READY := $(VENV)/.ready
STUBS := foreword/v1/.fresh
BASELINE := protos/baseline.binpb
PIP := $(BIN)/python -m pip --disable-pip-version-check $(if $(V),,-qq) install --constraint constraints.txt

.PHONY: help setup demo test test-full lint lint-python lint-types lint-protos lint-arrows proto baseline bench gpu-check clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile

setup: $(READY) $(STUBS) ## make the environment
	@:

$(READY): pyproject.toml constraints.txt hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "PYTHON: got $(PYTHON), wanted the name of a Python that is 3.11 or newer" >&2; exit 1; }
	@echo "Setting up $(VENV); the first time this takes some minutes (V=1 shows what happens)."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) --build-constraint constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
		--editable '.[all]' --group dev
	@touch $@

# Installing writes them too; this is for protos that change later.
$(STUBS): $(READY) $(shell find protos -name '*.proto')
	@$(BIN)/python hatch_build.py
	@touch $@

proto: ## write the stubs again
	@rm -f $(STUBS)
	@$(MAKE) --no-print-directory $(STUBS)

demo: setup ## fetch the model, start everything on this machine, and compare with plain decoding
	@$(BIN)/foreword demo $(ARGS)

test: lint ## lint, then the default tests
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile \
		-o faulthandler_timeout=1800 -o faulthandler_exit_on_timeout=true $(ARGS)

test-full: lint ## lint, then all tests: long studies and real weights too, which are fetched first
	@$(BIN)/foreword models fetch
	@$(BIN)/python -m pytest -m '' --timeout 3600 --hypothesis-profile=search $(ARGS)

gpu-check: setup ## check and time what only a GPU can, in under five minutes
	@$(BIN)/python -m scripts.gpu_check $(ARGS)

lint: lint-python lint-protos lint-arrows lint-types ## all checks that run no test; with -k past the first failure

lint-python: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

lint-types: setup
	@$(BIN)/mypy

lint-protos: setup
	@$(BIN)/buf lint protos
	@$(BIN)/buf format protos --diff --exit-code
	@$(BIN)/buf breaking protos --against $(BASELINE)

lint-arrows: setup
	@$(BIN)/python -m scripts.architecture

baseline: setup ## take the contract as it is for the one that later changes are checked against
	@$(BIN)/buf build protos --exclude-source-info --output $(BASELINE)

bench: setup ## what the servers add to a round
	@$(BIN)/foreword bench overhead $(ARGS)

clean: ## remove what was built, but not the environment
	@rm -rf build dist foreword/v1 .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
