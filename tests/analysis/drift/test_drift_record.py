"""Words of a drift: few columns or many, with drift and without."""

from __future__ import annotations

import json

import numpy as np

import dshap
from tests.discrepancy.made_up import turned


def test_columns_beyond_twenty_are_counted():
    old, new = turned(40, 0.0, 23, seed=1), turned(50, 0.0, 23, seed=2)
    lines = str(dshap.mmd_drift(old, new, n_permutations=19, n_rows=0)).splitlines()
    assert lines[-1] == "and 3 columns with less"
    assert len(lines) == 5 + 1 + 20 + 1
    assert lines[5].split()[:2] == ["column", "attribution"]


def test_a_column_without_values_in_one_table_differs_by_itself():
    old, new = np.random.default_rng(0).normal(size=(2, 30, 2))
    new[:, 1] = np.nan
    found = dshap.mmd_drift(old, new, n_permutations=99)
    first = found.columns[0]
    assert first.column == "x1"
    assert first.marginal_p_value < 1e-15
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["columns"][0]["column"] == "x1"


def test_it_names_itself_in_a_line():
    found = dshap.mmd_drift(np.eye(4), np.eye(4), n_permutations=19)
    assert repr(found) == f"Drift(mmd2={found.mmd2:.4g}, p_value=1, 4 columns)"
