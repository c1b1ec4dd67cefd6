# Each target makes its own environment; python3, pip, make and git are needed, and for the tests PostgreSQL's programs and Chromium.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The tests start hundreds of processes: without kept bytecode each of them would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo lint types unit quick changed test test-all test-docs test-mlflow test-pythons test-package programs postgres chromium example docs linkcheck validate clean

help:  ## these lines
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-13s %s\n", $$1, $$2 }'

# DEMO=quick leaves the recorded judge out.
demo: $(VENV)/.installed  ## simulated judges, a recorded real one, graders; DEMO=quick
	@case "$(DEMO)" in ""|quick) ;; *) echo "DEMO is quick or nothing, but got: $(DEMO)" >&2; exit 2;; esac
	$(BIN)/jrh demo $(patsubst %,--%,$(filter quick,$(DEMO)))

# Debian's packages come beside those of the index, and mypy works beside the collection of the tests, which uses one core.
test:  ## all that must pass before a merge: the same as CI
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed-dev programs
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --jobs=2 types unit

lint: $(VENV)/.installed-dev  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev  ## mypy --strict
	$(BIN)/mypy --num-workers auto

unit: postgres chromium $(VENV)/.installed-dev  ## pytest with warnings as errors, but for the slow ones
	$(BIN)/python -m pytest -m "not slow"

# One file of every room, those marked `quick`: found before pytest starts, so that no other file is imported.
quick: chromium $(VENV)/.installed-dev  ## one file of every room, in a minute
	$(BIN)/python -m pytest -m "quick and not slow" $$(grep -rl --include='test_*.py' 'mark\.quick' tests)

# Tests of the rooms that differ from BASE, uncommitted files included, and of the rooms that import them (tests/rooms.py).
BASE ?= origin/main
changed: postgres chromium $(VENV)/.installed-dev  ## tests of what differs from origin/main, or BASE=COMMIT
	$(BIN)/python -m pytest -m "not slow" $$($(BIN)/python -m tests.rooms $(BASE))

test-all: postgres chromium $(VENV)/.installed-dev $(VENV)-wrapped/.installed  ## pytest, the slow ones too, and other examples each time
	JRH_TESTS_EXAMPLES=other JRH_TESTS_WRAPPED=$(abspath $(VENV)-wrapped)/bin/python $(BIN)/python -m pytest

test-docs: postgres chromium $(VENV)/.installed-dev  ## every line of the documentation, run as it is printed, and its built pages
	$(BIN)/python -m pytest tests/docs tests/people/test_the_whole.py

# Each in .venv-mlflow-*/; MLFLOW=oldest, newest or a version.
test-mlflow:  ## the tests that touch MLflow, under its oldest and its newest version; MLFLOW=VERSION
	$(PYTHON) -m tests.mlflow_versions $(MLFLOW)

# Each in .venv-python-*/; PYTHONS="3.10 3.13" chooses, TESTS="tests/stats" too.
test-pythons:  ## the tests under every Python that is supported and installed here; PYTHONS="3.10 3.13"
	$(PYTHON) -m tests.python_versions $(PYTHONS)

test-package:  ## build the package, install it from the index into an empty environment, and run the demo there
	$(PYTHON) -m tests.bare_installation

# One after the other: Debian's installer runs once at a time.
programs:
	@$(MAKE) --no-print-directory postgres
	@$(MAKE) --no-print-directory chromium

# The tests start a server of their own (tests/postgres.py). Root, as in CI, gets Debian's package where it is missing.
postgres:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; \
	else \
	  echo "The tests need PostgreSQL's programs: apt-get install postgresql (Debian, Ubuntu), brew install postgresql (macOS)." >&2; \
	  exit 1; \
	fi

# The tests of the review page drive a real browser (tests/review/browser.py).
chromium:
	@if [ -x /usr/bin/chromium ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else \
	  echo "The tests of the review page need Chromium as /usr/bin/chromium: apt-get install chromium (Debian)." >&2; \
	  exit 1; \
	fi

example: $(VENV)/.installed  ## write mlruns_example anew
	$(BIN)/python -m tests.example_store mlruns_example

# Pages without a script, font or picture from outside, in build/docs: open build/docs/index.html. A warning is an error.
docs: $(VENV)/.installed-docs  ## the documentation, into build/docs
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going -q -d build/doctrees -b html docs build/docs
	@echo "build/docs/index.html"

# Links to pages outside, which needs the network; those inside are checked by the tests.
linkcheck: $(VENV)/.installed-docs  ## links of the documentation to other sites
	$(BIN)/python -m sphinx --keep-going -q -d build/doctrees -b linkcheck docs build/linkcheck

# In full, on all cores: minutes. Exit code 1 when an interval covers less than 93 %, or a decision errs too often.
validate: $(VENV)/.installed  ## do intervals and decisions hold on simulated judges? ONLY="agreement corrected"
	$(BIN)/python -m tests.validation $(if $(ONLY),--only $(ONLY))

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m tests.environment $(VENV) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml
	$(PYTHON) -m tests.environment $(VENV) --editable ".[dev]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

# Other libraries' metrics that MLflow wraps, by themselves: they bring plugins for pytest, and older versions of ours.
$(VENV)-wrapped/.installed: pyproject.toml
	$(PYTHON) -m tests.environment $(VENV)-wrapped --editable ".[wrapped]"
	@touch $@

$(VENV)/.installed-docs: pyproject.toml
	$(PYTHON) -m tests.environment $(VENV) --editable ".[docs]"
	@touch $@ $(VENV)/.installed

clean:  ## remove environments, caches and what was built
	rm -rf $(VENV) $(VENV)-wrapped .venv-mlflow-* .venv-python-* demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
