"""The number of predictions of a plan, counted by a model that counts; and the measured speed of one."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.jobs import load_job, plan_from_source
from dshap.steps import model_speed
from dshap.steps.model_speed import in_time, prediction_seconds
from tests.jobs.job_files import changed, small_table, write_job

MODEL = """
import pathlib
CALLS = pathlib.Path(__file__).with_name("calls")

def predict(x):
    with CALLS.open("a") as file:
        file.write(f"{len(x)}\\n")
    return x[:, 0] * x[:, 1] + x[:, 2]
"""
BLACK_BOX = (
    ("model", {"kind": "import", "function": "my_counting_model:predict"}),
    ("source.target", None),
    ("explain", [{"name": "m", "value": "marginal", "background": 40, "selection": "random"}]),
    ("run", {}),
)


@pytest.fixture
def folder(tmp_path):
    small_table(100).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "my_counting_model.py").write_text(MODEL)
    yield tmp_path
    sys.modules.pop("my_counting_model", None)


def counted(folder):
    """The rows that the model predicted since the last time."""
    calls = folder / "calls"
    found = sum(map(int, calls.read_text().split())) if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(
    ("explain", "each"),
    [
        ({"value": "marginal", "background": 40, "selection": "random"}, 40),
        ({"value": "gaussian", "n_samples": 60}, 60),
    ],
)
def test_a_plan_has_at_most_the_predictions_of_the_run(folder, explain, each):
    """They are those of rows × coalitions × background, but for equal rows and small looks."""
    path = write_job(folder, changed(*BLACK_BOX, ("explain", [{"name": "m", **explain}])))
    done = CliRunner().invoke(cli, ["plan", str(path), "--json"])
    assert done.exit_code == 0, done.output
    planned = json.loads(done.stdout)["predictions"]["m"]
    assert counted(folder) < 200  # the plan itself asks for a few rows only
    proper = 100 * 6 * each
    assert proper < planned < 1.1 * proper
    done = CliRunner().invoke(cli, ["run", str(path), "-q"])
    assert done.exit_code == 0, done.output
    asked = counted(folder)
    # beside its rows a run looks whether the model answers alike for rows alone and together
    assert 0.9 * proper < asked <= planned + 200


def test_the_line_of_a_plan(folder):
    text = str(plan_from_source(load_job(write_job(folder, changed(*BLACK_BOX)))))
    (line,) = (each for each in text.splitlines() if each.startswith("predictions"))
    assert "at most 24,1" in line
    assert "about 100 rows × 6 coalitions × 40 rows each" in line
    assert "dshap plan --probe 100" in line
    kernel = str(plan_from_source(load_job(write_job(folder, changed()))))
    assert "predictions of your model" not in kernel


def test_a_probe_of_a_job(folder):
    job = load_job(write_job(folder, changed(*BLACK_BOX, ("worker", {"cores": 1}))))
    plan = plan_from_source(job, n_probe=10)
    (found,) = plan.speeds
    assert (found.explain, found.n_rows, found.n_cores) == ("m", 10, 1)
    assert found.n_predictions == plan.explanations[0][1].n_predictions
    settings = {each.setting: each.n_predictions for each in found.alternatives}
    assert list(settings) == ["explain.m.background=20", "explain.m.background=10"]
    # what is said is what the smaller job plans
    for setting, n_predictions in settings.items():
        smaller = plan_from_source(load_job(folder / "job.toml", [setting]))
        assert smaller.explanations[0][1].n_predictions == n_predictions
    text = str(plan)
    assert "probe of m: the model predicted 10 rows" in text
    assert "--set explain.m.background=20" in text
    assert "errors of the background × 1.4" in text


def test_shards_have_the_time_of_the_probe(folder):
    """Of its 24,120 predictions a few are of learning; the shards share the others by their rows."""
    plan = plan_from_source(load_job(write_job(folder, changed(*BLACK_BOX))), shards=1, n_probe=20)
    (speed,) = plan.speeds
    ((_, planned),) = plan.explanations
    share = planned.stages[-1].predictions / planned.n_predictions
    (work,) = plan.shards.works
    assert work.to_dict()["seconds_of_one_core"] == pytest.approx(speed.core_seconds * share)
    assert "not known" not in "".join(plan.shards.lines())
    assert " on one core" in plan.shards.lines()[-1]


@pytest.mark.parametrize(
    ("design", "settings"),
    [
        ({}, ["design.max_coalitions=512", "design.max_coalitions=256"]),
        (
            {"kind": "kernelshap", "n_coalitions": 400},
            ["design.n_coalitions=200", "design.n_coalitions=100"],
        ),
        (
            {"kind": "permutation", "n_permutations": 60},
            ["design.n_permutations=30", "design.n_permutations=14"],
        ),
        ({"max_coalitions": 40}, ["design.max_coalitions=20"]),
    ],
)
def test_smaller_designs(tmp_path, design, settings):
    """Of ten columns; those that the columns do not allow are not offered."""
    (tmp_path / "my_counting_model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(10)]
    frame = small_table(50)[["id"]].assign(**{name: rng.normal(size=50) for name in names})
    frame.to_parquet(tmp_path / "table.parquet")
    changes = (*BLACK_BOX, ("source.features", names), ("design", design))
    job = load_job(write_job(tmp_path, changed(*changes)))
    (found,) = plan_from_source(job, n_probe=5).speeds
    offered = [each for each in found.alternatives if each.setting.startswith("design")]
    assert [each.setting for each in offered] == settings
    if not design:
        assert "sampled, not exact" in offered[0].effect
    for each in offered:
        plan = plan_from_source(load_job(tmp_path / "job.toml", [each.setting]))
        assert plan.explanations[0][1].n_predictions == each.n_predictions < found.n_predictions
    sys.modules.pop("my_counting_model", None)


def test_the_rate_is_that_of_a_call_that_takes_long_enough():
    """A clock that is 1 s for the first call, then 1 ms for a row and 2 ms for a call."""
    clock = {"now": 0.0, "calls": []}

    def predict(rows):
        clock["now"] += 1.0 if not clock["calls"] else 0.002 + 0.001 * len(rows)
        clock["calls"].append(len(rows))

    rows = np.arange(14.0).reshape(7, 2)
    found = prediction_seconds(predict, rows, 10_000, now=lambda: clock["now"])
    assert clock["calls"] == [7, 7, 28, 112, 448]
    assert found[:2] == (1.0, 448)
    assert found[2] == pytest.approx(0.450 / 448)
    clock["calls"] = []
    assert prediction_seconds(predict, rows, 50, now=lambda: clock["now"])[1] == 50
    assert clock["calls"] == [7, 7, 28, 50]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (59.9, "59.9 s"),
        (60, "1.0 min"),
        (3_600, "1.0 h"),
        (360_000, "100 h"),
        (6.1e10 * 1e-3, "16,944 h"),
        (6.1e10, "1,934 years"),
    ],
)
def test_times(seconds, text):
    assert in_time(seconds) == text


def test_a_probe_that_cannot_be(folder):
    for words, said in (
        (["--probe", "0"], "0 is not in the range x>=1"),
        (["--probe", "some"], "not a valid integer"),
    ):
        done = CliRunner().invoke(
            cli, ["plan", str(write_job(folder, changed(*BLACK_BOX))), *words]
        )
        assert done.exit_code == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    more = plan_from_source(load_job(folder / "job.toml"), n_probe=5_000)
    assert "the model predicted all 100 rows of the table" in str(more)
    kernel = plan_from_source(load_job(write_job(folder, changed())), n_probe=5)
    assert kernel.speeds == ()
    assert "no explanation calls the model for coalitions" in str(kernel)
    table = small_table(100)
    table["hum"] = np.nan
    table.to_parquet(folder / "table.parquet")
    skipping = write_job(folder, changed(*BLACK_BOX, ("source.missing", "skip")))
    with pytest.raises(InputError, match="every one of these rows has a missing value"):
        model_speed.rows_of_probe(_reader(load_job(skipping)), 5)


def _reader(job):
    from dshap.jobinput.job_rows import open_table

    return open_table(job)


TEXT_MODEL = """
import pathlib
CALLS = pathlib.Path(__file__).with_name("calls")

def predict(ids):
    with CALLS.open("a") as file:
        file.write(f"{len(ids)} {ids.shape[1]}\\n")
    return (ids == 1).sum(axis=1) * 1.0 - (ids == 2).sum(axis=1)
"""
LENGTHS = [1, 3, 3, 5, 5, 5]


@pytest.fixture
def texts(tmp_path):
    """Texts of one, three and five tokens; the model counts its calls, and their lengths."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 9, length).tolist() for length in LENGTHS * 4]
    pd.DataFrame({"id": range(len(ids)), "words": ids}).to_parquet(tmp_path / "texts.parquet")
    (tmp_path / "my_text_model.py").write_text(TEXT_MODEL)
    yield tmp_path
    sys.modules.pop("my_text_model", None)


def text_job(folder, **more):
    given = {
        "job": {"name": "texts", "store": "store"},
        "source": {"kind": "texts", "path": "texts.parquet", "key": ["id"], "column": "words"},
        "model": {"kind": "import", "function": "my_text_model:predict"},
        "explain": [{"name": "words", "value": "tokens", "vocabulary": 9, "padding": 0}],
        "worker": {"cores": 1},
        **more,
    }
    return load_job(write_job(folder, given))


def calls_of(folder):
    """(rows, tokens) of each call since the last time."""
    calls = folder / "calls"
    found = [tuple(map(int, line.split())) for line in calls.read_text().splitlines()]
    calls.unlink()
    return found


def test_a_probe_of_texts(texts):
    """Each length counts with the coalitions that its texts have, as in the run."""
    job = text_job(texts)
    plan = plan_from_source(job, n_probe=len(LENGTHS) * 4)
    measured = calls_of(texts)
    (found,) = plan.speeds
    assert found.texts == "texts of 1 to 5 tokens"
    assert f"about {found.n_predictions:,.0f} predictions of texts of 1 to 5 tokens" in str(plan)
    # exact designs: all coalitions but the empty one of 1, 3 and 5 tokens
    share = np.mean([2**length - 1 for length in LENGTHS]) / (2**5 - 1)
    assert found.n_predictions == pytest.approx(plan.explanations[0][1].n_predictions * share)
    done = CliRunner().invoke(cli, ["run", str(texts / "job.toml"), "-q"])
    assert done.exit_code == 0, done.output
    n_asked = sum(n for n, _ in calls_of(texts))
    assert 0.7 * found.n_predictions < n_asked < found.n_predictions + 200
    # three of six texts have 31 coalitions, two have 7
    of_probe = {length: max(n for n, each in measured if each == length) for length in (3, 5)}
    assert of_probe[5] / of_probe[3] == pytest.approx((3 * 31) / (2 * 7), rel=0.1)


def test_smaller_designs_of_texts(texts):
    job = text_job(texts, design={"kind": "kernelshap", "n_coalitions": 24})
    plan = plan_from_source(job, n_probe=24)
    (found,) = plan.speeds
    (half, *_) = found.alternatives
    assert half.setting == "design.n_coalitions=12"
    smaller = plan_from_source(load_job(texts / "job.toml", [half.setting]), n_probe=24)
    assert half.n_predictions == pytest.approx(smaller.speeds[0].n_predictions)
    assert half.n_predictions < found.n_predictions
