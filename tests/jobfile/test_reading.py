"""Values that the command line sets: how they are read, where they go, and the sentence for each
that cannot be."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.jobfile.settings import with_settings
from dshap.jobs import load_job
from tests.jobs.job_files import JOB, changed, write_job


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("300", 300),
        ("200_000", 200_000),
        ("1e-4", 1e-4),
        ("true", True),
        ('"all"', "all"),
        ("all", "all"),  # text without quotes is no TOML
        ("a/b=c.parquet", "a/b=c.parquet"),  # the first = ends the key
        ('["hr", "temp"]', ["hr", "temp"]),
        ('{weather = ["temp", "hum"]}', {"weather": ["temp", "hum"]}),
        ("", ""),
        ("2011-01-01", "2011-01-01"),  # dates are keys of rows, and those are text
        ("1\nkind = 2", "1\nkind = 2"),  # one value, never more lines of the file
        ("3 apples", "3 apples"),
        ("nan/rows", "nan/rows"),
    ],
)
def test_values(text, value):
    assert with_settings(JOB, [f"model.landmarks={text}"])["model"]["landmarks"] == value


def test_places():
    before = changed()
    settings = [
        "source.path=b.parquet",
        "design.kind=exact",
        "explain.observational.landmarks=7",
        "job.seed=1",
    ]
    given = with_settings(JOB, [*settings, "job.seed=2"])
    assert given["source"]["path"] == "b.parquet"
    assert given["design"] == {"kind": "exact"}
    assert [entry.get("landmarks") for entry in given["explain"]] == [None, 7]
    assert given["job"]["seed"] == 2  # the last one counts
    assert before == JOB  # the given tables stay as they are
    twice = ["source.contract.columns=evolve", "source.contract.types=evolve"]
    assert with_settings(JOB, twice)["source"]["contract"] == {
        "columns": "evolve",
        "types": "evolve",
    }
    beside = with_settings(changed(("source.contract", {"types": "evolve"})), twice[:1])
    assert beside["source"]["contract"] == {"columns": "evolve", "types": "evolve"}
    dotted = with_settings(changed(("explain.0.name", "a.b")), ["explain.a.b.background=9"])
    assert dotted["explain"][0]["background"] == 9


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.landmarks", "--set model.landmarks: write --set TABLE.KEY=VALUE"),
        ("landmarks=3", "--set landmarks=3: write --set TABLE.KEY=VALUE"),
        ("=3", "write --set TABLE.KEY=VALUE"),
        (".a=3", "write --set TABLE.KEY=VALUE"),
        ("model.=3", "write --set TABLE.KEY=VALUE"),
        ("model.kind.b=3", "--set model.kind.b=3: it names no key of a table"),
        ("source..columns=3", "--set source..columns=3: it names no key of a table"),
        ("source.contract.=3", "--set source.contract.=3: it names no key of a table"),
        (
            "explain.landmarks=3",
            "[[explain]] is a list of tables, so name one: explain.NAME.landmarks=…, NAME one of "
            "interventional, obs",
        ),
        (
            "explain.observed.landmarks=3",
            "unknown explanation 'observed'; did you mean 'observational'?",
        ),
    ],
)
def test_refused(setting, said):
    with pytest.raises(InputError) as refusal:
        with_settings(JOB, [setting])
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_no_list_of_explanations():
    with pytest.raises(InputError, match="NAME one of none"):
        with_settings({}, ["explain.landmarks=3"])
    with pytest.raises(InputError, match=r"unknown explanation 'a'\. Allowed: none"):
        with_settings({"explain": {"name": "a"}}, ["explain.a.landmarks=3"])
    with pytest.raises(InputError, match="no key of a table"):
        with_settings({"model": 3}, ["model.kind=import"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("modle.landmarks=3", "with --set: unknown table 'modle'; did you mean 'model'?"),
        ("model.landmark=3", "with --set: [model] unknown key 'landmark'"),
        ("model.a.b=3", "with --set: [model] unknown key 'a'"),
        ("source.contract.colums=evolve", "[source.contract] unknown key 'colums'"),
        ("model.landmarks=many", '[model] landmarks = "many": give a whole number'),
        ("explain.observational.landmrks=3", "[[explain]] observational unknown key 'landmrks'"),
    ],
)
def test_the_schema_has_the_last_word(tmp_path, setting, said):
    path = write_job(tmp_path, JOB)
    assert load_job(path, ["model.landmarks=12"]).model.landmarks == 12
    with pytest.raises(InputError) as refusal:
        load_job(path, [setting])
    assert said in str(refusal.value)
