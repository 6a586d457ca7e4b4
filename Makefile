# Two commands for a fresh machine: `make demo` and `make test`.
# Settings: make demo PYTHON=python3.12 DEMO_EPOCHS=3

PYTHON ?= python3
VENV ?= .venv
DEMO_EPOCHS ?= 8
DEMO_DIR ?= .demo
DEMO_WORKERS ?= 1
PYTEST_ARGS ?=
NIGHTLY ?= test-all test-portable test-fallback sanitize
JAVA ?= $(shell command -v java)

BIN = $(VENV)/bin
SOURCES = cython_ext examples graphormer_plugin setup.py tests
# A worker of pytest per core, with one thread each.
PYTEST = OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest -n auto --dist loadgroup

# Set-up compiles no package: the first process that imports one does, for all others.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-quick test-all nightly test-portable test-fallback coverage \
    sanitize lint docs clean

help:
	@echo 'make demo        train grpe_small on 5,000 real molecules, test it'
	@echo 'make test        the tests without the slow ones: four minutes on two cores'
	@echo 'make nightly     all that `.ci/run` leaves out: slow tests with Ray, Dask, ONNX, FastAPI,'
	@echo '                 Lightning and, where java is, Spark; test-portable, test-fallback, sanitize'
	@echo 'make test-quick  the tests without trainings, processes and large files: a minute'
	@echo 'make test-all    all tests'
	@echo 'make coverage    all tests, and the lines that they do not reach'
	@echo 'make lint        ruff, black, the direction of imports, types of the public surface'
	@echo 'make docs        the site in build/docs: README.md, pages and API; checks every link'
	@echo 'make test-portable  kernels, modules and models with the vector instructions of older'
	@echo '                 processors; where qemu-x86_64 is installed, the kernels on two of them'
	@echo 'make test-fallback  tests of the trainer with fairseq-fixed, compiled once'
	@echo 'make sanitize    tests of the kernels, compiled with AddressSanitizer and UBSan (gcc)'
	@echo 'make setup       only set up $(VENV): this package, its kernels, pinned packages; the'
	@echo '                 others add the packages that they need'
	@echo 'make clean       remove $(VENV), $(DEMO_DIR) and everything built'
	@echo 'settings         PYTHON=$(PYTHON) (3.11 or newer)  VENV=$(VENV)  DEMO_EPOCHS=$(DEMO_EPOCHS)'
	@echo '                 DEMO_DIR=$(DEMO_DIR)  DEMO_WORKERS=$(DEMO_WORKERS)  PYTEST_ARGS="-k grpe"'

# Extras of pyproject.toml that a target needs beside the package.
EXTRAS_test = test
EXTRAS_test-quick = test
EXTRAS_test-all = test engines integrations onnx $(if $(JAVA),spark)
EXTRAS_nightly = $(EXTRAS_test-all)
EXTRAS_test-portable = test
EXTRAS_test-fallback = test
EXTRAS_coverage = $(EXTRAS_test-all)
EXTRAS_sanitize = test
EXTRAS_lint = lint
EXTRAS_docs = docs
EXTRAS = $(sort $(foreach goal,$(MAKECMDGOALS),$(EXTRAS_$(goal))))

setup:
	@command -v "$(PYTHON)" > /dev/null || { \
	    echo 'no $(PYTHON) here; name a Python of 3.11 or newer: make demo PYTHON=...' >&2; exit 1; }
	@"$(PYTHON)" examples/quickstart/install.py --venv "$(VENV)" --extras $(EXTRAS)

demo: setup
	@"$(BIN)/python" examples/quickstart/demo.py --epochs "$(DEMO_EPOCHS)" \
	    --dir "$(DEMO_DIR)" --workers "$(DEMO_WORKERS)"

test: setup
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-quick: setup
	$(PYTEST) -m "not slow and not long" $(PYTEST_ARGS)

test-all: setup
	$(PYTEST) $(PYTEST_ARGS)

nightly:
	$(MAKE) EXTRAS="$(EXTRAS)" $(NIGHTLY)

coverage: setup
	$(PYTEST) --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

NUMERIC = tests/cython_ext tests/modules tests/models
QEMU = $(shell command -v qemu-x86_64)

# The emulator ends where a child is forked beside threads, and where a masked load of AVX2
# touches the end of mapped memory (numpy's sort, torch): these stay at SSE4. A BLAS that is
# told its processor by the environment would not look at the emulated one.
EMULATED = env -u OPENBLAS_CORETYPE OMP_NUM_THREADS=1 NPY_DISABLE_CPU_FEATURES=X86_V3 \
    ATEN_CPU_CAPABILITY=default "$(QEMU)" -cpu

# torch, MKL and oneDNN as on a processor without vectors beyond SSE4, and with AVX2. The
# kernels of cython_ext on processors without AVX (Nehalem) and without AVX-512.
test-portable: setup
	ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
	    $(PYTEST) $(NUMERIC) $(PYTEST_ARGS)
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 \
	    $(PYTEST) $(NUMERIC) $(PYTEST_ARGS)
ifeq ($(QEMU),)
	@echo 'no qemu-x86_64 here (Debian: apt install qemu-user): kernels not run on old processors'
else
	$(foreach cpu,Nehalem Haswell,$(EMULATED) $(cpu) "$(BIN)/python" -m pytest -q \
	    -p no:cacheprovider --deselect tests/cython_ext/test_batch.py::test_works_in_a_forked_child \
	    tests/cython_ext $(PYTEST_ARGS) & $(cpu)=$$! ;) wait $$Nehalem && wait $$Haswell
endif

# fairseq-fixed, which other platforms have, in place of the installed one; by its hashes,
# without the marker that leaves it out here.
FIXED = $(shell grep ^fairseq-fixed constraints.txt)
FALLBACK = $(CURDIR)/build/$(FIXED)-$(shell "$(PYTHON)" -c 'import sys; print(sys.hexversion)')
ifeq ($(shell "$(PYTHON)" -c 'import sys; print(sys.version_info >= (3, 13))'),True)
test-fallback: setup
	@echo 'Python 3.13: fairseq-fixed is installed anyway, all tests run with it'
else
test-fallback: setup
	test -d "$(FALLBACK)" || { mkdir -p build && \
	    sed -n '/^fairseq-fixed/,$$ s/;.*\\/\\/p; /^fairseq-fixed/,$$ {/--hash/p}' \
	        examples/installation/fairseq.txt > build/fairseq-fixed.txt && \
	    env -u CUDA_HOME "$(BIN)/python" -m pip install --quiet --no-deps --no-build-isolation \
	        --require-hashes --target "$(FALLBACK)" -r build/fairseq-fixed.txt; }
	PYTHONPATH="$(FALLBACK)" $(PYTEST) tests/tasks tests/optim tests/criterions tests/compat \
	    tests/finetune/test_training.py tests/test_end_to_end.py $(PYTEST_ARGS)
endif

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -g1
LIBRARIES = $$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)

# The libraries come first in a process, which libasan demands. Python itself leaks on exit.
sanitize: setup
	CC=gcc CFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" \
	    "$(BIN)/python" setup.py -q build --build-base build/sanitize --build-lib build/sanitize/lib
	LD_PRELOAD="$(LIBRARIES)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	    OMP_NUM_THREADS=1 "$(BIN)/python" -m pytest -q \
	    -o pythonpath="build/sanitize/lib . examples tests" tests/cython_ext $(PYTEST_ARGS)

lint: setup
	"$(BIN)/ruff" check $(SOURCES)
	"$(BIN)/black" --check --quiet $(SOURCES)
	"$(BIN)/lint-imports" --no-logo --cache-dir build/import-linter
	"$(BIN)/mypy" --no-error-summary --cache-dir build/mypy

# Links and anchors that lead nowhere are warnings, and a warning is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 "$(BIN)/python" -m mkdocs build --config-file .ci/mkdocs.yml

clean:
	rm -rf "$(VENV)" "$(VENV).lock" "$(DEMO_DIR)" build dist *.egg-info
	rm -f cython_ext/*.so cython_ext/*.pyd cython_ext/*.c cython_ext/*.cpp
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
