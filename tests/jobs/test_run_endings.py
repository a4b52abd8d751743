"""Who hears how a run has ended: a command, whatever it does, and files that cannot be written."""

from __future__ import annotations

import json

import pytest

from dshap.core.errors import CheckFailedError, InputError
from dshap.jobfile.reading import parse_job
from dshap.jobs.listeners import listeners_of
from dshap.jobs.notifying import Notifier
from dshap.jobs.run_endings import RunEnding, telling_end
from tests.jobs.job_files import JOB

HEAR = """#!/bin/sh
cat > heard.json
echo "$DSHAP_JOB|$DSHAP_RUN_ID|$DSHAP_EXIT_STATUS|$DSHAP_MESSAGE|$1" > heard.txt
exit ${2:-0}
"""


@pytest.fixture
def folder(tmp_path):
    script = tmp_path / "hear me.sh"
    script.write_text(HEAR)
    script.chmod(0o755)
    return tmp_path


def heard(folder, command, *, fails=None, when="problem"):
    """What is said while a command hears of an end, and whether it was started."""
    job = parse_job({**JOB, "notify": {"command": command, "when": when}})
    said = []
    listeners = listeners_of(
        job, str(folder / "job.toml"), None, None, lambda line, level: said.append((level, line))
    )
    try:
        with telling_end(job, listeners, said.append):
            if fails is not None:
                raise fails
    except BaseException as error:
        assert error is fails
    return said


def test_a_problem_is_told_as_json(folder):
    said = heard(folder, "'./hear me.sh' 'ein Wort'", fails=CheckFailedError('check Köln: "no"'))
    assert said == []
    facts = json.loads((folder / "heard.json").read_text())
    assert (facts["job"], facts["exit_status"], facts["message"]) == (
        "small",
        8,
        'check Köln: "no"',
    )
    assert (folder / "heard.txt").read_text() == 'small||8|check Köln: "no"|ein Wort\n'


@pytest.mark.parametrize(("when", "is_told"), [("problem", False), ("always", True)])
def test_a_run_that_ended_well(folder, when, is_told):
    assert heard(folder, "'./hear me.sh'", when=when) == []
    assert (folder / "heard.json").exists() == is_told


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), 130), (ZeroDivisionError("x"), 1), (InputError("x"), 2)],
)
def test_any_end_is_told(folder, error, status):
    heard(folder, "'./hear me.sh'", fails=error)
    assert json.loads((folder / "heard.json").read_text())["exit_status"] == status


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("./none.sh", "cannot be started in .*: No such file"),
        ("'./hear me.sh' a 3", "ended with exit status 3"),
        ("'./hear me.sh", "is not a command: No closing quotation"),
        ("true; false", "cannot be started"),
    ],
)
def test_a_command_that_fails_is_said(folder, command, said):
    """The run ends as it would without it."""
    ((level, line),) = heard(folder, command, fails=InputError("x"))
    assert level == "warning"
    assert line.startswith("[notify] command = ")
    import re

    assert re.search(said, line), line


def test_a_command_that_hangs(folder, monkeypatch):
    monkeypatch.setattr("dshap.jobs.notifying.TIMEOUT_S", 0.2)
    ((_, line),) = heard(folder, "sleep 60", fails=InputError("x"))
    assert line.endswith("was ended after 0.2 s")


def test_every_listener_hears(folder):
    """One that fails keeps no other from hearing, and its error is said."""
    job = parse_job(JOB)
    told, said = [], []

    def broken(ending):
        raise OSError(28, "No space left on device")

    with telling_end(job, [broken, told.append], said.append):
        pass
    assert len(told) == len(said) == 1
    assert isinstance(told[0], RunEnding)
    assert "No space left" in said[0]


def test_files_that_cannot_be_written(tmp_path):
    job = parse_job(JOB)
    for given, said in {
        ("m.txt", None): "end in .prom",
        ("none/m.prom", None): "there is no folder",
        (None, "none/l.ndjson"): "there is no folder",
    }.items():
        metrics, lineage = (each and str(tmp_path / each) for each in given)
        with pytest.raises(InputError, match=said):
            listeners_of(job, "job.toml", metrics, lineage, print)


def test_a_notifier_without_shell(folder):
    """No shell reads the command: its signs are letters."""
    notifier = Notifier("echo $HOME > out", folder, False, print)
    assert notifier.command
    assert not (folder / "out").exists()
