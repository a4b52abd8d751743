"""`mmd_drift` over tables: what it finds, what it says, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.kernels import RBF
from dshap.report import Drift, checked_level
from tests.discrepancy.made_up import turned


def table(n: int, rho: float, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Six columns; the first two are correlated, the third may be shifted; plans are categories."""
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(turned(n, rho, 4, seed), columns=["income", "rent", "age", "visits"])
    out["age"] += shift
    out["plan"] = rng.choice(["basic", "plus", "pro"], n)
    out["customer"] = np.arange(n) + 1_000 * seed
    return out


@pytest.fixture(scope="module")
def found() -> Drift:
    old, new = table(500, 0.7, seed=1), table(400, -0.7, seed=2)
    return dshap.mmd_drift(old, new, key="customer", n_permutations=199, n_rows=4)


def test_a_correlation_that_turns_is_named(found):
    assert found.p_value == 1 / 200
    assert found.is_seen()
    assert found.is_seen(0.005)
    assert {each.column for each in found.columns[:2]} == {"income", "rent"}
    assert [each.adjusted <= 0.05 for each in found.columns] == [True, True, *[False] * 3]
    assert min(each.marginal_p_value for each in found.columns) > 0.05
    assert sum(each.attribution for each in found.columns) == pytest.approx(found.mmd2, rel=1e-9)


def test_a_shift_is_named_by_both():
    found = dshap.mmd_drift(table(500, 0.5, 1), table(500, 0.5, 2, shift=0.6), key="customer")
    first, *others = found.columns
    assert first.column == "age"
    assert first.adjusted == 0.001
    assert first.marginal_p_value < 0.001
    assert all(each.adjusted > 0.05 for each in others)
    assert first.psi > 0.1


def test_rows_that_carry_most_are_where_one_table_is_denser(found):
    assert [row.carried for row in found.rows] == sorted(
        (row.carried for row in found.rows), reverse=True
    )
    for row in found.rows:
        number = int(row.key["customer"])
        assert row.table == ("new" if number >= 2_000 else "old")
        assert (row.witness > 0) == (row.table == "old")
        assert row.carried > 0
        assert row.column in ("income", "rent")


def test_arrays_of_rows_sum_to_the_witness_and_mmd2(found):
    np.testing.assert_allclose(found.attributions.sum(axis=1), found.witness, atol=1e-12)
    mean = found.witness[:500].mean() - found.witness[500:].mean()
    assert mean == pytest.approx(found.mmd2, rel=1e-9)
    frame = found.row_frame()
    assert frame.shape == (900, 3 + 5)
    assert frame[("", "table")].tolist()[499:501] == ["old", "new"]
    np.testing.assert_array_equal(frame["attribution"]["rent"], found.attributions[:, 1])


def test_it_shows_as_text_tables_and_json(found):
    said = str(found)
    assert said.startswith(
        "old: DataFrame, 500 rows\nnew: DataFrame, 400 rows\n\nthe rows have drif"
    )
    assert "p = 0.005 by 199 permutations" in said
    assert "rows that contribute most:" in said
    assert found.to_frame()["column"].tolist() == [each.column for each in found.columns]
    html = found._repr_html_()
    assert html.count("<table") == 3
    assert "the rows have drifted" in html
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["rows"][0]["key"].keys() == {"customer"}
    assert "witness" not in plain
    assert plain["kernel"]["plan"].startswith("categorical")


def test_a_sample_is_said():
    rows = table(300, 0.0, 1)
    found = dshap.mmd_drift(rows, rows, features=["age"], max_rows=100, n_permutations=19)
    assert "a sample of 100 of 300 rows" in str(found)
    assert found.p_value == 1.0
    assert str(found).splitlines()[3].startswith("no drift is seen: MMD² ")
    assert found.positions.max() > 100


def test_a_column_that_is_missing_more_often_has_drifted():
    old, new = table(400, 0.0, 1), table(400, 0.0, 2)
    new.loc[::4, "visits"] = np.nan
    found = dshap.mmd_drift(old, new, key="customer", n_permutations=199)
    assert found.columns[0].column == "visits"
    assert found.columns[0].adjusted == 1 / 200
    assert found.columns[0].psi > 0.25


def test_rows_are_compared_on_a_cluster_too(tmp_path):
    distributed = pytest.importorskip("distributed")
    old, new = table(200, 0.5, 1), table(200, -0.5, 2)
    here = dshap.mmd_drift(old, new, key="customer", n_permutations=19)
    with (
        distributed.LocalCluster(1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = dshap.mmd_drift(old, new, key="customer", n_permutations=19, client=client)
    assert there.mmd2 == here.mmd2
    assert there.rows == here.rows


def test_a_table_in_a_file_is_named_by_its_path_on_one_line(tmp_path):
    path = tmp_path / "a\nb.parquet"
    table(30, 0.0, 1).to_parquet(path)
    found = dshap.mmd_drift(path, str(path), key="customer", n_permutations=19)
    assert found.old.name == found.new.name == f"{tmp_path}/a b.parquet"
    assert found.rows[0].key.keys() == {"customer"}
    assert found.p_value == 1.0


MISTAKES = {
    "absent": ({"absent": "pool"}, "unknown absent 'pool'; did you mean 'pooled'?"),
    "kernel": ({"kernel": "rbf"}, "kernel is 'rbf': give one of dshap.kernels, such as RBF()"),
    "max_rows": ({"max_rows": 0}, "max_rows is 0: give a whole number of at least 1"),
    "n_permutations": ({"n_permutations": 0}, "n_permutations is 0: give a whole number of at le"),
    "validated": ({"kernel": RBF("validate")}, 'lengthscale "validate" needs a target'),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_options_that_are_wrong(mistake):
    options, said = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        dshap.mmd_drift(table(20, 0, 1), table(20, 0, 2), key="customer", **options)
    assert str(caught.value).startswith(said)


def test_a_level_is_a_number_from_0_to_1(found):
    with pytest.raises(InputError, match="level is 5: give a number of at least 0 and at most 1"):
        found.is_seen(5)


def test_a_level_that_no_p_value_reaches_is_refused(found):
    """199 permutations give 1/200 at least; 19 are just enough for 0.05, 18 are not."""
    with pytest.raises(InputError) as caught:
        found.is_seen(0.001)
    assert str(caught.value) == (
        "level is 0.001, and 199 permutations give no p-value below 0.005: take 999 permutations or "
        "more, or a higher level"
    )
    with pytest.raises(InputError, match="give a level above 0"):
        found.is_seen(0)
    assert checked_level(0.05, 19) == 0.05
    with pytest.raises(InputError, match="take 19 permutations or more"):
        checked_level(0.05, 18)


@pytest.mark.parametrize("kind", [int, "r{}".format])
def test_a_column_that_names_rows_is_warned_of(kind):
    """Another value in each row, none in both; not where it is the key, shared, or has fractions."""
    old, new = (
        table(40, 0.0, seed).assign(customer=lambda rows: rows["customer"].map(kind))
        for seed in (1, 2)
    )
    found = dshap.mmd_drift(old, new, n_permutations=19)
    (line,) = found.warnings
    assert "column 'customer' has a different value in each row" in line
    assert "--key" in line
    assert line in str(found).splitlines()
    assert "--key" in found._repr_html_()
    assert found.to_dict()["warnings"] == (line,)
    for one, two, options in ((old, new, {"key": "customer"}), (old, old, {})):
        assert dshap.mmd_drift(one, two, n_permutations=19, **options).warnings == ()
