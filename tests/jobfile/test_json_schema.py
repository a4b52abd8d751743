"""The JSON schema takes every job file that is taken, and refuses what no job file may hold."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.jobfile.json_schema import json_schema
from dshap.jobs import parse_job
from tests.jobs.job_files import JOB, changed

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
WORKFLOWS = [
    path
    for path in sorted((Path(__file__).parents[2] / "workflows").rglob("*.toml"))
    if "[job]" in path.read_text()  # the other files are profiles of clusters
]
SCHEMA = jsonschema.Draft202012Validator(json_schema())


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    printed = CliRunner().invoke(cli, ["schema"])
    assert json.loads(printed.output) == json_schema()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_file_of_the_project_is_taken(path):
    SCHEMA.validate(tomllib.loads(path.read_text()))


TAKEN: list[dict[str, Any]] = [
    JOB,
    changed(("source.key", "id"), ("report", {"instance": 3})),
    changed(("model", {"kind": "import", "function": "a.b:c"}), ("explain", [{"name": "a", "value": "trees"}])),
    changed(("model", {"kind": "pickle", "path": "m", "allow_pickle": True, "sha256": "0" * 64}),
            ("explain", [{"name": "a", "value": "marginal", "link": "log_odds"}])),
    changed(("design", {"kind": "local", "graph": {"grid": [2, 3]}, "order": 1})),
    changed(("design", {"kind": "ends:Ends"})),
    changed(("check", [{"kind": "drift", "explain": "observational", "error": 0.9}])),
    changed(("check", [{"kind": "drift", "explain": "observational", "metric": "psi", "warn": 0.1}])),
    changed(("cluster", {"kind": "local", "workers": 2, "memory_limit": "2GiB"})),
    changed(("cluster", {"kind": "scheduler", "address": "tls://a:1", "certificates": "tls"})),
    changed(("cluster", {"profile": "local", "workers": 3}), ("worker", {"memory": "2GiB"})),
    changed(("sink", [{"explain": "observational", "path": "out", "shape": "top_k", "k": 5}])),
]  # fmt: skip


@pytest.mark.parametrize("job", TAKEN, ids=range(len(TAKEN)))
def test_what_is_taken(job):
    SCHEMA.validate(json.loads(json.dumps(job)))


@pytest.mark.parametrize(
    "change",
    [
        ("model.landmarks", 0),
        ("model.landmark", 3),
        ("model.kind", "kernelridge"),
        ("job.name", 3),
        ("job", None),
        ("explain", []),
        ("explain.0.value", "shap"),
        ("cluster", {"kind": "none", "workers": 2}),
        ("cluster", {"profile": "local", "worker": 2}),
        ("worker", {"memory": "2GiB", "core": 2}),
        ("desing", {"kind": "auto"}),
        ("check", [{"kind": "drift", "explain": "observational", "eror": 0.9}]),
        ("check", [{"kind": "drift", "explain": "observational", "metric": "spi", "error": 1}]),
        ("sink", [{"explain": "observational", "path": "out", "shape": "tall"}]),
    ],
    ids=str,
)
def test_what_is_refused(change):
    """Each is refused by the program too."""
    job = changed(change)
    with pytest.raises(Exception, match=r"."):
        parse_job(copy.deepcopy(job))
    assert not SCHEMA.is_valid(json.loads(json.dumps(job)))
