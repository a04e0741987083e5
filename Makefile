# make run | test | check | bench | build | wheels | sanitize | fuzz: each installs its requirements first. Only
# python3 >= 3.11, a C compiler and make must be installed; cmake and ninja are installed as wheels.
#
# The package is installed into .venv as by a user, never in place. Stamp files in .venv record what
# is up to date; build/ keeps object files, so that only changed files are compiled.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-build-isolation --no-deps

# The sources of the package, with folders, so that a deleted file causes a rebuild.
SOURCES := pyproject.toml CMakeLists.txt tools/index_readme.py NOTICE $(wildcard *.md) \
	$(shell find docs -name '*.md') $(shell find src \( -name __pycache__ -o -name '*.so' \) -prune -o -print)

, := ,
# requirements(EXPRESSION): requirements in pyproject.toml, the only file with versions; those with a
# range are replaced by the exact versions in the group `exact`.
requirements = $(shell $(PYTHON) -c 'import re, tomllib; \
	of = tomllib.load(open("pyproject.toml", "rb")); \
	project, extra = of["project"], of["project"]["optional-dependencies"]; group = of["dependency-groups"]; \
	exact = {each.split("==")[0]: each for each in group["exact"]}; \
	print(*(exact.get(re.match("[a-zA-Z0-9_-]+", each)[0], each) for each in $(1)))')

SUITE ?= broker
SUITES := acls broker cli codec compaction coordinators groups growth guard metadata spark storage streams tls turns

.PHONY: run build etcd test test-quick check bench bench-programs $(SUITES:%=bench-%) sanitize fuzz mutants wheels clean
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
	$(PIP) install $(call requirements,[each for some in extra.values() for each in some if not each.startswith("polylog")] + group["test"])
	touch $@

$(VENV)/.fuzz: $(VENV)/.test
	$(PIP) install $(call requirements,group["fuzz"])
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) install $(call requirements,group["bench"])
	touch $@

$(VENV)/.check: $(VENV)/.bench
	$(PIP) install $(call requirements,group["check"])
	touch $@

# Python keeps what it has compiled of the tests, whatever the environment says: it takes three times
# as long to compile them as to collect them.
test test-quick: export PYTHONDONTWRITEBYTECODE :=

# Many tests wait for a process or a session: there are two workers more than cores. At most four,
# because each may hold a Spark session (1 GiB). WORKERS=0: no other process, for a debugger.
CORES := $(shell nproc)
WORKERS ?= $(shell echo $$(($(CORES) < 2 ? $(CORES) + 2 : 4)))
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# etcd, for the tests of a cluster's metadata store. Debian's program is taken out of its package,
# because installing the package would start a server. Without etcd those tests are skipped.
ETCD ?= etcd
etcd: $(VENV)/.tools
	@command -v $(ETCD) >/dev/null || test -x $(BIN)/etcd || { test "$$(id -u)" = 0 \
		&& command -v apt-get dpkg >/dev/null && mkdir -p build/etcd && cd build/etcd \
		&& { timeout 60 apt-get -qq download etcd-server 2>/dev/null || { timeout 120 apt-get -qq update \
		&& timeout 60 apt-get -qq download etcd-server; }; } && dpkg -x etcd-server_*.deb . \
		&& install usr/bin/etcd $(CURDIR)/$(BIN)/etcd; } \
		|| echo "etcd cannot be installed (Debian: etcd-server): its tests are skipped"

test: $(VENV)/.test $(VENV)/.built etcd
	$(PYTEST) $(TEST)

# What a developer runs at each commit: no client programs, no JVM, small samples, also of the cases
# of tests that have very many, no faults planted to test the tests, no builds. These tests compute: a
# worker for each core.
test-quick: WORKERS = $(CORES)
test-quick: $(VENV)/.test $(VENV)/.built
	$(PYTEST) -m "not client and not etcd and not jvm and not slow and not control and not exhaustive" \
		--examples 0.2 --simulation-seeds 100 --crash-states 500 --fuzz-inputs 50

# What a release publishes: for each supported Python that is there a wheel that other machines run
# too, tried in an empty environment, and the same bytes when it is built again.
# WHEELS='--python python3.12' has one of them.
wheels: $(VENV)/.built
	$(BIN)/python -m tools.wheels --twice $(WHEELS)

# Lint, format, layers, types, and the stubs of the installed modules. The build compiles our own C
# with warnings as errors.
check: export PATH := $(CURDIR)/$(BIN):$(PATH)
check: $(VENV)/.check $(VENV)/.built
	ruff check
	ruff format --check
	cython-lint src/_native
	PYTHONPATH=src lint-imports
	mypy
	mypy tests benchmarks tools
	python -m mypy.stubtest broker._native --mypy-config-file pyproject.toml

# The compiled programs of benchmarks/, separate so that other targets do not wait for them.
bench-programs: $(VENV)/.built
	mkdir -p build
	$(BIN)/cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DBROKER_BENCHMARKS=ON \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		>build/bench.log
	$(BIN)/cmake --build build/bench --target load floor storage_loops >>build/bench.log

# One suite of benchmarks: make bench SUITE=codec. BENCH has its options; '--help' lists them.
bench: $(if $(filter $(SUITE),$(SUITES)),bench-$(SUITE),$(error SUITE is one of: $(SUITES)))

# A real broker process, compared with a program that does the least a broker must do, and clusters.
bench-broker: $(VENV)/.test bench-programs etcd
	$(BIN)/python -m benchmarks.end_to_end.bench $(BENCH)

# The growth of costs from 10 to 10,000 partitions; BENCH='10 100' measures other sizes.
bench-growth: $(VENV)/.built
	$(BIN)/python -m benchmarks.end_to_end.growth $(BENCH)

# Decisions by ACLs, and what they cost the native paths.
bench-acls: $(VENV)/.built
	$(BIN)/python -m benchmarks.acls.bench

# Processor time of commands before they do something, and of their help; BENCH='--help'.
bench-cli: $(VENV)/.built
	$(BIN)/python -m benchmarks.cli.bench $(BENCH)

# Joins, loads and expiry of groups, and the longest turn of the loop, in one process without sockets.
bench-groups: $(VENV)/.built
	$(BIN)/python -m benchmarks.groups.bench

# The latency and CPU time of the metadata stores of a cluster; BENCH='--help' lists the options.
bench-metadata: $(VENV)/.test $(VENV)/.built etcd
	$(BIN)/python -m benchmarks.metadata.bench $(BENCH)

# The longest turn of the loop for each long request, in one process without sockets.
bench-turns: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.turns.bench $(BENCH)

# The cost of groups and transactions; BENCH='--help' lists the options.
bench-coordinators: bench-programs
	$(BIN)/python -m benchmarks.end_to_end.coordinators $(BENCH)

# CPU time of the codec and of other libraries, a table per operation; BENCH='-k arrow' selects some.
bench-codec: $(VENV)/.bench $(VENV)/.built
	$(BIN)/python -m pytest benchmarks/codec -o python_files='bench_*.py' --timeout=0 \
		--benchmark-timer=time.process_time --benchmark-min-time=0.001 --benchmark-group-by=group --benchmark-sort=min \
		--benchmark-columns=min,median,rounds --benchmark-json=build/bench-codec.json $(BENCH)
	$(BIN)/python -m benchmarks.codec.ratios build/bench-codec.json

# Compaction of a log: its kernel, memcpy + CRC, and the whole process; BENCH='--help'.
bench-compaction: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.storage.compaction $(BENCH)

# Appends, lookups and retention, compared with lower bounds; BENCH='--help' lists the options.
bench-storage: bench-programs
	$(BIN)/python -m benchmarks.storage.bench $(BENCH)

# Topics in Spark, compared with Spark's own connector; BENCH='--help' lists the options.
bench-spark: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.spark.bench $(BENCH)

# Many streams of events in one partition; BENCH='1000000 10000000' measures other numbers of them.
bench-streams: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.streams.bench $(BENCH)

# TLS beside plain connections and beside OpenSSL's own speed; BENCH='--help' lists the options.
bench-tls: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m benchmarks.tls.bench $(BENCH)

# Instruction counts of a few kernels by callgrind, compared with a table; BENCH=--update writes it.
bench-guard: $(VENV)/.bench $(VENV)/.built
	$(BIN)/python -m benchmarks.guard.guard $(BENCH)

# The native tests on a build that stops at the first invalid access or undefined operation. Reports
# of the sanitizers must go to the terminal, because pytest's captured output is lost with the process.
sanitize: $(VENV)/.test
	$(INSTALL) --upgrade --target build/sanitized --config-settings=build-dir=build/sanitize \
		--config-settings=cmake.build-type=Debug --config-settings=cmake.define.BROKER_SANITIZE=ON .
	PYTHONPATH=build/sanitized LD_PRELOAD=$$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
		$(BIN)/python -m pytest --capture=sys $(or $(TEST),tests/native)

# The codec under libFuzzer and the sanitizers; libFuzzer is in a wheel, so the compiler may be gcc.
# FUZZ='--help' lists the options.
fuzz: $(VENV)/.fuzz $(VENV)/.built
	$(INSTALL) --upgrade --target build/fuzz/package --config-settings=build-dir=build/fuzz/objects \
		--config-settings=cmake.build-type=Debug --config-settings=cmake.define.BROKER_FUZZ=ON .
	$(BIN)/python -m tests.fuzz.run $(FUZZ)

# A sample of small changes to the source that tests should detect; MUTANTS='--help'.
mutants: $(VENV)/.test $(VENV)/.built
	$(BIN)/python -m tests.mutations.run $(MUTANTS)

clean:
	rm -rf build dist $(VENV)
	find src benchmarks -name '*.so' -delete
