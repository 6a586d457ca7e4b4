# Two commands for a fresh machine: `make demo` and `make test`.
# Settings: make demo PYTHON=python3.12 DEMO_EPOCHS=3

PYTHON ?= python3
VENV ?= .venv
DEMO_EPOCHS ?= 8
DEMO_DIR ?= .demo
DEMO_WORKERS ?= 1
PYTEST_ARGS ?=

BIN = $(VENV)/bin
SOURCES = cython_ext examples graphormer_plugin setup.py tests
# A worker of pytest per core, with one thread each.
PYTEST = OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest -n auto --dist loadgroup

.PHONY: help setup demo test test-quick test-all coverage sanitize soak lint docs clean

help:
	@echo 'make demo        train grpe_small on 5,000 real molecules, test it'
	@echo 'make test        the tests, but those that train for long: four minutes on two cores'
	@echo 'make test-quick  without what trains, reads or writes much: a minute'
	@echo 'make test-all    all tests, as .ci/run and the workflow on GitHub run them'
	@echo 'make coverage    all tests, and the lines that they do not reach'
	@echo 'make sanitize    tests of the kernels, compiled with AddressSanitizer and UBSan (gcc)'
	@echo 'make soak        210 kills, and 100,000 damaged files for every reader: hours'
	@echo 'make lint        ruff, black, the direction of imports, types of the public surface'
	@echo 'make docs        the site in build/docs: README.md, pages and API; checks every link'
	@echo 'make setup       only set up $(VENV), as all of the above do where it is missing:'
	@echo '                 pinned packages, extension, this package'
	@echo 'make clean       remove $(VENV), $(DEMO_DIR) and everything built'
	@echo 'settings         PYTHON=$(PYTHON) (3.11 or newer)  VENV=$(VENV)  DEMO_EPOCHS=$(DEMO_EPOCHS)'
	@echo '                 DEMO_DIR=$(DEMO_DIR)  DEMO_WORKERS=$(DEMO_WORKERS)  PYTEST_ARGS="-k grpe"'

setup:
	@command -v "$(PYTHON)" > /dev/null || { \
	    echo 'no $(PYTHON) here; name a Python of 3.11 or newer: make demo PYTHON=...' >&2; exit 1; }
	@"$(PYTHON)" examples/quickstart/install.py --venv "$(VENV)"

demo: setup
	@"$(BIN)/python" examples/quickstart/demo.py --epochs "$(DEMO_EPOCHS)" \
	    --dir "$(DEMO_DIR)" --workers "$(DEMO_WORKERS)"

test: setup
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-quick: setup
	$(PYTEST) -m "not slow and not long" $(PYTEST_ARGS)

# Ray and Dask, without which the tests of examples/scale are skipped.
ENGINES = "$(BIN)/python" -m pip install --quiet -c constraints.txt 'dask[dataframe]' 'ray[data]'

test-all: setup
	$(ENGINES)
	$(PYTEST) $(PYTEST_ARGS)

coverage: setup
	$(ENGINES)
	$(PYTEST) --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -g1
LIBRARIES = $$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)

# The libraries come first in a process, which libasan demands. Python itself leaks on exit.
sanitize: setup
	CC=gcc CFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" GRAPHORMER_ALLOW_ISOLATION=1 \
	    "$(BIN)/python" setup.py -q build --build-base build/sanitize --build-lib build/sanitize/lib
	LD_PRELOAD="$(LIBRARIES)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	    OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest -q \
	    -o pythonpath="build/sanitize/lib . examples tests" tests/cython_ext $(PYTEST_ARGS)

soak: setup
	OMP_NUM_THREADS=1 "$(BIN)/python" tests/soak/kills.py
	OMP_NUM_THREADS=1 "$(BIN)/python" tests/soak/fuzz.py
	OMP_NUM_THREADS=1 FUZZ_EXAMPLES=12500 "$(BIN)/python" -m pytest -q tests/cython_ext/test_fuzz.py

lint: setup
	"$(BIN)/ruff" check $(SOURCES)
	"$(BIN)/black" --check --quiet $(SOURCES)
	"$(BIN)/lint-imports" --no-logo --cache-dir build/import-linter
	"$(BIN)/mypy" --no-error-summary --cache-dir build/mypy

# Links and anchors that lead nowhere are warnings, and a warning is an error.
docs: setup
	"$(BIN)/python" -m pip install --quiet -c constraints.txt mkdocs-material 'mkdocstrings[python]'
	NO_MKDOCS_2_WARNING=1 "$(BIN)/python" -m mkdocs build --config-file .ci/mkdocs.yml

clean:
	rm -rf "$(VENV)" "$(VENV).lock" "$(DEMO_DIR)" build dist *.egg-info
	rm -f cython_ext/*.so cython_ext/*.pyd cython_ext/*.c cython_ext/*.cpp
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
