"""Targets of a job file: the values that each changes, what wins over what, and every wrong one."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.history.run_record import read_records
from dshap.jobfile.json_schema import json_schema
from dshap.jobfile.reading import target_settings
from dshap.jobfile.settings import with_target
from dshap.jobs import load_job, parse_job
from tests.jobs.job_files import JOB, changed, small_table, to_toml, write_job

SINK = {"uri": "duckdb:///out.duckdb", "table": "mart.reasons", "explain": "interventional"}
DEV = {
    "job.store": "dev/out.zarr",
    "explain.interventional.background": 50,
    "sink.mart.reasons.table": "dev.reasons",
    "sink.mart.reasons.shape": "long",
    "source.contract.columns": "evolve",
}


def with_targets(**targets):
    return changed(("sink", [SINK]), ("targets", targets))


def test_a_target_changes_values_and_leaves_the_others():
    job = with_targets(dev=DEV, prod={})
    found = with_target(job, "dev")
    assert found["job"]["store"] == "dev/out.zarr"
    assert [each.get("background") for each in found["explain"]] == [50, None]
    # the sink is named by the table that the file gives it, for each key of the target
    assert (found["sink"][0]["table"], found["sink"][0]["shape"]) == ("dev.reasons", "long")
    assert found["source"]["contract"] == {"columns": "evolve"}
    assert found["model"] == JOB["model"]
    assert "targets" not in found
    assert job == with_targets(dev=DEV, prod={})
    plain = changed(("sink", [SINK]))
    assert with_target(job, "") == with_target(job, "prod") == plain


def test_keys_without_quotes_are_tables_of_toml(tmp_path):
    """`job.store = …` and "job.store" = … say the same; a value may be a table itself."""
    text = to_toml(changed(("sink", [SINK]))) + (
        '[targets."ünï"]\n'
        'job.store = "dev"\n'
        "explain.interventional.background = 50\n"
        'sink."mart.reasons".k = 2\n'
        'sink."mart.reasons".shape = "top_k"\n'
        'explain.observational.players = {wetter = ["temp", "hum"]}\n'
    )
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    job = load_job(tmp_path / "job.toml", target="ünï")
    assert job.job.store == str(tmp_path / "dev")
    assert job.sink[0].k == 2
    assert job.explain[1].players == {"wetter": ["temp", "hum"]}
    assert target_settings(tmp_path / "job.toml", "ünï")[:2] == [
        "job.store",
        "explain.interventional.background",
    ]


def test_paths_of_a_target_are_those_of_the_file_and_set_wins(tmp_path, monkeypatch):
    write_job(tmp_path, with_targets(dev=DEV))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    job = load_job("../job.toml", target="dev")
    assert job.job.store == str(tmp_path / "dev" / "out.zarr")
    job = load_job("../job.toml", ["job.store=mine"], target="dev")
    assert job.job.store == str(elsewhere / "mine")
    assert load_job("../job.toml").job.store == str(tmp_path / "out.zarr")
    tables = {**with_targets(dev=DEV), "sink": [SINK]}
    assert parse_job(tables, target="dev").job.store == str(elsewhere / "dev" / "out.zarr")


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({"dev": {}, "prod": {}}, "unknown target 'deV'; did you mean 'dev'\\? Allowed: dev, prod"),
        ({}, r"--target deV: the job file has no target: write a table \[targets.deV\]"),
        ({"deV": {"store": "x"}}, r'\[targets.deV\] "store": write "TABLE.KEY" = VALUE'),
        ({"deV": {"": "x"}}, 'write "TABLE.KEY" = VALUE'),
        ({"deV": {"targets.b.job.seed": 3}}, "a target changes no other target"),
        ({"deV": {"job.name.x": 3}}, "it names no key of a table"),
        (
            {"deV": {"sink.mart.reason.k": 3}},
            r"\[targets.deV\] .*: unknown sink 'mart.reason'; did you mean 'mart.reasons'",
        ),
        ({"deV": {"explain.background": 3}}, "name one: explain.NAME.background=…"),
        (
            {"deV": {"job.seeed": 3}},
            "with --target deV: .job. unknown key 'seeed'; did you mean 'seed'",
        ),
        ({"deV": {"job.seed": "x"}}, r'\[job\] seed = "x": give a whole number'),
        ({"deV": 3}, r"\[targets\] deV = 3: write a table"),
        (3, r"targets = 3: write a table \[targets.NAME\]"),
    ],
)
def test_wrong_targets(tmp_path, targets, said):
    job = changed(("sink", [SINK]))
    text = to_toml(job)
    if isinstance(targets, int):
        text = f"targets = {targets}\n{text}"
    else:
        for name, held in targets.items():
            if isinstance(held, int):
                text = f"targets.{name} = {held}\n{text}"
                continue
            text += f"[targets.{name}]\n"
            text += "".join(f"{json.dumps(key)} = {json.dumps(v)}\n" for key, v in held.items())
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(InputError, match=said) as raised:
        load_job(tmp_path / "job.toml", target="deV")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("job file ")


def test_the_schema_has_targets():
    schema = json_schema()
    job = {**with_targets(dev=DEV), "sink": [SINK]}
    jsonschema.validate(job, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**job, "targets": {"dev": 3}}, schema)


def test_the_commands_take_a_target(tmp_path):
    """One job on dev and on prod: two stores, and each record names its target."""
    small_table().to_parquet(tmp_path / "table.parquet")
    fewer = changed(("explain", JOB["explain"][:1]), ("run", {}))
    targets = {"dev": {"job.store": "dev.zarr"}, "prod": {"job.store": "prod.zarr"}}
    path = str(write_job(tmp_path, {**fewer, "targets": targets}))

    def called(*words):
        done = CliRunner().invoke(cli, [*words])
        assert done.exit_code == 0, done.output
        return done.output

    listed = called("job", path, "--defaults", "--target", "dev", "--set", "job.seed=3")
    assert re.search(r'store = ".*/dev.zarr" +# --target\n', listed)
    assert re.search(r"seed = 3 +# --set\n", listed)
    assert "dev.zarr" in called("check", path, "--target", "dev")
    called("plan", path, "--target", "dev")
    assert not (tmp_path / "dev.zarr").exists()
    for name in targets:
        called("run", path, "--target", name, "-q")
        (record,) = read_records(tmp_path / f"{name}.zarr")
        assert record.content["args"]["target"] == name
    assert not (tmp_path / "out.zarr").exists()
    refused = CliRunner().invoke(cli, ["run", path, "--target", "pord"])
    assert refused.exit_code == 2
    assert "did you mean 'prod'? Allowed: dev, prod" in refused.output
