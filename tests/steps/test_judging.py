"""Checks: their tables, the numbers that they judge, and on which side of a bound these pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.history.baselines import accept
from dshap.history.run_record import CheckResult, ExplanationFacts, RunFacts, write_record
from dshap.jobfile.check_tables import CHECKS
from dshap.jobs import parse_job
from dshap.steps.judging import MEASURES, judge, ndcg_of_rankings, refuse_unknown_runs
from dshap.values import Marginal
from tests.jobs.job_files import changed

NIGHT = datetime(2026, 11, 27, 3, 15, tzinfo=UTC)
FOUND = ExplanationFacts(
    "reasons",
    "partial success",
    rows=1_000,
    failed=5,
    cube=Path("cube"),
    accuracy={"residual": [1e-9, 3e-9], "mse_v": {"mse": [0.5, 2.0], "share_of_variance": [0.1]}},
    ranking={"y": {"a": 3.0, "b": 2.0, "c": 1.0}},
)


def run(run_id: str, *explanations: ExplanationFacts) -> RunFacts:
    return RunFacts(run_id, "shop", NIGHT, NIGHT, explanations=explanations or (FOUND,))


def check(kind: str, **keys):
    return CHECKS({"kind": kind, **keys})


def judged(store: Path, kind: str, facts: ExplanationFacts = FOUND, **keys):
    (result,) = judge([check(kind, **keys)], run("20261127T031500Z", facts), store)
    return result


def test_the_largest_and_the_median_standard_error(tmp_path):
    """On the bound and beyond it; skipped where no coalition was sampled."""
    rows = np.random.default_rng(0).normal(size=(9, 12))
    value = Marginal(lambda x: np.prod(1 + 0.3 * x, axis=1), rows[:3])
    design = dshap.designs.kernelshap(12, 200)
    cube = dshap.explain(value, rows, design=design, store=tmp_path / "cube")
    facts = replace(FOUND, cube=tmp_path / "cube")
    largest = float(cube.std_error.max())
    passed = judged(tmp_path, "std_error", facts, warn=largest, error=largest)
    assert (passed.status, passed.value, passed.metric) == ("pass", largest, "largest")
    failed = judged(tmp_path, "std_error", facts, error=0.99 * largest)
    assert failed.status == "error"
    assert "the largest std_error is" in failed.message
    median = judged(tmp_path, "std_error", facts, metric="median", warn=0.1 * largest)
    assert 0 < median.value < largest
    assert "the median of the rows' largest" in median.message
    dshap.explain(value, rows, design="exact", store=tmp_path / "exact")
    exact = judged(tmp_path, "std_error", replace(FOUND, cube=tmp_path / "exact"), error=0.0)
    assert exact.status == "skipped"
    assert "no standard errors" in exact.message


class Stated(dshap.Attributor):
    """Attributions of a sum, whose standard errors are those given: one for each row."""

    n_replicates = 1

    def __init__(self, errors):
        super().__init__(lambda x: x.sum(axis=1), np.zeros((1, 2)))
        self.errors = np.array(errors)

    def attribute(self, rows):
        phi = rows[:, :, None]
        errors = self.errors[rows[:, 0].astype(int), None, None]
        return self.attribution(rows, phi, base=np.zeros(1), replicates=(phi + errors)[None])


@pytest.mark.parametrize(("metric", "value"), [("largest", 0.4), ("median", 0.2)])
def test_rows_without_a_standard_error_are_left_out_and_counted(tmp_path, metric, value):
    stated = Stated([0.1, 0.2, np.nan, 0.4, np.nan])
    rows = np.column_stack([np.arange(5.0), np.ones(5)])
    dshap.explain(stated, rows, store=tmp_path / "cube")
    facts = replace(FOUND, cube=tmp_path / "cube")
    found = judged(tmp_path, "std_error", facts, metric=metric, error=1.0)
    assert found.status == "pass"
    assert found.value == pytest.approx(value, rel=0.01)
    assert found.message.endswith("without 2 of 5 rows, whose std_error is NaN")


@pytest.mark.parametrize("metric", ["largest", "median"])
def test_standard_errors_that_are_not_known_fail(tmp_path, metric):
    value = Marginal(lambda x: np.prod(1 + 0.3 * x, axis=1), np.zeros((1, 12)))
    rows = np.random.default_rng(0).normal(size=(5, 12))
    with pytest.warns(RuntimeWarning, match="std_error is NaN"):
        dshap.explain(value, rows, design=dshap.designs.kriging(12, 26), store=tmp_path / "cube")
    facts = replace(FOUND, cube=tmp_path / "cube")
    failed = judged(tmp_path, "std_error", facts, metric=metric, warn=0.1, error=0.2)
    assert (failed.status, failed.value, failed.bound) == ("error", None, 0.2)
    assert "no row has a standard error: std_error is NaN in each of 5 rows" in failed.message
    assert judged(tmp_path, "std_error", facts, metric=metric, warn=0.1).status == "warn"
    blocked = judged(tmp_path, "std_error", facts, metric=metric, error=0.2, blocks_sinks=True)
    write_record(tmp_path, replace(run("20261126T031500Z", facts), checks=(blocked,)))
    accept(tmp_path, "20261126T031500Z")
    again = judged(tmp_path, "std_error", facts, metric=metric, error=0.2, blocks_sinks=True)
    assert again.status == "warn"
    assert "accepted with run 20261126T031500Z" in again.message


def test_an_error_that_is_not_known_is_worse_than_a_number_that_was_accepted(tmp_path):
    known = CheckResult("std_error", "error", 0.3, 0.2, "", "std_error", "reasons", "largest")
    write_record(tmp_path, replace(run("20261126T031500Z"), checks=(known,)))
    accept(tmp_path, "20261126T031500Z")
    with pytest.warns(RuntimeWarning, match="std_error is NaN"):
        dshap.explain(
            Marginal(lambda x: np.prod(1 + 0.3 * x, axis=1), np.zeros((1, 12))),
            np.ones((2, 12)),
            design=dshap.designs.kriging(12, 26),
            store=tmp_path / "cube",
        )
    facts = replace(FOUND, cube=tmp_path / "cube")
    assert judged(tmp_path, "std_error", facts, error=0.2).status == "error"


# value on the bound passes; beyond it fails, on the side that is worse
@pytest.mark.parametrize(
    ("kind", "keys", "value", "better", "worse"),
    [
        ("additivity", {}, 3e-9, 4e-9, 2e-9),
        ("failed_rows", {}, 5.0, 6.0, 4.0),
        ("failed_rows", {"metric": "share"}, 0.005, 0.006, 0.004),
        ("row_count", {}, 1_000.0, 999.0, 1_001.0),
        ("mse_v", {}, 2.0, 2.1, 1.9),
        ("mse_v", {"metric": "share_of_variance"}, 0.1, 0.11, 0.09),
    ],
)
def test_a_bound_and_its_two_sides(tmp_path, kind, keys, value, better, worse):
    passed = judged(tmp_path, kind, **keys, warn=value, error=value)
    assert (passed.status, passed.value) == ("pass", pytest.approx(value))
    assert judged(tmp_path, kind, **keys, error=better).status == "pass"
    assert judged(tmp_path, kind, **keys, warn=worse).status == "warn"
    failed = judged(tmp_path, kind, **keys, error=worse)
    assert (failed.status, failed.bound) == ("error", worse)
    assert f"error = {worse:g} allows at" in failed.message


def test_what_cannot_be_measured_is_not_judged(tmp_path):
    nothing = replace(FOUND, accuracy={"residual": []}, ranking={})
    for kind in ("additivity", "mse_v"):
        result = judged(tmp_path, kind, nothing, error=0.0)
        assert (result.status, result.value) == ("skipped", None), kind
    assert judged(tmp_path, "drift", error=0.9).message == (
        "there is no earlier run to compare with"
    )
    assert judged(tmp_path, "row_count", metric="ratio", error=0.9).status == "skipped"
    assert judged(tmp_path, "additivity", replace(FOUND, cube=None), error=9.0).status == "skipped"


def test_drift_is_against_the_run_before_or_a_named_one(tmp_path):
    turned = replace(FOUND, ranking={"y": {"a": 1.0, "b": 2.0, "c": 3.0}}, rows=2_000)
    write_record(tmp_path, run("20261125T031500Z", turned))
    write_record(tmp_path, run("20261126T031500Z"))
    # a night without work, and one that broke off, are no runs to compare with
    write_record(tmp_path, run("20261126T041500Z", ExplanationFacts("reasons", "skipped")))
    (tmp_path / "runs" / "20261126T051500Z").mkdir()
    same = judged(tmp_path, "drift", error=1.0)
    assert (same.status, same.value) == ("pass", 1.0)
    assert "20261126T031500Z" in same.message
    other = judged(tmp_path, "drift", against="20261125T031500Z", warn=0.95, error=0.5)
    # worth 1, 2, 3 in the order a, b, c
    discounts = 1 / np.log2([2, 3, 4])
    assert other.value == pytest.approx((discounts @ [1, 2, 3]) / (discounts @ [3, 2, 1]))
    assert (other.status, other.bound) == ("warn", 0.95)
    fewer = judged(tmp_path, "row_count", replace(FOUND, rows=900), metric="ratio", error=0.9)
    assert (fewer.value, fewer.status) == (0.9, "pass")


def test_a_named_run_without_these_attributions_is_named(tmp_path):
    """It said that there was no earlier run."""
    skipped = ExplanationFacts("reasons", "skipped")
    write_record(tmp_path, run("20261126T031500Z", skipped))
    result = judged(tmp_path, "drift", against="20261126T031500Z", error=0.9)
    said = "run 20261126T031500Z has no attributions of reasons to compare with"
    assert (result.status, result.message) == ("skipped", said)
    later = judged(tmp_path, "drift", against="20261128T031500Z", error=0.9)
    assert later.message == "no earlier run of the store is 20261128T031500Z"


def test_rankings_of_other_outputs_are_not_compared(tmp_path):
    """Scores of classes were called log-odds: nothing would agree with nothing, as 1."""
    named = replace(FOUND, ranking={"log-odds of a": {"a": 3.0, "b": 2.0}})
    write_record(tmp_path, run("20261126T031500Z", named))
    now = replace(FOUND, ranking={"score of a": {"a": 3.0, "b": 2.0}})
    result = judged(tmp_path, "drift", now, error=0.9)
    assert (result.status, result.value) == ("skipped", None)
    assert "explained the outputs log-odds of a, and this one score of a" in result.message


def test_a_run_that_the_store_does_not_know_is_refused_before_anything(tmp_path):
    write_record(tmp_path, run("20261126T031500Z"))
    refuse_unknown_runs([check("drift", error=0.9)], tmp_path)
    refuse_unknown_runs([check("drift", error=0.9, against="20261126T031500Z")], tmp_path)
    with pytest.raises(InputError, match=r"unknown run '20261126T031501Z'.*did you mean"):
        refuse_unknown_runs([check("drift", error=0.9, against="20261126T031501Z")], tmp_path)


def test_columns_that_came_and_went_are_worth_nothing_where_they_are_not():
    before = {"a": 2.0, "b": 1.0}
    assert ndcg_of_rankings(before, {"a": 5.0, "b": 4.0, "new": 1.0}) == 1.0
    assert ndcg_of_rankings(before, {"new": 9.0, "a": 5.0, "b": 4.0}) < 1.0
    assert ndcg_of_rankings({}, before) == 1.0  # nothing was worth anything


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ([{"kind": "drft", "error": 1}], "unknown kind 'drft'; did you mean 'drift'?"),
        ([{"kind": "drift", "explain": "observational"}], "compares with nothing without a bound"),
        ([{"kind": "drift", "explain": "observational", "metric": "spi", "error": 1}],
         "[[check]] number 1 unknown metric 'spi'; did you mean 'psi'?"),
        ([{"kind": "drift", "explain": "observational", "metric": "psi", "warn": 0.9, "error": 0.8}],
         "it would fail before it warns; give a warn of at most 0.8"),
        ([{"kind": "drift", "explain": "observational", "warn": 0.8, "error": 0.9}],
         "it would fail before it warns; give a warn of at least 0.9"),
        ([{"kind": "failed_rows", "explain": "observational", "warn": 9, "error": 1}],
         "it would fail before it warns; give a warn of at most 1"),
        ([{"kind": "failed_rows", "error": -1}], "error = -1: give at least 0"),
        ([{"kind": "drift", "error": 0.9}],
         "[[check]] drift: the job has 2 explanations: give explain = one of interventional, obs"),
        ([{"kind": "drift", "error": 0.9, "explain": "observation"}],
         "[[check]] drift unknown explain 'observation'; did you mean 'observational'?"),
        ([{"kind": "mse_v", "error": 0.9, "explain": "observational"}],
         "MSE_v is measured only if [[explain]] observational has quality_rows"),
        ([{"kind": "row_count", "error": 9, "explain": "observational"}] * 2,
         "two [[check]] are named 'observational.row_count'"),
        ([{"kind": "row_count", "eror": 9, "name": "size"}],
         "[[check]] size unknown key 'eror'; did you mean 'error'?"),
        ({"kind": "row_count", "error": 9}, "begin each check with [[check]], in two brackets"),
    ],
)  # fmt: skip
def test_a_table_that_says_nothing_is_refused(checks, said):
    with pytest.raises(InputError) as raised:
        parse_job(changed(("check", checks)))
    assert said in str(raised.value)


def test_a_job_with_checks_and_their_names():
    tables = [
        {"kind": "drift", "explain": "observational", "warn": 0.95, "error": 0.9},
        {"kind": "failed_rows", "explain": "interventional", "error": 0, "blocks_sinks": True},
    ]
    job = parse_job(changed(("check", tables)))
    assert [each.kind for each in job.check] == ["drift", "failed_rows"]
    assert [each.blocks_sinks for each in job.check] == [False, True]
    assert parse_job(changed()).check == []


def test_every_kind_of_check_is_measured():
    assert set(MEASURES) == set(CHECKS.known)
