# make run | test | check | bench | build: each makes what it needs first. Only python3 >= 3.11,
# a C compiler and make must be there; cmake and ninja come as wheels.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
NATIVE := pyproject.toml CMakeLists.txt $(shell find src/_native -type f)

.PHONY: run build test check bench clean

run: build
	$(BIN)/broker start --data-dir data

build: $(VENV)/.built

$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "scikit-build-core==1.1.2" "cython==3.3.1" "cython-cmake==0.3.0" "cmake==4.4.4" "ninja==1.13.2"
	touch $@

# Installed in place: Python edits need no build, native edits compile what they touch.
$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	$(PIP) install --no-build-isolation --editable .
	touch $@

$(VENV)/.test: $(VENV)/.built
	$(PIP) install --no-build-isolation --editable ".[test]"
	touch $@

$(VENV)/.check: $(VENV)/.test
	$(PIP) install --no-build-isolation --editable ".[test,check]"
	touch $@

test: $(VENV)/.test
	$(BIN)/python -m pytest tests

# The programs that drive a real broker process, built apart so that nobody else waits for them.
# BENCH='--help' says what it takes.
bench: build
	$(BIN)/cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DBROKER_BENCHMARKS=ON \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DCMAKE_MODULE_PATH=$(wildcard $(CURDIR)/$(VENV)/lib/python*/site-packages/cython_cmake/cmake) \
		>build/bench.log
	$(BIN)/cmake --build build/bench --target load floor >>build/bench.log
	$(BIN)/python -m benchmarks.end_to_end.bench $(BENCH)

clean:
	rm -rf build dist $(VENV)
	find src -name '*.so' -delete
