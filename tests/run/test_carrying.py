"""A night whose unchanged rows are copied from last night's cube: the cube is that of a run which
explains all rows, bit for bit, and its errors of means are upper bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

from dshap import designs
from dshap.core.blocks import Status
from dshap.core.errors import FailedBlocksError, InputError, StoreMismatchError
from dshap.cube import feature_ranking, find_row, open_cube, read_notes, verify_cube
from dshap.cube.writer import CubeWriter
from dshap.engine import DaskExecutor
from dshap.engine.graph import LoopExecutor
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.report import accuracy, accuracy_lines
from dshap.run.carrying import Carried
from dshap.run.explanation import Explanation
from dshap.run.session import open_session
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    LogOdds,
    Marginal,
    Trees,
)

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 7
NAMES = list("abcdefg")
X = np.random.default_rng(0).normal(size=(900, D))
YESTERDAY = slice(0, 700)
CALLS: list[int] = []
"""The rows of each call of `counted`."""


def two_outputs(x):
    return np.stack([x[:, 0] * x[:, 1] + np.sin(x[:, 2]) * x[:, 3], x[:, 4] * x[:, 0]], axis=1)


def product(x):
    return two_outputs(x)[:, 0]


def chances(x):
    odds = np.exp(two_outputs(x) @ np.array([[0.5, 0.1, 0.0], [0.0, 0.3, 0.2]]))
    return odds / odds.sum(axis=1, keepdims=True)


def counted(x):
    CALLS.append(len(x))
    return product(x)


def picky(x):
    if (x[:, 0] > 50).any():
        raise ValueError("too large")
    return product(x)


def marginal(predict=two_outputs, **options):
    return Marginal(predict, X[:12], feature_names=NAMES, **options)


def kernel_model():
    return KernelRidge(RBF(1.5), Nystrom(40), 1e-6).fit(
        pd.DataFrame(X[:300], columns=NAMES), product(X[:300])
    )


def trees():
    import xgboost

    y = product(X)
    frame = pd.DataFrame(X, columns=NAMES)
    return Trees(xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(frame, y))


@dataclass(frozen=True)
class Case:
    """A value function, and the options that it is explained with."""

    make: Any
    design: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    """How far explained rows may be off beside rows of a whole tile: matrix products of other
    sizes round otherwise.  Carried rows have the same bits in every case."""


CASES = {
    "marginal, exact": Case(marginal),
    "float32": Case(marginal, options={"dtype": "float32"}),
    "interactions": Case(marginal, options={"interactions": True}),
    "kept rows": Case(marginal, options={"keep_rows": True}),
    "groups of columns": Case(lambda: marginal(players={"both": ["a", "c"]})),
    "the predicted class": Case(lambda: marginal(chances, link="log_odds"), tolerance=1e-12),
    "one class": Case(
        lambda: marginal(chances, link=LogOdds("B"), output_names=list("ABC")), tolerance=1e-12
    ),
    "sampled": Case(marginal, designs.permutation(D, 120)),
    "rounds": Case(
        marginal,
        designs.kernelshap(D, 80),
        {"tol": 0.3, "max_coalitions": 120},
        1e-12,
    ),
    "kernelshap, several parts": Case(
        marginal, designs.kernelshap(D, 80), {"coalition_groups": 3}, 1e-12
    ),
    "interventional": Case(lambda: KernelInterventional(kernel_model(), X[:100]), tolerance=1e-12),
    "quadrature": Case(
        lambda: KernelInterventional(kernel_model(), X[:30]), "quadrature", tolerance=1e-6
    ),
    "observational": Case(
        lambda: KernelObservational(kernel_model(), X[:200], Nystrom(20), 1e-3), tolerance=1e-10
    ),
    "regression": Case(
        lambda: ConditionalRegression(
            product, X[:200], RBF(1.5), Nystrom(30), 1e-3, feature_names=NAMES
        ),
        tolerance=1e-10,
    ),
    "normal": Case(
        lambda: Gaussian(product, X[:200], feature_names=NAMES, n_samples=16), tolerance=1e-12
    ),
    "linear": Case(
        lambda: LinearGaussian(np.arange(1.0, D + 1.0), 0.5, np.zeros(D), np.eye(D) + 0.2),
        tolerance=1e-12,
    ),
    "trees": Case(trees),
    "trees with interactions": Case(trees, options={"interactions": True}, tolerance=1e-6),
}  # fmt: skip


def frame_of(x, ids):
    """A table with a key of text and one of times."""
    frame = pd.DataFrame(x, columns=NAMES)
    return frame.assign(
        id=[f"row-ü{i}" for i in ids],
        at=pd.Timestamp("2026-02-27") + pd.to_timedelta(np.asarray(ids), unit="h"),
    )


@dataclass(frozen=True)
class Night:
    """Tonight's rows: some new, some changed, the others moved, one deleted."""

    rows: pd.DataFrame
    positions: np.ndarray
    """(n,): the rows of yesterday that they were; −1 for new and changed ones."""


def night(x=X, seed=1, n_changed=20):
    rng = np.random.default_rng(seed)
    n = len(x[YESTERDAY])
    kept = np.sort(rng.permutation(n)[: n - 40])
    swapped = kept.copy()
    swapped[100:160] = kept[100:160][::-1]
    new = np.arange(n, n + 30)
    ids = np.concatenate([swapped[:300], new[:10], swapped[300:], new[10:]])
    rows = x[ids].copy()
    positions = np.where(ids < n, ids, -1)
    changed = rng.permutation(len(ids))[:n_changed]
    rows[changed, 0] += 1.0
    positions[changed] = -1
    return Night(frame_of(rows, ids), positions)


def explain(value, rows, path, *, executor=None, carried=None, design="auto", key=("id", "at"), **options):  # fmt: skip
    with open_session(path, None, False, {"instance_tile": 256, **options}) as (store, session):
        if executor is not None:
            object.__setattr__(session, "executor", executor)
        explanation = Explanation.of(
            value, rows, store, session, design=design, key=list(key), carried=carried
        )
        return explanation.run(session)


def carried_from(path: Path, positions: np.ndarray) -> Carried:
    file = path.with_suffix(".npy")
    np.save(file, positions.astype(np.int64))
    return Carried(path, file)


def values_of(path):
    """variable -> its values, kept columns and block summaries included."""
    root = zarr.open_group(path, mode="r")
    groups = [("", root), *((f"{name}/", group) for name, group in root.groups())]
    return {
        prefix + name: np.asarray(array[...])
        for prefix, group in groups
        for name, array in group.arrays()
        if name != "state"
    }


def assert_same(found, wanted, tolerance=0.0):
    assert found.dtype == wanted.dtype
    if tolerance and found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_cube_is_that_of_a_run_that_explains_all_rows(name, tmp_path):
    case = CASES[name]
    value = case.make()
    given = {"design": case.design, **case.options}
    explain(value, frame_of(X[YESTERDAY], range(700)), tmp_path / "old", **given)
    tonight = night()
    carried = carried_from(tmp_path / "old", tonight.positions)
    explain(value, tonight.rows, tmp_path / "new", carried=carried, **given)
    explain(value, tonight.rows, tmp_path / "anew", **given)
    old, found, wanted = (values_of(tmp_path / each) for each in ("old", "new", "anew"))
    at = np.flatnonzero(tonight.positions >= 0)
    assert found.keys() == wanted.keys()
    for variable, values in wanted.items():
        assert_same(found[variable], values, case.tolerance) if "blocks/" not in variable else None
        if values.shape[:1] == (len(tonight.rows),) and len(values) == len(found["status"]):
            assert_same(found[variable][at], old[variable][tonight.positions[at]])
    assert verify_cube(tmp_path / "new") == []
    assert_ranking_is_bounded(tmp_path / "new", tmp_path / "anew", case)
    where = find_row(tmp_path / "new", ["row-ü3", "2026-02-27T03:00:00"])
    assert open_cube(tmp_path / "new").id.values[where] == "row-ü3"


def assert_ranking_is_bounded(path, anew, case):
    """The values are those of all rows, the errors at least as large."""
    found = feature_ranking(path)
    wanted = feature_ranking(anew)
    rounding = max(case.tolerance, 1e-7 if case.options.get("dtype") else 1e-13)
    for name in ("mean", "mean_magnitude", "mean_square"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6, atol=10 * rounding)
        errors = wanted[f"{name}_std_error"].values
        bound = found[f"{name}_std_error"].values
        assert ((bound >= errors * (1 - 1e-9) - 1e-12) | np.isnan(errors)).all()
        np.testing.assert_array_equal(np.isnan(bound), np.isnan(errors))
    assert (found.residual.values <= np.maximum(1.01 * wanted.residual.values, 1e-12)).all()


@pytest.mark.slow
def test_a_third_night_carries_from_a_second(tmp_path):
    """What was carried once can be carried again; a chain of nights has the bits of the first."""
    value = marginal()
    explain(value, frame_of(X[YESTERDAY], range(700)), tmp_path / "1")
    tonight = night()
    explain(
        value, tonight.rows, tmp_path / "2", carried=carried_from(tmp_path / "1", tonight.positions)
    )
    order = np.arange(len(tonight.rows))[::-1]
    rows = tonight.rows.iloc[order].reset_index(drop=True)
    explain(value, rows, tmp_path / "3", carried=carried_from(tmp_path / "2", order))
    second, third = values_of(tmp_path / "2"), values_of(tmp_path / "3")
    for name in ("attribution", "prediction", "status"):
        assert_same(third[name], second[name][order])
    assert read_notes(tmp_path / "3")["carried"]["rows"] == len(order)


def test_only_the_other_rows_reach_the_model(tmp_path):
    value = marginal(counted)
    explain(value, frame_of(X[YESTERDAY], range(700)), tmp_path / "old")
    tonight = night(n_changed=0)
    carried = carried_from(tmp_path / "old", tonight.positions)
    CALLS.clear()
    explain(value, tonight.rows, tmp_path / "all")
    whole = sum(CALLS)
    CALLS.clear()
    explain(value, tonight.rows, tmp_path / "new", carried=carried)
    share = (tonight.positions < 0).mean()
    assert share < 0.05
    assert sum(CALLS) < 2.5 * share * whole + 1_000


def test_a_tile_without_a_row_to_explain_needs_no_model(tmp_path, monkeypatch):
    value = marginal(counted)
    rows = frame_of(X[YESTERDAY], range(700))
    explain(value, rows, tmp_path / "old")
    carried = carried_from(tmp_path / "old", np.arange(700))
    monkeypatch.setattr("dshap.attributors.contraction.Contraction.attribute", None)
    explain(value, rows, tmp_path / "new", carried=carried)
    assert_same(
        values_of(tmp_path / "new")["attribution"], values_of(tmp_path / "old")["attribution"]
    )


@pytest.mark.slow
def test_skipped_rows_are_carried_and_failed_ones_are_not(tmp_path):
    x = X.copy()
    x[3] = np.nan
    x[5, 0] = 99.0
    value = marginal(picky)
    rows = frame_of(x[YESTERDAY], range(700))
    explain(value, rows, tmp_path / "old", missing="skip")
    status = values_of(tmp_path / "old")["status"]
    assert status[3] == Status.SKIPPED
    assert status[5] == Status.FAILED
    positions = np.arange(700)
    carried = carried_from(tmp_path / "old", positions)
    run = explain(value, rows, tmp_path / "wrong", carried=carried, missing="skip")
    assert "row 5 of" in run.failures[0].reason
    assert "is failed" in run.failures[0].reason
    positions[5] = -1
    carried = carried_from(tmp_path / "old", positions)
    run = explain(value, rows, tmp_path / "new", carried=carried, missing="skip")
    assert [failure.n_rows for failure in run.failures] == [1]
    assert "too large" in run.failures[0].reason
    assert_same(values_of(tmp_path / "new")["status"], status)
    with pytest.raises(FailedBlocksError, match="1 of 700 rows has no attribution"):
        run.raise_on_failed()


def fails_for_new(x):
    if (np.abs(x[:, 4]) > 10).any():
        raise ValueError("the new rows are bad")
    return product(x)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 3])
def test_carried_rows_outlive_a_tile_whose_other_rows_all_fail(groups, tmp_path):
    """More than 32 rows of a tile, so that the model itself is blamed; with several parts too."""
    options = {"design": designs.kernelshap(D, 80), "coalition_groups": groups}
    value = marginal(fails_for_new)
    rows = frame_of(X[YESTERDAY], range(700))
    explain(value, rows, tmp_path / "old", **options)
    positions = np.arange(700)
    positions[10:60] = -1
    rows.loc[10:59, "e"] = 20.0
    carried = carried_from(tmp_path / "old", positions)
    run = explain(value, rows, tmp_path / "new", carried=carried, **options)
    assert [(failure.n_rows, failure.is_whole) for failure in run.failures] == [(50, False)]
    found = values_of(tmp_path / "new")
    assert (found["status"] == Status.FAILED).sum() == 50
    kept = positions >= 0
    assert_same(found["attribution"][kept], values_of(tmp_path / "old")["attribution"][kept])
    assert verify_cube(tmp_path / "new") == []


class Killed(BaseException):
    """A process that is gone: nothing of the program handles it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n_calls"), [("_store", 2), ("_put_receipt", 2)], ids=["a block", "a receipt"]
)
def test_a_night_that_was_killed_is_resumed(method, n_calls, tmp_path, monkeypatch):
    value = marginal()
    explain(value, frame_of(X[YESTERDAY], range(700)), tmp_path / "old")
    tonight = night()
    carried = carried_from(tmp_path / "old", tonight.positions)
    whole = getattr(CubeWriter, method)
    calls = []

    def dying(*args):
        calls.append(args)
        if len(calls) == n_calls:
            raise Killed
        return whole(*args)

    monkeypatch.setattr(CubeWriter, method, dying)
    with pytest.raises(Killed):
        explain(value, tonight.rows, tmp_path / "new", carried=carried)
    monkeypatch.undo()
    other = carried_from(tmp_path / "old", np.where(tonight.positions == 3, -1, tonight.positions))
    with pytest.raises(StoreMismatchError, match="carried"):
        explain(value, tonight.rows, tmp_path / "new", carried=other)
    carried = carried_from(tmp_path / "old", tonight.positions)
    explain(value, tonight.rows, tmp_path / "new", carried=carried)
    explain(value, tonight.rows, tmp_path / "at once", carried=carried)
    found, wanted = values_of(tmp_path / "new"), values_of(tmp_path / "at once")
    for name, values in wanted.items():
        assert_same(found[name], values)
    assert verify_cube(tmp_path / "new") == []


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", ["marginal, exact", "kernelshap, several parts"])
def test_the_same_bits_on_a_cluster(name, client, tmp_path):
    case = CASES[name]
    given = {"design": case.design, **case.options}
    tonight = night()
    stores = []
    for executor in (LoopExecutor(), DaskExecutor(client)):
        place = tmp_path / type(executor).__name__
        explain(case.make(), frame_of(X[YESTERDAY], range(700)), place / "old", executor=executor, **given)  # fmt: skip
        carried = carried_from(place / "old", tonight.positions)
        explain(case.make(), tonight.rows, place / "new", executor=executor, carried=carried, **given)  # fmt: skip
        stores.append(values_of(place / "new"))
    for variable, values in stores[0].items():
        assert_same(stores[1][variable], values)


def test_a_cube_of_another_method_is_refused(tmp_path):
    rows = frame_of(X[YESTERDAY], range(700))
    explain(marginal(), rows, tmp_path / "old")
    carried = carried_from(tmp_path / "old", np.arange(700))
    for value, options, said in [
        (marginal(lambda x: 2 * two_outputs(x)), {}, "value"),
        (marginal(), {"dtype": "float32"}, "options"),
        (marginal(), {"keep_rows": True}, "options"),
        (marginal(), {"key": ("at",)}, "keys"),
        (marginal(), {"missing": "skip"}, "missing"),
        (marginal(), {"design": designs.permutation(D, 120)}, "design"),
        (marginal(players={"both": ["a", "c"]}), {}, "players"),
    ]:
        with pytest.raises(StoreMismatchError, match=f"cannot be carried.*{said}.*explain all"):
            explain(value, rows, tmp_path / "new", carried=carried, **options)
        assert not (tmp_path / "new").exists()


def test_positions_that_are_none_are_refused(tmp_path):
    rows = frame_of(X[YESTERDAY], range(700))
    explain(marginal(), rows, tmp_path / "old")
    for positions, said in [
        (np.arange(699), r"contains int64 \(699,\): give int64 \(700,\)"),
        (np.arange(700) + 1, "row 700 cannot be carried.*no finished block"),
        (np.arange(700) - 2, "row -2 cannot be carried"),
    ]:
        carried = carried_from(tmp_path / "old", positions)
        with pytest.raises(InputError, match=said):
            explain(marginal(), rows, tmp_path / "new", carried=carried)
    np.save(tmp_path / "old.npy", np.arange(700.0))
    with pytest.raises(InputError, match="contains float64"):
        explain(marginal(), rows, tmp_path / "new", carried=carried)
    (tmp_path / "old/state/receipts/block-00000001.json").unlink()
    carried = carried_from(tmp_path / "old", np.arange(700))
    with pytest.raises(InputError, match=r"row 256 cannot be carried.*no finished block"):
        explain(marginal(), rows, tmp_path / "new", carried=carried)
    carried = carried_from(tmp_path / "none", np.arange(700))
    with pytest.raises(InputError, match="is not an attribution cube"):
        explain(marginal(), rows, tmp_path / "new", carried=carried)


def test_another_base_value_is_refused_and_leaves_nothing(tmp_path):
    rows = frame_of(X[YESTERDAY], range(700))
    explain(marginal(), rows, tmp_path / "old")
    base = zarr.open_array(tmp_path / "old/base_value", mode="r+")
    base[...] = np.asarray(base[...]) + 1e-15
    carried = carried_from(tmp_path / "old", np.arange(700))
    with pytest.raises(InputError, match=r"the base value is .* its rows cannot be carried"):
        explain(marginal(), rows, tmp_path / "new", carried=carried)
    assert not (tmp_path / "new").exists()


def test_the_note_says_what_was_carried(tmp_path):
    rows = frame_of(X[YESTERDAY], range(700))
    explain(marginal(), rows, tmp_path / "old", design=designs.permutation(D, 120))
    positions = np.arange(700)
    positions[:7] = -1
    carried = carried_from(tmp_path / "old", positions)
    explain(marginal(), rows, tmp_path / "new", design=designs.permutation(D, 120), carried=carried)
    note = json.loads(open_cube(tmp_path / "new").attrs["carried"])
    assert note["rows"] == 693
    assert note["of"] == 700
    assert "upper bounds" in note["errors_of_means"]
    shown = "\n".join(accuracy_lines(accuracy({"reasons": tmp_path / "new"})))
    assert (
        "reasons: 693 of 700 rows carried from the night before; errors of means are upper" in shown
    )
