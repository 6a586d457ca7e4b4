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

.PHONY: help setup demo test lint docs clean

help:
	@echo 'make demo    set up $(VENV) if needed, train grpe_small on 5,000 real molecules, test it'
	@echo 'make test    set up $(VENV) if needed, run the test suite'
	@echo 'make setup   only set up $(VENV): pinned packages, extension, this package'
	@echo 'make lint    ruff and black, as checks'
	@echo 'make docs    the site in build/docs: README.md, pages and API; checks every link'
	@echo 'make clean   remove $(VENV), $(DEMO_DIR) and everything built'
	@echo 'settings     PYTHON=$(PYTHON) (3.11 or newer)  VENV=$(VENV)  DEMO_EPOCHS=$(DEMO_EPOCHS)'
	@echo '             DEMO_DIR=$(DEMO_DIR)  DEMO_WORKERS=$(DEMO_WORKERS)  PYTEST_ARGS="-k grpe"'

setup:
	@command -v "$(PYTHON)" > /dev/null || { \
	    echo 'no $(PYTHON) here; name a Python of 3.11 or newer: make demo PYTHON=...' >&2; exit 1; }
	@"$(PYTHON)" examples/quickstart/install.py --venv "$(VENV)"

demo: setup
	@"$(BIN)/python" examples/quickstart/demo.py --epochs "$(DEMO_EPOCHS)" \
	    --dir "$(DEMO_DIR)" --workers "$(DEMO_WORKERS)"

test: setup
	"$(BIN)/python" -m pytest $(PYTEST_ARGS)

lint: setup
	"$(BIN)/ruff" check $(SOURCES)
	"$(BIN)/black" --check --quiet $(SOURCES)

# Links and anchors that lead nowhere are warnings, and a warning is an error.
docs: setup
	"$(BIN)/python" -m pip install --quiet -c constraints.txt mkdocs-material 'mkdocstrings[python]'
	NO_MKDOCS_2_WARNING=1 "$(BIN)/python" -m mkdocs build --config-file .ci/mkdocs.yml

clean:
	rm -rf "$(VENV)" "$(VENV).lock" "$(DEMO_DIR)" build dist *.egg-info
	rm -f cython_ext/*.so cython_ext/*.pyd cython_ext/*.c cython_ext/*.cpp
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
