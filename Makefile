# `make demo`, `make nightly`, `make test`: each makes .venv and installs what it needs.
# `make test` leaves out the slow tests (kills, memory peaks, notebooks, the widest games); `make test-all` runs them too;
# `make test-systems` runs what takes hours, one after the other, and the cases of long tables that these leave out.
PYTHON ?= python3
BIN := .venv/bin
# Empty: each process reads the compiled modules of the one before; without them an import takes ten seconds of a core
export PYTHONDONTWRITEBYTECODE :=

# Where tests write: memory, where 4 GB of it are free for files (a store syncs each of its files to the disk)
SCRATCH := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')

AT_ONCE := -n 2 --dist worksteal

.PHONY: demo nightly test test-all test-systems documented coverage chaos lint types benchmarks experiments docs constraints clean

nightly: .venv/installed-dev  # three nights of a made-up shop, in a database of its own
	$(BIN)/python workflows/nightly/nights.py

demo: .venv/installed-report
	$(BIN)/dshap run workflows/bike_sharing.toml

test: .venv/installed-dev
	$(call pytest,$(AT_ONCE) -m "not slow and not systems")

test-all: .venv/installed-dev
	$(call pytest,$(AT_ONCE) -m "not systems")

test-systems: .venv/installed-dev
	$(call pytest,-m systems --timeout 0)

chaos: .venv/installed-dev  # twenty faults at random moments of jobs; python -m tests.chaos --help
	files=$$(mktemp -d $(addsuffix /dshap-XXXXXX,$(SCRATCH))) && \
	TMPDIR=$$files $(BIN)/python -m tests.chaos --faults 20 && rm -rf $$files

documented: .venv/installed-dev  # every command of the pages on clusters and buckets; python -m tests.documented --help
	$(call pytest,-m systems tests/documented)

coverage: .venv/installed-dev  # lines that the tests' processes run; compiled loops and other processes count as missed
	$(call pytest,$(AT_ONCE) -m "not systems" --cov --cov-report=term:skip-covered)

define pytest
	files=$$(mktemp -d $(addsuffix /dshap-XXXXXX,$(SCRATCH))) && \
	TMPDIR=$$files OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest --durations=10 $(1) && rm -rf $$files
endef

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

BENCHMARKS := peers global_means quadrature checked_stores scaling small_table warehouse black_box widths real_models alterations \
	lanes growth nights wide_tables blocks banana coverage regulariser exactness estimators linear_gaussian quality trees robustness penalties graphs spools readers differences segments drift billions busy served

benchmarks: .venv/installed-dev  # two at a time, the longest first
	printf '%s\n' $(BENCHMARKS) | \
		OMP_NUM_THREADS=1 xargs -P 2 -I NAME $(BIN)/python -m tests.benchmarks.NAME --tiny

# their tests and tiny forms, with PyTorch, which stays out of .venv; their slow ones go without it, in `make test-all`
experiments: build/experiments/installed
	OMP_NUM_THREADS=1 build/experiments/bin/python -m pytest -n 2 --dist worksteal -m "not slow" tests/test_experiments.py

build/experiments/installed: pyproject.toml constraints.txt
	test -x build/experiments/bin/python || $(PYTHON) -m venv build/experiments
	build/experiments/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[experiments]' pytest pytest-timeout pytest-xdist
	touch $@

.venv/installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	touch $@

docs: .venv/installed-docs  # build/site; notebooks that `make test-all` has run are shown with what they printed
	$(BIN)/python -m website

constraints: .venv/installed-dev
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.13 --all-extras --no-header --no-annotate --quiet --upgrade \
		pyproject.toml -o constraints.txt

clean:
	rm -rf .venv build
