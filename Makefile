# Two commands on a fresh clone: `make train` and `make test`. Everything is installed into .venv from requirements.lock.
# `make train` takes AGENT, ENV, SEEDS, RUNS and, for any other option of `fqf train`, ARGS="--overwrite ...".
PYTHON ?= python3
AGENT ?= fqf
ENV ?= classic/cartpole
SEEDS ?= 1
RUNS ?= runs
ARGS ?=

BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: setup train test test-slow chaos bench format lock clean

setup: $(INSTALLED)

# The lock is the whole closure, so pip has nothing to resolve (--no-deps); left to resolve, pip 23 meets `etils[epath]` of
# orbax, asks for the newest etils in place of the locked one, and refuses it for want of a hash.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "fqf needs Python 3.11 to 3.13; say which with: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@test -x $(BIN)/python || { echo "creating the virtual environment in .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing the locked dependencies (about 1 GB, a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(INSTALLED)

train: setup
	@$(BIN)/fqf train --agent $(AGENT) --env $(ENV) --seeds $(SEEDS) --runs $(RUNS) $(ARGS)

test: setup
	$(BIN)/ruff format --check src tests studies bench
	$(BIN)/ruff check src tests studies bench
	$(BIN)/mypy
	$(BIN)/pytest --quiet -n 2

test-slow: setup
	$(BIN)/pytest --quiet -m slow --durations=10

# Hours: kills and resumes runs of every agent, and compares what is left. Can itself be stopped and started again.
chaos: setup
	$(BIN)/python tests/faults/chaos.py

# Speed beside Tianshou and sb3-contrib, which live in a virtual environment of their own.
bench: setup bench/.venv/.installed
	$(BIN)/python bench/run.py

bench/.venv/.installed: bench/peers.txt
	@echo "installing the peers, PyTorch among them, into bench/.venv (some minutes)"
	@$(PYTHON) -m venv bench/.venv
	@bench/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r bench/peers.txt
	@touch $@

format: setup
	$(BIN)/ruff format src tests studies bench
	$(BIN)/ruff check --fix src tests studies bench

# Needs uv; pins with hashes for Linux and macOS, Python 3.11 to 3.13, and writes no download address.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --extra dev \
	  --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
