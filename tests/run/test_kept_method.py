"""A method that no row of tonight changes: two tables have one METHOD, and a row that stands in both
has the same attributions."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap import designs
from dshap.core.errors import InputError, StoreMismatchError
from dshap.cube import open_cube, read_notes, read_run, verify_cube
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.run.carrying import Carried
from dshap.run.explanation import Explanation
from dshap.run.kept_method import fixed_method
from dshap.run.measuring import measure
from dshap.run.session import open_session
from dshap.tables import ArraySource
from dshap.values import (
    ConditionalRegression,
    Copula,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Tokens,
    Trees,
)

pytestmark = [
    pytest.mark.usefixtures("in_this_process"),
    pytest.mark.filterwarnings("ignore:.*standard errors:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:std_error is NaN:RuntimeWarning"),
]

D = 9
NAMES = list("abcdefghi")
X = np.random.default_rng(0).normal(size=(400, D))
CALLS: list[int] = []
"""The rows of each call of `counted`."""


def product(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) * x[:, 3] + x[:, 4] * x[:, 5] * x[:, 6]


def other(x):
    return product(x) + x[:, 0]


def counted(x):
    CALLS.append(len(x))
    return product(x)


def steps(x):
    """No row differs from the background in most coalitions: their errors have the floor."""
    return (x > 1.5).all(axis=1) * 1.0


def marginal(predict=product, background=X[:10], **options):
    return Marginal(predict, background, feature_names=NAMES, **options)


def streamed():
    return marginal(background=ArraySource(X[:50], feature_names=NAMES))


def observational():
    return KernelObservational(kernel_model(), X[:200], Nystrom(20), 1e-3)


def regression(data=X[:200]):
    return ConditionalRegression(product, data, RBF(2.0), Nystrom(30), 1e-3, feature_names=NAMES)


def kernel_model():
    frame = pd.DataFrame(X[:300], columns=NAMES)
    return KernelRidge(RBF(2.0), Nystrom(40), 1e-6).fit(frame, product(X[:300]))


def trees(background=None):
    import xgboost

    frame = pd.DataFrame(X, columns=NAMES)
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(frame, product(X))
    return Trees(model, background)


@dataclass(frozen=True)
class Case:
    """A value function, its design, its options."""

    make: Any
    design: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tolerance(self):
        """Rows beside others round otherwise; a process of its own for each row multiplies that."""
        return 1e-3 if "kriging" in str(self.design).lower() else 1e-8


CASES = {
    "marginal, exact": Case(marginal),
    "marginal, kriging": Case(marginal, designs.kriging(D, 60)),
    "marginal, kriging with processes of its own": Case(
        marginal, designs.kriging(D, 120, sparse=True)
    ),
    "marginal, kernelshap": Case(marginal, designs.kernelshap(D, 120)),
    "marginal that hardly moves": Case(lambda: marginal(steps), designs.kernelshap(D, 120)),
    "marginal, one row": Case(lambda: marginal(background=X[:1]), designs.kriging(D, 60)),
    "marginal, sampled by name": Case(marginal, "permutation", {"max_coalitions": 400}),
    "marginal of a table": Case(streamed, "kernelshap", {"max_coalitions": 120}),
    "marginal of a table, kriging": Case(streamed, designs.kriging(D, 60)),
    "interactions": Case(marginal, options={"interactions": True}),
    "rounds": Case(marginal, "kernelshap", {"tol": 0.2}),
    "rounds of kriging": Case(regression, "kriging", {"tol": 0.2}),
    "rounds of an exact design": Case(marginal, "exact", {"tol": 0.2}),
    "regression": Case(regression),
    "regression, kriging": Case(regression, designs.kriging(D, 120)),
    "normal": Case(lambda: Gaussian(product, X[:100], feature_names=NAMES, n_samples=8), designs.kernelshap(D, 120)),
    "copula": Case(lambda: Copula(product, X[:100], feature_names=NAMES, n_samples=8), designs.kernelshap(D, 120)),
    "observational": Case(observational, designs.kernelshap(D, 120)),
    "interventional": Case(lambda: KernelInterventional(kernel_model(), X[:50])),
    "quadrature": Case(lambda: KernelInterventional(kernel_model(), X[:50]), "quadrature"),
    "linear": Case(lambda: LinearGaussian(np.arange(1.0, D + 1.0), data=X)),
    "linear, of given moments": Case(lambda: LinearGaussian(np.ones(D), 0.5, np.zeros(D), np.eye(D))),
    "trees": Case(trees),
    "trees with interactions": Case(trees, options={"interactions": True}),
    "trees with a background": Case(lambda: trees(X[:20])),
}  # fmt: skip


def frame_of(x):
    return pd.DataFrame(x, columns=NAMES)


def fix(case, folder, *, value=None, n_rows=400, **more):
    with open_session(folder / "fix", None, False, case.options) as (_, session):
        return fixed_method(
            value or case.make(), session, folder, design=case.design, n_rows=n_rows, **more
        )


def explain(case, fixed, x, path, *, value=None, carried=None, **options):
    """A night on its own: the value function is constructed anew."""
    with open_session(path, None, False, case.options | options) as (store, session):
        explanation = Explanation.of(
            value or case.make(), frame_of(x), store, session, prepared=fixed, carried=carried
        )
        return explanation.run(session)


def nights():
    """Two tables that share rows 10 to 40; in the second two columns are constant, one is far away,
    and its first rows are others."""
    first = X[200:260]
    second = np.concatenate([X[300:320], X[210:240]])
    second[:, [1, 8]] = 0.25
    second[20:] = X[210:240]
    constant = X[210:211].repeat(25, axis=0)
    constant[:, 0] += np.arange(25) * 1e3
    return first, second, constant


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_tables_have_one_method_and_a_row_of_both_the_same_attributions(name, tmp_path):
    case = CASES[name]
    fixed = fix(case, tmp_path / "prepared")
    assert fixed.path == tmp_path / "prepared" / fixed.digest
    first, second, constant = nights()
    for i, rows in enumerate((first, second, constant)):
        opened = fix(case, tmp_path / "prepared", method=fixed.digest)
        assert opened.digest == fixed.digest
        explain(case, opened, rows, tmp_path / str(i))
        run = read_run(tmp_path / str(i))
        assert run["method"] == fixed.digest
        assert verify_cube(tmp_path / str(i)) == []
        made = {each.name.split("-")[0] for each in (tmp_path / str(i) / "state").glob("*.npz")}
        assert made <= {"partial", "probe"}, "nothing is learned at night"
    cubes = [open_cube(tmp_path / str(i)) for i in range(3)]
    assert cubes[0].sizes["feature"] == cubes[1].sizes["feature"] == D
    for variable in cubes[0].data_vars:
        if "instance" in cubes[0][variable].dims:
            found = cubes[1][variable].values[20:50]
            wanted = cubes[0][variable].values[10:40]
            np.testing.assert_allclose(found, wanted, rtol=case.tolerance, atol=case.tolerance)
    alone = cubes[2].attribution.values[0]
    np.testing.assert_allclose(
        alone, cubes[0].attribution.values[10], rtol=case.tolerance, atol=case.tolerance
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marginal, kriging", "regression, kriging", "trees", "rounds"])
def test_a_night_carries_rows_of_the_night_before(name, tmp_path):
    case = CASES[name]
    fixed = fix(case, tmp_path / "prepared")
    explain(case, fixed, X[200:260], tmp_path / "old")
    rows = np.concatenate([X[230:260], X[300:303], X[200:220]])
    positions = np.concatenate([np.arange(30, 60), [-1] * 3, np.arange(20)])
    np.save(tmp_path / "positions.npy", positions)
    carried = Carried(tmp_path / "old", tmp_path / "positions.npy")
    explain(case, fixed, rows, tmp_path / "new", carried=carried)
    explain(case, fixed, rows, tmp_path / "anew")
    old, new, anew = (open_cube(tmp_path / each) for each in ("old", "new", "anew"))
    at = np.flatnonzero(positions >= 0)
    for variable in (name for name in old.data_vars if "instance" in old[name].dims):
        wanted = old[variable].values[positions[at]]
        np.testing.assert_array_equal(new[variable].values[at], wanted)
        np.testing.assert_allclose(
            new[variable], anew[variable], rtol=case.tolerance, atol=case.tolerance
        )
    assert verify_cube(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("value", "design", "options", "n_rows"),
    [
        (marginal(other), designs.kernelshap(D, 120), {}, 400),
        (marginal(background=X[:11]), designs.kernelshap(D, 120), {}, 400),
        (regression(), designs.kernelshap(D, 120), {}, 400),
        (marginal(), designs.kernelshap(D, 120, seed=1), {}, 400),
        (marginal(), designs.kernelshap(D, 124), {}, 400),
        (marginal(), designs.kernelshap(D, 120), {"dtype": "float32"}, 400),
        (marginal(), designs.kernelshap(D, 120), {"tol": 0.3}, 400),
        (marginal(players={"both": ["a", "b"]}), designs.kernelshap(D - 1, 120), {}, 400),
    ],
    ids=["model", "background", "value", "seed", "coalitions", "dtype", "tol", "players"],
)
def test_another_method_has_another_digest_and_is_not_opened(
    value, design, options, n_rows, tmp_path
):
    known = Case(marginal, designs.kernelshap(D, 120))
    fixed = fix(known, tmp_path)
    asked = Case(lambda: value, design, options)
    another = fix(asked, tmp_path, n_rows=n_rows)
    assert another.digest != fixed.digest
    assert another.path.parent == fixed.path.parent
    assert fix(known, tmp_path).digest == fixed.digest
    with pytest.raises(StoreMismatchError, match="differs from the one of now in"):
        fix(asked, tmp_path, method=fixed.digest)


WIDE = 16
FLAG_NAMES = [f"c{i}" for i in range(WIDE)]
LATE_RULES = {
    "products": lambda x: np.prod(1.0 + 0.4 * x[:, 1:], axis=1),
    "regions": lambda x: 10.0 * (x[:, 1:5] > 0).all(axis=1) - 5.0 * (x[:, 5:8] > 0).all(axis=1),
    "sparse": lambda x: x[:, 1:4].prod(axis=1) + x[:, 4:7].prod(axis=1) + x[:, 7:10].prod(axis=1),
}
"""What a model adds where the first column is 1, which no row of the first night has."""


def test_its_mse_v_is_measured_from_the_states_that_are_kept(tmp_path):
    case = Case(regression, designs.kernelshap(D, 120))
    fixed = fix(case, tmp_path / "prepared")
    night = explain(case, fixed, X[:9], tmp_path / "cube")
    held_out = frame_of(X[200:])
    with open_session(tmp_path / "cube", None, False, {}) as (_, session):
        note = measure(night, held_out, session)
    expected = dshap.mse_v(case.make(), held_out, design=case.design, progress=False)
    assert note == expected.to_dict()


def rows_of_kind(flag, n, seed):
    rows = np.random.default_rng(seed).normal(size=(n, WIDE))
    rows[:, 0] = flag
    return rows


def attributions(cube):
    return cube["attribution"].values[:, :, 0]


@pytest.mark.parametrize("kind", LATE_RULES)
def test_a_new_kind_of_rows_is_explained_as_well_as_in_one_run(kind, tmp_path):
    """16 columns.  The pilot sees additive rows alone; later rows have products of all columns,
    others than the pilot's regions of trees, or three products of three columns.  At most 1.05
    times the error of kernelshap and 1.5 times that of a run of these rows alone."""

    def predict(x):
        return x[:, 1:].sum(axis=1) + x[:, 0] * LATE_RULES[kind](x)

    def value():
        return Marginal(predict, rows_of_kind(0, 6, 0), feature_names=FLAG_NAMES)

    case = Case(value, designs.kriging(WIDE, 1_024))
    rows = pd.DataFrame(rows_of_kind(1, 4, 1), columns=FLAG_NAMES)
    fixed = fix(case, tmp_path / "prepared")
    with open_session(tmp_path / "night", None, False, {}) as (store, session):
        Explanation.of(value(), rows, store, session, prepared=fixed).run(session)
    assert read_notes(tmp_path / "night")["counted"] == {"not_served": 4}
    truth = attributions(dshap.explain(value(), rows, design="exact"))

    def error(found):
        return np.sqrt(np.square(found - truth).mean() / np.square(truth).mean())

    found = error(attributions(open_cube(tmp_path / "night")))
    kernelshap = dshap.explain(value(), rows, design=designs.kernelshap(WIDE, 1_024))
    alone = dshap.explain(value(), rows, design=designs.kriging(WIDE, 1_024))
    assert found <= 1.05 * error(attributions(kernelshap))
    assert found <= 1.5 * max(error(attributions(alone)), 1e-5)


@pytest.mark.parametrize("sample_of", [None, 400], ids=["a background", "a sample"])
def test_a_night_counts_the_rows_that_its_pilot_does_not_serve(tmp_path, sample_of):
    """Of rows that are explained, in every block; carried ones are those of an earlier night."""

    def predict(x):
        return x[:, 1:].sum(axis=1) + x[:, 0] * LATE_RULES["products"](x)

    def value():
        rows = rows_of_kind(0, 4, 0)
        return Marginal(predict, rows, feature_names=FLAG_NAMES, sample_of=sample_of)

    case = Case(value, designs.kriging(WIDE, 256), {"instance_tile": 4})
    fixed = fix(case, tmp_path / "prepared")
    again = fix(case, tmp_path / "prepared", method=fixed.digest)
    assert again.chosen.fingerprint() == fixed.chosen.fingerprint()
    rows = np.concatenate([rows_of_kind(0, 6, 1), rows_of_kind(1, 3, 2)])
    frame = pd.DataFrame(rows, columns=FLAG_NAMES)

    def night(name, carried=None):
        with open_session(tmp_path / name, None, False, case.options) as (store, session):
            Explanation.of(value(), frame, store, session, prepared=fixed, carried=carried).run(
                session
            )
        return read_notes(tmp_path / name)["counted"], attributions(open_cube(tmp_path / name))

    first, found = night("first")
    assert first == {"not_served": 3}
    np.save(tmp_path / "positions.npy", np.array([0, 1, 2, 3, -1, -1, -1, -1, 8]))
    second, again = night("second", Carried(tmp_path / "first", tmp_path / "positions.npy"))
    assert second == {"not_served": 2}
    np.testing.assert_allclose(again, found, rtol=1e-9, atol=1e-9)
    assert verify_cube(tmp_path / "second") == []


def test_with_tol_and_in_runs_that_are_no_nights_rows_are_not_compared(tmp_path):
    case = CASES["rounds of kriging"]
    assert "checks_games" not in fix(case, tmp_path / "tol").chosen.fingerprint()
    assert fix(CASES["marginal, kriging"], tmp_path / "plain").chosen.design.checks_rows
    shared = Case(regression, designs.kriging(D, 60, sparse=False))
    assert not fix(shared, tmp_path / "shared").chosen.design.checks_rows
    apart = Case(regression, designs.kriging(D, 60, sparse=True))
    assert fix(apart, tmp_path / "apart").chosen.design.checks_rows
    cube = dshap.explain(marginal(), frame_of(X[:5]), design=designs.kriging(D, 60))
    assert "checks_games" not in cube.attrs["dshap_run"]
    assert "counted" not in cube.attrs


def test_per_row_processes_are_settled_by_the_first_night(tmp_path):
    """A million rows share a process; a small night later does too."""
    case = CASES["marginal, kriging"]
    large = fix(case, tmp_path, n_rows=1_000_000)
    assert large.digest != fix(case, tmp_path, n_rows=100).digest
    again = fix(case, tmp_path, n_rows=100, method=large.digest)
    assert again.chosen.fingerprint() == large.chosen.fingerprint()


def as_product(predict):
    """The function, under the name of `product`, as a model from a file keeps its name."""

    def renamed(x):
        return predict(x)

    renamed.__module__ = product.__module__
    renamed.__qualname__ = product.__qualname__
    return renamed


def test_a_file_of_a_model_identifies_it(tmp_path):
    """Its predictions then do not: another processor may round them otherwise."""
    case = Case(marginal, designs.kernelshap(D, 120))
    fixed = fix(case, tmp_path, model_sha256="a" * 64)
    assert fixed.identity["value"]["model_file"] == "a" * 64
    assert "predictions" not in fixed.identity["value"]
    near = marginal(as_product(lambda x: product(x) * (1 + 1e-15)))
    far = marginal(as_product(other))
    assert fix(case, tmp_path, value=near, model_sha256="a" * 64).digest == fixed.digest
    assert fix(case, tmp_path, model_sha256="b" * 64).digest != fixed.digest
    with pytest.raises(StoreMismatchError, match="value model_file"):
        fix(case, tmp_path, method=fixed.digest, model_sha256="b" * 64)
    with pytest.raises(StoreMismatchError, match="its predictions for the first rows of the data"):
        fix(case, tmp_path, value=far, method=fixed.digest, model_sha256="a" * 64)


def test_a_model_in_float32_is_known_again_on_another_processor(tmp_path):
    """One unit in the last place of a float32 is 1e-7 of a prediction; 1e-3 is another model."""

    def rounded(steps, scale=1.0):
        def predict(x):
            found = (scale * product(x)).astype(np.float32)
            for _ in range(steps):
                found = np.nextafter(found, np.float32(np.inf))
            return found

        return marginal(as_product(predict))

    case = Case(lambda: rounded(0), designs.kernelshap(D, 120))
    fixed = fix(case, tmp_path, model_sha256="a" * 64)
    for steps in (1, 2):
        again = fix(
            case, tmp_path, value=rounded(steps), method=fixed.digest, model_sha256="a" * 64
        )
        assert again.digest == fixed.digest
    with pytest.raises(StoreMismatchError, match="its predictions for the first rows of the data"):
        fix(case, tmp_path, value=rounded(0, 1.001), method=fixed.digest, model_sha256="a" * 64)


def test_opening_reads_no_row_of_the_data(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame(X, columns=NAMES).to_parquet(path)

    def make():
        return ConditionalRegression(
            counted, str(path), RBF(2.0), Nystrom(15), 1e-3, feature_names=NAMES
        )

    case = Case(make, designs.kriging(D, 60))
    fixed = fix(case, tmp_path / "prepared")
    path.unlink()
    CALLS.clear()
    opened = fix(case, tmp_path / "prepared", method=fixed.digest)
    assert sum(CALLS) <= 66
    assert opened.digest == fixed.digest
    explain(case, opened, X[:20], tmp_path / "cube")


@pytest.mark.slow
def test_what_is_damaged_is_learned_again(tmp_path):
    case = CASES["regression, kriging"]
    fixed = fix(case, tmp_path)
    files = {file.name: file.read_bytes() for file in (fixed.path / "state").glob("*.npz")}
    assert {re.split("[-.]", name)[0] for name in files} >= {"base", "moments", "pilot", "probe"}
    for name in files:
        (fixed.path / "state" / name).write_bytes(b"no state")
    opened = fix(case, tmp_path, method=fixed.digest)
    assert {file.name for file in (fixed.path / "state").glob("*.npz")} == files.keys()
    assert opened.chosen.fingerprint() == fixed.chosen.fingerprint()
    (fixed.path / "state" / min(files)).unlink()
    with pytest.raises(
        StoreMismatchError, match=r"differs from the one of now|is damaged, and its value"
    ):
        fix(case, tmp_path, value=regression(X[:150]), method=fixed.digest)
    shutil.rmtree(fixed.path)
    with pytest.raises(InputError, match="contains no method that is fixed"):
        fix(case, tmp_path, method=fixed.digest)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["learning.with_pilots", "learned_method.probe_of", "learned_method.mark_prepared"]
)
def test_learning_that_was_killed_is_resumed(step, tmp_path, monkeypatch):
    case = CASES["regression, kriging"]
    wanted = fix(case, tmp_path / "at once")

    class Killed(BaseException):
        """A process that is gone."""

    def dying(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"dshap.run.{step}", dying)
        with pytest.raises(Killed):
            fix(case, tmp_path / "killed")
    with pytest.raises(InputError, match="contains no method that is fixed"):
        fix(case, tmp_path / "killed", method=wanted.digest)
    states = (tmp_path / "killed").rglob("*.npz")
    kept = {each: each.stat().st_mtime_ns for each in states if "predictions" not in each.name}
    found = fix(case, tmp_path / "killed")
    assert found.digest == wanted.digest
    assert kept
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    assert found.chosen.fingerprint() == wanted.chosen.fingerprint()


def of_plan(frame):
    return frame["a"] * (frame["plan"] == "gold") + frame["b"]


def test_a_new_category_is_no_other_method(tmp_path):
    background = pd.DataFrame({"a": np.arange(6.0), "plan": ["gold", "tin"] * 3, "b": 1.0})
    tonight = pd.DataFrame({"a": [1.0, 2.0], "plan": ["gold", "new"], "b": [3.0, 4.0]})
    case = Case(lambda: Marginal(of_plan, background))
    fixed = fix(case, tmp_path / "prepared")
    for i, rows in enumerate((background, tonight)):
        with open_session(tmp_path / str(i), None, False, {}) as (store, session):
            opened = fixed_method(
                case.make(), session, tmp_path / "prepared", n_rows=6, method=fixed.digest
            )
            Explanation.of(case.make(), rows, store, session, prepared=opened).run(session)
        assert read_run(tmp_path / str(i))["method"] == fixed.digest
    cubes = [open_cube(tmp_path / str(i)) for i in range(2)]
    assert cubes[1].attribution.values[1, 1, 0] < 0
    assert cubes[0].sizes["feature"] == 3
    wanted = fix(case, tmp_path / "prepared").digest
    assert wanted == fixed.digest


def test_what_depends_on_the_rows_is_refused(tmp_path):
    with pytest.raises(InputError, match="has a player for each token of the longest text"):
        fix(Case(lambda: Tokens(lambda texts: np.zeros(len(texts)), 9)), tmp_path)
    with pytest.raises(InputError, match="stochastic=True needs several: explain the value"):
        fix(Case(marginal, options={"stochastic": True}), tmp_path)
    with pytest.raises(InputError, match='missing = "pass" is for black boxes'):
        fix(Case(regression, options={"missing": "pass"}), tmp_path)
    with pytest.raises(InputError, match=r"leave .* out for|lists no coalition|tol"):
        fix(Case(trees, options={"tol": 0.1}), tmp_path)
    assert not any(tmp_path.glob("[0-9a-f]*"))


def test_other_options_at_night_are_refused(tmp_path):
    case = CASES["marginal, exact"]
    fixed = fix(case, tmp_path / "prepared")
    with pytest.raises(StoreMismatchError, match="was fixed with another dtype"):
        explain(case, fixed, X[:9], tmp_path / "cube", dtype="float32")
    with (
        open_session(tmp_path / "cube", None, False, {}) as (store, session),
        pytest.raises(InputError, match="by another design: leave design"),
    ):
        Explanation.of(marginal(), frame_of(X[:9]), store, session, prepared=fixed, design="exact")
    assert not (tmp_path / "cube").exists()
