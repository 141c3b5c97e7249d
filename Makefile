# Two commands matter: `make run` and `make test`. Each sets up what it needs, in either order.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHOWN := $(VENV)/.run
STAMP := $(VENV)/.ready
# One more than there are processors: some tests wait for something else.
JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)))

# Many tests start processes: each would compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-full check bench docs picture clean

run: $(SHOWN)
	@$(BIN)/handrail tour

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-full: $(STAMP)
	HANDRAIL_TEST_SCALE=20 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m handrail.front.reference --check docs/reference
	$(BIN)/python -m pytest -q tests/laws/test_architecture.py

docs: $(STAMP)
	$(BIN)/python -m handrail.front.reference --write docs/reference

picture: $(STAMP)
	$(BIN)/python docs/images/make.py

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

$(SHOWN): pyproject.toml
	@echo "Setting up $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast]'
	@touch $(SHOWN)

$(STAMP): $(SHOWN)
	@echo "Adding what tests need (once; some 500 MB) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast]' --group dev
	@touch $(STAMP)
