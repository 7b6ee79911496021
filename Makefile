# Two commands for a person: `make plan` and `make test`. Both install what is missing, and nothing twice.
SHELL := /bin/bash
VENV := .venv
MODEL ?= wan2.1-t2v-1.3b
SLICE ?= v5e:4x4
export CCACHE_BASEDIR := $(CURDIR)
# A plain `pip install .` needs no ccache; here the package and the tests share compiled files.
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
SOURCES := $(shell find src bindings python profiles cmake -type f -not -name '*_test.cc' -not -path '*/__pycache__/*' 2>/dev/null) \
  CMakeLists.txt pyproject.toml README.md

.PHONY: plan test setup test-cpp test-python test-older asan lint format clean

plan: setup
	$(VENV)/bin/aoizora plan $(MODEL) --slice $(SLICE)

test: setup test-cpp test-python

setup: $(VENV)/.installed

# System packages: only the missing ones, so that a machine that has all needs no root.
build/.packages: packages.apt
	@mkdir -p build
	@scripts/install_packages packages.apt
	@touch $@

$(VENV)/.requirements: requirements.txt
	@test -x $(VENV)/bin/python || "$$(scripts/find_python)" -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed: build/.packages $(VENV)/.requirements $(SOURCES)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .
	@touch $@

test-cpp: setup
	cmake --preset release > build/cmake.log
	cmake --build build/release
	ctest --test-dir build/release --output-on-failure -j2

test-python: setup
	$(VENV)/bin/python -m pytest

# The worker and the calls into JAX, with the older pair of JAX and libtpu.
build/venv-older/.installed: requirements-older.txt
	@test -x build/venv-older/bin/python || "$$(scripts/find_python)" -m venv build/venv-older
	build/venv-older/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-older.txt
	@touch $@

test-older: build/venv-older/.installed
	PYTHONPATH=python build/venv-older/bin/python -m pytest tests/python/test_jaxapi.py tests/python/test_worker.py

asan: setup
	cmake --preset asan > build/cmake-asan.log
	cmake --build build/asan
	ctest --test-dir build/asan --output-on-failure -j2

lint: setup
	scripts/lint

format: setup
	git ls-files '*.cc' '*.h' | xargs -r clang-format-19 -i
	$(VENV)/bin/ruff format python tests scripts
	$(VENV)/bin/ruff check --fix python tests scripts

clean:
	rm -rf build $(VENV)
