# Everything that a checkout can do. `make` alone starts the gateway.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TESTS  ?= tests
ARGS   ?=

export GATEPOST_VENV := $(abspath $(VENV))

.DEFAULT_GOAL := run
.PHONY: help python setup setup-test run test test-all bare conformance check format prove bench bench-against trace-message docs site screenshots grades grades-of-agents lock audit release clean

help:  ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' $(MAKEFILE_LIST) | expand -t 18

setup: python  ## make .venv with the gatepost command in it
	@$(PYTHON) scripts/bootstrap.py run

setup-test: python
	@$(PYTHON) scripts/bootstrap.py test
	@NO_SYSTEM=$(NO_SYSTEM) $(BIN)/python scripts/system_packages.py

python:
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON); install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }

run: setup  ## start the gateway and print its address (HOME_DIR=… keeps its data elsewhere)
	@exec $(BIN)/gatepost up $(if $(HOME_DIR),--home "$(HOME_DIR)") $(ARGS)

# Tests wait as much as they work, so there are two workers a core. They begin with a part each, so that a file's tests
# mostly share what they share (a browser, a daemon), and steal from each other when done.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(8, 2 * (os.cpu_count() or 1)))" 2>/dev/null || echo 2)

# A process must not compile what the one before it compiled; empty is as good as unset to Python.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: setup-test  ## run the tests (TESTS=tests/store, ARGS="-k ledger"; NO_SYSTEM=1: install no system packages)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not alone" $(TESTS) $(ARGS)

# Storms of several gateways are judged by the seconds: they come last, one after another. 5: none of the tests are of
# that kind, which is well unless it is so of both.
test-all: setup-test  ## and those that take long
	@$(PYTHON) scripts/bootstrap.py all
	@NO_SYSTEM=$(NO_SYSTEM) $(BIN)/python scripts/system_packages.py --all
	@export NEW_EXAMPLES=1 GATEPOST_TEST_PICTURES=tests/artifacts; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone" $(TESTS) $(ARGS); beside=$$?; \
	$(BIN)/python -m pytest -m alone $(TESTS) $(ARGS); alone=$$?; \
	case $$beside-$$alone in 0-0|0-5|5-0) ;; *) exit 1 ;; esac

bare: python  ## the whole way on a bare Debian, as root and as a user (root only; ARGS=user, NO_TESTS=1)
	@scripts/bare_debian.sh $(ARGS)

conformance: setup-test  ## the official suite of MCP against our Streamable HTTP
	@$(BIN)/python scripts/conformance.py

check: setup-test  ## format, lint, types, imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@for each in examples/*/run.py; do MYPYPATH=src:testing:examples $(BIN)/mypy --no-error-summary $$each || exit 1; done
	@$(BIN)/lint-imports

format: setup-test  ## bring the source into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

prove: setup-test  ## run the storms in whole size, a line each (ARGS="--mode gateways --seed 7 --only zombie", or --mode edges)
	@$(BIN)/python -m gatepost_testing.storms.prove $(ARGS)

bench: setup-test  ## measure, each figure beside its limit
	@$(BIN)/python bench/run.py $(ARGS)

bench-against: setup-test  ## measure the hot paths of commit REF and of this tree, in turn
	@$(BIN)/python bench/compare.py $(REF)

trace-message: setup-test  ## how far one warm message travels: files, functions and changes of file (ARGS=--steps: each call)
	@$(BIN)/python scripts/trace_message.py $(ARGS)

docs: setup-test  ## print the pages that come from code
	@$(BIN)/python scripts/print_docs.py

site: python  ## make the documentation a site that can be searched, in site/
	@$(PYTHON) scripts/bootstrap.py site
	@$(BIN)/python scripts/build_site.py $(ARGS)

screenshots: setup-test  ## every page in light, dark and phone size, into docs/screenshots
	@$(BIN)/python scripts/screenshots.py $(ARGS)

grades: setup-test  ## grade every channel by the suite (ARGS="telegram slack": only these), then print the pages
	@$(BIN)/python scripts/channel_tables.py $(ARGS)
	@$(BIN)/python scripts/print_docs.py

grades-of-agents: setup-test  ## grade every provider with its real program (ARGS="claude codex": only these), then print the pages
	@$(BIN)/python scripts/agent_tables.py $(ARGS)
	@$(BIN)/python scripts/print_docs.py

lock: setup-test  ## compile the locks anew (ARGS=--keep: only what is new)
	@$(BIN)/python -m pip install --quiet pip-tools
	@$(BIN)/python scripts/lock.py $(ARGS)

audit: setup-test  ## look up the locked packages among known vulnerabilities, where a list of them can be reached
	@$(BIN)/python scripts/audit.py

release: setup-test  ## make a release: VERSION=X.Y.Z (commit, tag, dist; nothing is pushed)
	@$(BIN)/python scripts/release.py "$(VERSION)"

clean:  ## remove what these commands made, never a home
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
