# `make demo`, `make nightly`, `make test`: each makes .venv and installs what it needs.
# `make test` leaves out the slow tests (kills, memory peaks, notebooks, the widest games); `make daily` runs them too, with
# the tiny benchmarks, faults, the commands of the pages, PyTorch, Azure, MLflow, dbt, Airflow and Python 3.12, in parts that also run alone;
# `make test-systems` runs what takes hours, one after the other, and the cases of long tables that these leave out.
VENV ?= .venv
BIN := $(VENV)/bin
# Empty: each process reads the compiled modules of the one before; without them an import takes ten seconds of a core
export PYTHONDONTWRITEBYTECODE :=

# The first Python that runs and is new enough; pyenv's names exist for versions that it does not run
IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 12))'
ifndef PYTHON
PYTHON := $(shell for name in python3.13 python3.12 python3; do $$name $(IS_NEW_ENOUGH) 2>/dev/null && echo $$name && break; done)
endif
VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c 'import platform; print(platform.python_version())'))

# Where tests write: memory, where 4 GB of it are free for files (a store syncs each of its files to the disk)
SCRATCH := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')

AT_ONCE := -n 2 --dist worksteal

DAILY := daily-slow daily-benchmarks daily-chaos daily-documented daily-experiments daily-azure daily-platforms daily-dbt daily-airflow daily-attestations daily-python3.12

.PHONY: demo nightly test test-systems daily $(DAILY) documented coverage chaos lint types benchmarks experiments docs \
	release release-check constraints clean

nightly: $(VENV)/installed-dev  # three nights of a made-up shop, in a database of its own
	$(BIN)/python workflows/nightly/nights.py

demo: $(VENV)/installed-report
	$(BIN)/dshap run workflows/bike_sharing.toml

test: $(VENV)/installed-dev
	$(call pytest,$(AT_ONCE) -m "not slow and not systems")

test-systems: $(VENV)/installed-dev
	$(call pytest,-m systems --timeout 0)

daily: $(VENV)/installed-dev  # every part, also after one that failed; then a line for each
	$(BIN)/python -m tests.daily $(DAILY)

daily-slow: $(VENV)/installed-dev
	$(call pytest,$(AT_ONCE) -m "slow and not systems")

daily-benchmarks: benchmarks

daily-chaos: chaos

daily-documented: documented

daily-experiments: experiments

daily-azure: $(VENV)/installed-dev build/azure/installed  # stores on az://, which no test of `make test` has a server for
	PATH="$(CURDIR)/build/azure/node_modules/.bin:$$PATH" $(BIN)/python -m pytest tests/storage -k azure

daily-attestations: build/attestations/installed  # statements and events, read by the programs of others
	OMP_NUM_THREADS=1 build/attestations/bin/python -m pytest tests/attestations

daily-platforms: $(VENV)/installed-dev build/platforms/installed  # models and rows of platforms that no other test installs
	OMP_NUM_THREADS=1 build/platforms/bin/python -m pytest $(PLATFORM_TESTS)

daily-dbt: $(VENV)/installed-dev build/dbt/installed  # the package of workflows/dbt, on tables that a job has loaded
	DBT=$(CURDIR)/build/dbt/bin/dbt $(BIN)/python -m pytest tests/test_dbt_package.py

daily-airflow: $(VENV)/installed-dev build/airflow/installed  # the DAG of workflows/schedules
	AIRFLOW_PYTHON=$(CURDIR)/build/airflow/bin/python $(BIN)/python -m pytest tests/test_schedules.py -k airflow

daily-python3.12:
	$(MAKE) test VENV=build/python3.12 PYTHON=python3.12

chaos: $(VENV)/installed-dev  # twenty faults in nights of jobs; python -m tests.chaos --help
	files=$$(mktemp -d $(addsuffix /dshap-XXXXXX,$(SCRATCH))) && \
	TMPDIR=$$files $(BIN)/python -m tests.chaos --faults 20 && rm -rf $$files

documented: $(VENV)/installed-dev  # every command of the pages on clusters and buckets; python -m tests.documented --help
	$(call pytest,-m systems tests/documented)

coverage: $(VENV)/installed-dev  # lines that the tests' processes run; compiled loops and other processes count as missed
	$(call pytest,$(AT_ONCE) -m "not systems" --cov --cov-report=term:skip-covered)

# Compiled loops are kept for other clones; see tests/compiled_loops.py
define pytest
	files=$$(mktemp -d $(addsuffix /dshap-XXXXXX,$(SCRATCH))) && \
	TMPDIR=$$files OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest --durations=10 $(1) && rm -rf $$files
	$(BIN)/python -m tests.compiled_loops save
endef

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

BENCHMARKS := peers global_means scaling warehouse widths real_models alterations lanes growth wide_tables blocks \
	coverage regulariser estimators linear_gaussian quality trees tree_engine tree_headline robustness penalties graphs spools readers \
	differences segments drift billions served rounding night_memory doors block_cost few_rows busy packing nights own_rows enough folding pages \
	forgetting reasons decisions

benchmarks: $(VENV)/installed-dev  # two at a time, the longest first
	printf '%s\n' $(BENCHMARKS) | \
		OMP_NUM_THREADS=1 xargs -P 2 -I NAME $(BIN)/python -m tests.benchmarks.NAME --tiny

# In an environment of its own, the only one with PyTorch: tests and tiny forms of the experiments, models of GPyTorch
EXPERIMENTS := workflows/experiments/requirements

experiments: build/experiments/installed
	OMP_NUM_THREADS=1 build/experiments/bin/python -m pytest -n 2 --dist worksteal -m "not systems" \
		tests/test_experiments.py tests/models/adapters/test_gpytorch.py

build/experiments/installed: pyproject.toml $(EXPERIMENTS).txt
	test -x build/experiments/bin/python || $(PYTHON) -m venv build/experiments
	build/experiments/bin/python -m pip install --quiet --disable-pip-version-check -r $(EXPERIMENTS).txt -e .
	touch $@

build/attestations/installed: pyproject.toml constraints.txt tests/attestations.txt
	test -x build/attestations/bin/python || $(PYTHON) -m venv build/attestations
	build/attestations/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r tests/attestations.txt -e .
	touch $@

PLATFORM_TESTS := tests/run/test_mlflow_models.py tests/models/adapters/test_mlflow_models.py \
	tests/tables/test_conversion.py

build/platforms/installed: pyproject.toml tests/platforms.txt
	test -x build/platforms/bin/python || $(PYTHON) -m venv build/platforms
	build/platforms/bin/python -m pip install --quiet --disable-pip-version-check -r tests/platforms.txt -e .
	touch $@

# Each in an environment of its own: their parts fix the versions of many packages
build/dbt/installed build/airflow/installed: build/%/installed: tests/%.txt
	test -x build/$*/bin/python || $(PYTHON) -m venv build/$*
	build/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

build/azure/installed:
	npm install --silent --no-fund --no-audit --prefix build/azure azurite@3
	touch $@

# An environment of another Python is made anew
$(VENV)/python-$(VERSION):
	$(if $(PYTHON),,$(error dshap needs Python 3.12 or newer, and none of python3.13, python3.12 and python3 is))
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed-%: $(VENV)/python-$(VERSION) pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	$(BIN)/python -m tests.compiled_loops load
	touch $@

release: $(VENV)/installed-dev  # of a clean checkout: builds, tries README's first example with wheel and sdist, tags the version
	$(BIN)/python -m tests.release

release-check: $(VENV)/installed-dev  # all of it except the tag
	$(BIN)/python -m tests.release --check

docs: $(VENV)/installed-docs  # build/site; a notebook whose outputs in build/notebooks are of another content is run first
	$(BIN)/python -m website

# For 3.12 and later, without the CUDA packages of PyTorch: a CPU build will do
define compile
	$(BIN)/uv pip compile --universal --python-version 3.12 --no-header --no-annotate --quiet --upgrade \
		pyproject.toml $(1) | grep -vE '^(nvidia|cuda|triton)'
endef

constraints: $(VENV)/installed-dev  # the tested set of all extras but gpytorch, and those of the experiments and platforms
	$(BIN)/python -m pip install --quiet uv
	$(call compile,--extra dev --extra bench --extra gateway) > constraints.txt
	$(call compile,--extra report $(EXPERIMENTS).in -c constraints.txt) > $(EXPERIMENTS).txt
	$(call compile,--extra report --extra lake tests/platforms.in) > tests/platforms.txt

clean:
	rm -rf .venv build
