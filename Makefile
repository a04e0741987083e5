# make run | test | check | bench | build | sanitize | fuzz: each makes what it needs first. Only
# python3 >= 3.11, a C compiler and make must be there; cmake and ninja come as wheels.
#
# Everything is installed into .venv as a user would install it, never in place. A stamp in .venv
# says what is up to date; build/ keeps the objects, so that only what changed is compiled again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-build-isolation --no-deps

# What the installed package is made of; folders too, so that a file that goes is noticed.
SOURCES := pyproject.toml CMakeLists.txt \
	$(shell find src \( -name __pycache__ -o -name '*.so' \) -prune -o -print)

, := ,
# requirements(EXPRESSION): lists of pyproject.toml, the only place with versions; where users get a
# range, what the group `exact` has of it.
requirements = $(shell $(PYTHON) -c 'import re, tomllib; \
	of = tomllib.load(open("pyproject.toml", "rb")); \
	project, extra = of["project"], of["project"]["optional-dependencies"]; \
	exact = {each.split("==")[0]: each for each in of["dependency-groups"]["exact"]}; \
	print(*(exact.get(re.match("[a-zA-Z0-9_-]+", each)[0], each) for each in $(1)))')

.PHONY: run build test check bench bench-codec bench-compaction bench-coordinators bench-groups bench-growth bench-turns \
	bench-guard bench-programs \
	bench-spark bench-storage sanitize fuzz mutants clean
.DELETE_ON_ERROR:

run: build
	$(BIN)/broker start --data-dir data

build: $(VENV)/.built

$(VENV)/.tools: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install $(call requirements,of["build-system"]["requires"] + project["dependencies"])
	touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(INSTALL) --config-settings=build-dir=build/release .
	touch $@

$(VENV)/.test: $(VENV)/.tools
	$(PIP) install $(call requirements,[each for name in ("codec"$(,) "plot"$(,) "spark"$(,) "test") \
		for each in extra[name] if not each.startswith("polylog")])
	touch $@

$(VENV)/.fuzz: $(VENV)/.test
	$(PIP) install $(call requirements,extra["fuzz"])
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) install $(call requirements,extra["bench"])
	touch $@

$(VENV)/.check: $(VENV)/.bench
	$(PIP) install $(call requirements,extra["check"])
	touch $@

test: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m pytest $(TEST)

# Lint, format, layers, types, and the stubs against the installed modules. Our own C has been
# compiled with warnings as errors by the build.
check: export PATH := $(CURDIR)/$(BIN):$(PATH)
check: $(VENV)/.check $(VENV)/.built
	ruff check
	ruff format --check
	cython-lint src/_native
	PYTHONPATH=src lint-imports
	mypy
	mypy tests benchmarks
	python -m mypy.stubtest broker._native --mypy-config-file pyproject.toml

# What benchmarks/ compiles, built apart so that nobody else waits for it.
bench-programs: $(VENV)/.built
	mkdir -p build
	$(BIN)/cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DBROKER_BENCHMARKS=ON \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DCMAKE_MODULE_PATH=$(wildcard $(CURDIR)/$(VENV)/lib/python*/site-packages/cython_cmake/cmake) \
		>build/bench.log
	$(BIN)/cmake --build build/bench --target load floor storage_loops >>build/bench.log

# Drives a real broker process. BENCH='--help' says what it takes.
bench: bench-programs
	$(BIN)/python -m benchmarks.end_to_end.bench $(BENCH)

# How costs grow from 10 to 10,000 partitions; BENCH='10 100' measures other sizes.
bench-growth: $(VENV)/.built
	$(BIN)/python -m benchmarks.end_to_end.growth $(BENCH)

# Joins, loads and expiry of groups, and the longest turn of the loop; no process, no sockets.
bench-groups: $(VENV)/.built
	$(BIN)/python -m benchmarks.groups.bench

# The longest turn of the loop that each long request takes; no process, no sockets.
bench-turns: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.turns.bench $(BENCH)

# What groups and transactions cost; BENCH='--help'.
bench-coordinators: bench-programs
	$(BIN)/python -m benchmarks.end_to_end.coordinators $(BENCH)

# The codec beside its peers, CPU time, a table per row; BENCH='-k arrow' runs some of it.
bench-codec: $(VENV)/.bench $(VENV)/.built
	$(BIN)/python -m pytest benchmarks/codec -o python_files='bench_*.py' --timeout=0 \
		--benchmark-timer=time.process_time --benchmark-min-time=0.001 --benchmark-group-by=group --benchmark-sort=min \
		--benchmark-columns=min,median,rounds --benchmark-json=build/bench-codec.json $(BENCH)
	$(BIN)/python -m benchmarks.codec.ratios build/bench-codec.json

# Compaction of a log: its kernel beside memcpy + CRC, and the whole process; BENCH='--help'.
bench-compaction: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.storage.compaction $(BENCH)

# Appends, lookups and retention beside what the machine can do; BENCH='--help' says what it takes.
bench-storage: bench-programs
	$(BIN)/python -m benchmarks.storage.bench $(BENCH)

# Topics in Spark beside what Spark itself can take; BENCH='--help' says what it takes.
bench-spark: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.spark.bench $(BENCH)

# Instructions of a few kernels against the checked-in table, by callgrind; GUARD=--update writes it.
bench-guard: $(VENV)/.bench $(VENV)/.built
	$(BIN)/python -m benchmarks.guard.guard $(GUARD)

# The native tests on a build that stops at the first bad access or undefined operation. What the
# sanitizers say goes to the terminal: pytest's usual capture would end with the process.
sanitize: $(VENV)/.test
	$(INSTALL) --upgrade --target build/sanitized --config-settings=build-dir=build/sanitize \
		--config-settings=cmake.build-type=Debug --config-settings=cmake.define.BROKER_SANITIZE=ON .
	PYTHONPATH=build/sanitized LD_PRELOAD=$$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
		$(BIN)/python -m pytest --capture=sys $(or $(TEST),tests/native)

# The codec under libFuzzer and the sanitizers; it comes in a wheel, so the compiler may be gcc.
# FUZZ='--help' says what it takes.
fuzz: $(VENV)/.fuzz $(VENV)/.built
	$(INSTALL) --upgrade --target build/fuzz/package --config-settings=build-dir=build/fuzz/objects \
		--config-settings=cmake.build-type=Debug --config-settings=cmake.define.BROKER_FUZZ=ON .
	$(BIN)/python -m tests.fuzz.run $(FUZZ)

# Small changes of the source that a test should notice, a sample; MUTANTS='--help'.
mutants: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m tests.mutations.run $(MUTANTS)

clean:
	rm -rf build dist $(VENV)
	find src benchmarks -name '*.so' -delete
