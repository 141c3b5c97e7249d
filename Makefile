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

# Exactly these versions are installed, also where pip builds in an environment of its own. `make lock` writes them.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
# What README's examples use: redaction at full speed, the MCP server, Pydantic AI, the service.
EXTRAS := fast,mcp,agent,serve

.PHONY: run console test test-fast test-full test-lowest check bench docs picture screenshots lock release-check clean

run: $(SHOWN)
	@$(BIN)/handrail tour
	@echo "The web console, with a demo that waits for your answer: make console"

# A demo workspace, a scripted agent that waits for an answer, and the service; prints the link to open.
console: $(SHOWN)
	@$(BIN)/python -m handrail.front.web.demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# The quick loop: pure parts, laws, and one scenario for each front end.
test-fast: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m fast tests/laws tests/fronts/test_scenarios.py \
	  tests/fronts/test_function_calls.py

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
	$(BIN)/python docs/images/rooms.py

# Screenshots of the console from its real pages; needs chromium.
screenshots: $(STAMP)
	$(BIN)/python docs/images/console.py

bench: $(STAMP)
	$(PIP) --group bench
	$(BIN)/python bench/run.py

# Write constraints.txt anew: the newest versions that the ranges of pyproject.toml allow.
COMPILE := $(BIN)/uv pip compile --quiet pyproject.toml --all-extras --universal --python-version 3.11 \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock: $(STAMP)
	env -u PIP_CONSTRAINT $(PIP) --group lock
	$(COMPILE) --upgrade --group dev --group bench --group lock --output-file constraints.txt

# Run the tests with the lowest versions that the ranges allow, in an environment of its own.
test-lowest: $(STAMP)
	$(PIP) --group lock
	$(COMPILE) --resolution lowest-direct --output-file $(VENV)/lowest.txt
	$(BIN)/uv venv --quiet --seed --clear --python $(BIN)/python $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --constraint $(VENV)/lowest.txt --editable '.[all]' --group dev
	$(VENV)-lowest/bin/python -m pytest -p no:anyio -W ignore::DeprecationWarning -n $(JOBS) --dist worksteal

# Build, install the wheel into a fresh environment, run the tour from it, check the metadata. Publishes nothing.
release-check: $(STAMP)
	$(BIN)/python .ci/release_check.py

clean:
	rm -rf $(VENV) $(VENV)-lowest .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

$(SHOWN): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[$(EXTRAS)]'
	@touch $(SHOWN)

$(STAMP): $(SHOWN)
	@echo "Adding what tests need (once; some 500 MB) ..."
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable '.[$(EXTRAS)]' --group dev
	@touch $(STAMP)
