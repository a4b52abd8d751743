# Two commands: `make demo` and `make test`.  Each makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types benchmarks constraints clean

demo: .venv/installed-report
	$(BIN)/dshap run workflows/bike_sharing.toml

test: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

benchmarks: .venv/installed-dev
	for name in peers quadrature small_table exactness scaling banana growth quality coverage \
		estimators black_box linear_gaussian global_means penalties widths alterations checked_stores trees; do \
		$(BIN)/python -m tests.benchmarks.$$name --tiny || exit 1; done

.venv/installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	touch $@

constraints: .venv/installed-dev
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --all-extras --no-header --no-annotate --quiet --upgrade \
		pyproject.toml -o constraints.txt

clean:
	rm -rf .venv build
