"""Tables, from numbers that are known."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy

import dshap
from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.rankings import student_reach
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import InputError
from dshap.report import (
    Ranking,
    breakdown,
    breakdown_lines,
    ranking_lines,
    rankings,
)
from tests.report.pictures.test_words_and_pixels import ODD_NAMES

RANKINGS = [
    Ranking("one", 10, {"a": 1.0, "b": 20.0, "c": 0.5}, {"a": -1.0, "b": 2.0, "c": 0.0}),
    Ranking("two", 8, {"a": 3.0, "b": 10.0, "d": 0.25}, {"a": 3.0, "b": -2.0, "d": 0.0}),
]


@pytest.fixture
def cubes(tmp_path) -> dict[str, Path]:
    """Two linear models: attributions are weight × (x − mean), known in closed form."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=["a", "b", "c"])
    frame["id"] = pd.date_range("2011-01-01", periods=50)
    paths = {}
    for name, weights in (("one", [1.0, -20.0, 300.0]), ("two", [3.0, 2.0, 1.0])):
        value = dshap.values.Marginal(_Linear(weights), frame[["a", "b", "c"]])
        paths[name] = tmp_path / name
        dshap.explain(value, frame, key="id", store=paths[name], keep_rows=True)
    return paths


class _Linear:
    def __init__(self, weights):
        self.weights = np.array(weights)

    def __call__(self, x):
        return x @ self.weights


def of_names(names):
    """Rankings of explanations, each of these names for features too."""
    numbers = {name: 1.0 + j for j, name in enumerate(names)}
    return [Ranking(name, 10, numbers, numbers) for name in names]


@pytest.mark.slow
def test_lines_are_no_wider_than_names_of_an_ordinary_length():
    lines = ranking_lines(of_names(ODD_NAMES[:5]), "x" * 9_000)
    assert max(map(len, lines)) < 500
    assert len(lines) == 3 + 5


def test_ranking_lines():
    lines = ranking_lines(RANKINGS, "m")
    assert lines[0] == "attributions (m), over 10 rows (one), 8 rows (two, too few for intervals)"
    assert [line.split()[0] for line in lines[3:]] == ["b", "a", "c", "d"]
    assert lines[3].split() == ["b", "20.00", "+2.00", "10.00", "-2.00"]
    assert lines[-1].split() == ["d", "—", "—", "0.25", "+0.00"]
    assert len({len(line) for line in lines[1:]}) == 1  # columns are aligned


def test_digits_follow_the_interval():
    """t of 9 degrees of freedom is 2.262; a constant is "40", and not "40 ± 0"."""
    means = {"a": 12.3456, "b": 40.0}
    ranking = Ranking(
        "one", 10, means, {"a": -12.3456, "b": 40.0},
        magnitude_spread={"a": 0.1, "b": 0.0}, mean_spread={"a": 0.01, "b": 0.0},
    )  # fmt: skip
    lines = ranking_lines([ranking], texts=ColumnTexts(ColumnDictionary.of({"a": {"label": "Ä"}})))
    assert lines[2].split("  ")[-1].strip() == "mean φ ± 95 %"
    assert lines[3].split() == ["b", "40", "+40"]
    assert lines[4].split() == ["Ä", "12.35", "±", "0.23", "-12.346", "±", "0.023"]
    assert len({len(line) for line in lines[1:]}) == 1
    unknown = replace(ranking, magnitude_error={"a": np.nan, "b": 0.0})
    assert ranking_lines([unknown])[4].split()[:4] == ["a", "12.35", "±", "—"]
    few = ranking_lines([replace(ranking, rows=9)])
    assert "±" not in "".join(few)
    assert "9 rows (one, too few for intervals)" in few[0]


@pytest.mark.parametrize("degrees", [9, 10, 29, 1_000_000])
def test_the_reach_of_an_interval(degrees):
    assert student_reach(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), rel=1e-5)


def test_no_interval_reaches_below_0():
    ranking = Ranking("one", 10, {"a": 1.0}, {"a": 0.0}, magnitude_spread={"a": 2.0})
    assert ranking.interval("a") == (0.0, pytest.approx(1 + 2 * 2.26216, rel=1e-5))
    with_both = replace(ranking, magnitude_error={"a": 3.0})
    assert with_both.half_width("a") == pytest.approx(np.hypot(2 * 2.26216, 1.96 * 3.0), rel=1e-5)


@pytest.mark.parametrize(
    ("n", "error", "is_said"), [(300, 0.1, False), (301, 0.1, True), (301, 0.0, False)]
)
def test_mean_magnitudes_of_many_features_are_too_small(n, error, is_said):
    """Said of more than 300 features by sampled coalitions, whose errors are not 0."""
    numbers = {f"f{i}": float(i) for i in range(n)}
    errors = dict.fromkeys(numbers, error)
    lines = ranking_lines([Ranking("wide", 10, numbers, numbers, errors, errors)])
    assert (
        lines[-1].startswith(
            "wide: with more than 300 features and sampled coalitions, mean |φ| is too small"
        )
        == is_said
    )
    assert lines[-1].endswith("(here 301 features)") == is_said


def test_rankings_of_cubes(cubes):
    ranked = rankings(cubes)
    phi = dshap.open_cube(cubes["one"]).attribution.isel(output=0)
    assert [ranking.label for ranking in ranked] == ["one", "two"]
    assert ranked[0].rows == 50
    assert list(ranked[0].magnitude.values()) == pytest.approx(abs(phi).mean("instance").values)
    assert list(ranked[0].mean.values()) == pytest.approx(phi.mean("instance").values, abs=1e-9)
    assert not ranked[0].has_errors, "all coalitions count"
    for feature in "abc":
        values = phi.sel(feature=feature).values
        for found, sample in (
            (ranked[0].half_width(feature), abs(values)),
            (ranked[0].mean_half_width(feature), values),
        ):
            inside = scipy.stats.ttest_1samp(sample, 0.0).confidence_interval(0.95)
            assert 2 * found == pytest.approx(inside.high - inside.low)


def test_rows_are_those_of_the_summaries(cubes, monkeypatch):
    """The count comes with the ranking: no pass over the status of every row."""
    for rows in (5, 17):
        counted = replace(dshap.cube.stored_importance(cubes["one"]), rows=rows)
        monkeypatch.setattr(
            "dshap.analysis.rankings.stored_importance", lambda path, counted=counted: counted
        )
        assert rankings({"one": cubes["one"]})[0].rows == rows


def test_breakdown(cubes):
    row = breakdown(cubes, ["2011-01-04"])
    assert row.position == 3
    assert row.key == {"id": "2011-01-04"}
    assert set(row.values) == {"a", "b", "c"}
    for part in row.parts:
        assert part.base_value + sum(part.attribution.values()) == pytest.approx(part.prediction)
    lines = breakdown_lines(row, "m")
    assert lines[0] == "one row (id = 2011-01-04), m"
    assert [line.split()[0] for line in lines[3:-1]] == sorted(
        row.values, key=lambda name: -abs(row.parts[0].attribution[name])
    )
    printed = [float(re.split(r"\s+", line.strip().replace(",", ""))[-2]) for line in lines[2:]]
    assert sum(printed[:-1]) == pytest.approx(printed[-1], abs=0.05 * len(printed))
    assert breakdown(cubes).position == 0


def test_a_breakdown_has_labels_and_values_in_their_formats(cubes):
    words = {"a": {"label": "Größe", "unit": "m", "format": ".1f"}, "id": {"label": "Tag"}}
    lines = breakdown_lines(
        breakdown(cubes, ["2011-01-04"]), "m", ColumnTexts(ColumnDictionary.of(words))
    )
    assert lines[0] == "one row (Tag = 2011-01-04), m"
    (of_a,) = (line for line in lines if line.startswith("Größe"))
    value = dshap.open_cube(cubes["one"])["row_a"].values[3]
    assert f" {value:.1f} m " in of_a


@pytest.mark.parametrize(
    ("key", "said"), [(["2012-01-01"], "no row has the key"), (["a", 1], "the key has 1 columns")]
)
def test_a_row_that_is_not_there(cubes, key, said):
    with pytest.raises(InputError, match=said):
        breakdown(cubes, key)


def test_a_cube_without_keys_or_rows(tmp_path):
    x = np.random.default_rng(1).normal(size=(20, 2))
    dshap.explain(dshap.values.Marginal(_Linear([1.0, 2.0]), x), x, store=tmp_path / "c")
    row = breakdown({"c": tmp_path / "c"}, [7])
    assert row.position == 7
    assert row.key == {}
    assert row.values == {}
    assert breakdown_lines(row)[0] == "one row (row 7)"
    with pytest.raises(InputError, match="position from 0 to 19"):
        breakdown({"c": tmp_path / "c"}, [20])


def test_a_pending_row(tmp_path):
    x = np.random.default_rng(1).normal(size=(20, 2))
    dshap.explain(
        dshap.values.Marginal(_Linear([1.0, 2.0]), x), x, store=tmp_path / "c", compute=False
    )
    assert breakdown_lines(breakdown({"c": tmp_path / "c"}))[0] == "one row (row 0) (c: pending)"
    assert rankings({"c": tmp_path / "c"}) == []
