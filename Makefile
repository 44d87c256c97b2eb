# Everything a checkout needs, with Python >= 3.11, make and pip; no compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run test bench clean

help:  ## Show these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run  ## Build, lower, check and run an example kernel on four simulated ranks
	$(BIN)/nkicc run examples/all_reduce.py --ranks 4

test: $(VENV)/.test  ## Lint, type-check and run the whole test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest -n auto

bench: $(VENV)/.run  ## Measure the builders, the collectives and the simulator against NumPy
	$(BIN)/python benchmarks/collectives.py

clean:  ## Remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian splits ensurepip from venv; the pip of $(PYTHON) then installs one into the environment.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "nkicc needs Python 3.11 or later; name one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
		|| { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; }

$(VENV)/.run: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@ $(VENV)/.run
