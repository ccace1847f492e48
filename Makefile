# Everything needs only make and a Python >= 3.11; the rest goes into $(VENV), once.
PYTHON ?=
VENV ?= .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal
GPU_TESTS = tests/distributions tests/harvest tests/inference tests/language tests/models
EXAMPLES = $(wildcard examples/*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-most test-all test-doors test-gpu bench-gpu fuzz mutants machine-mutants doctest examples docs lint format bench clean
MAKEFLAGS += --no-print-directory

help: ## show this list
	@echo "make TARGET [PYTHON=python3.x] [VENV=.venv]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## sample the posterior of eight schools
	@.ci/venv "$(VENV)" "$(PYTHON)" examples
	@$(BIN)/python examples/eight_schools.py

test: ## run the tests, without the slow ones; with ROOM=marginal those of a folder and its importers
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(PYTEST) $(if $(ROOM),--room $(ROOM))

test-slow: ## run the slow tests alone, without the exhaustive ones
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(PYTEST) -m "slow and not exhaustive"

test-most: ## run what CI runs on the newest JAX: quick tests that look at it, and an eighth of the rest
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(PYTEST) -m "not exhaustive" --sample 8

test-all: ## run all tests
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(PYTEST) -m "slow or not slow"

test-gpu: ## run the tests on an accelerator, which JAX must find
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@JAX_PLATFORMS=cuda,cpu XLA_PYTHON_CLIENT_PREALLOCATE=false $(BIN)/python -m pytest -q \
		--numprocesses auto --maxprocesses 12 --dist worksteal $(GPU_TESTS)

test-doors: VENV = .venv-doors
test-doors: ## run the tests of models of PyMC, which has an environment of its own
	@.ci/venv "$(VENV)" "$(PYTHON)" doors
	@$(BIN)/python -m pytest -q -m "slow or not slow" tests/language/test_from_pymc.py
	@$(BIN)/python -m pytest -q -m "(slow or not slow) and not exhaustive" -k from_pymc \
		tests/joints/test_joints.py

fuzz: ## check random programs, for SECONDS=600 from SEED=1000 on
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1000)

mutants: ## tell which tests notice small wrong changes
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m tests.mutants --jobs $(or $(JOBS),2)

machine-mutants: ## the same for changes that a machine makes; one in SAMPLE=10
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m tests.machine_mutants --suite quick --nearest --jobs $(or $(JOBS),2) --sample $(or $(SAMPLE),10)

doctest: ## run the examples in docstrings and in the README
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m pytest -q --doctest-modules ppl distributions inference tests/test_readme.py

examples: ## run every file in examples/
	@.ci/venv "$(VENV)" "$(PYTHON)" examples
	@set -e; for file in $(EXAMPLES); do echo "== $$file"; $(BIN)/python "$$file"; done

docs: ## build the site of the documentation into build/docs
	@.ci/venv "$(VENV)" "$(PYTHON)" docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --clean

lint: ## check style, formatting and types
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m ruff check --quiet
	@$(BIN)/python -m ruff format --check --quiet
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright --pythonpath $(BIN)/python

format: ## put the code into its format
	@.ci/venv "$(VENV)" "$(PYTHON)" dev
	@$(BIN)/python -m ruff check --quiet --fix
	@$(BIN)/python -m ruff format --quiet

bench: ## run the benchmarks
	@.ci/venv "$(VENV)" "$(PYTHON)" benchmarks
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

bench-gpu: ## measure on an accelerator, which JAX must find; under 9 minutes (80 + 6 x 44 + 6 x 30 s)
	@.ci/venv "$(VENV)" "$(PYTHON)" benchmarks
	@timeout 80 $(BIN)/python benchmarks/gpu_steps.py --chains 4 1024 || test $$? = 124
	@$(BIN)/python benchmarks/gpu.py --models "eight schools" logistic --chains 1024 4096 --repeats 1 --timeout 44
	@$(BIN)/python benchmarks/gpu_svi.py --seconds 30

clean: ## remove the virtual environment and all caches
	@test ! -e "$(VENV)/pyvenv.cfg" || rm -rf "$(VENV)"
	@rm -rf .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
