"""The table of the kinds of sinks, and a kind of the user's own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobfile.reading import read_job_file
from dshap.jobs import Command, parse_job, run_recorded
from dshap.sinks import Sink
from dshap.sinks.kinds import KINDS, kinds, sink_kind
from tests.jobs.job_files import changed, small_table, write_job

PAGE = Path(__file__).parents[2] / "docs" / "sinks.md"


def test_the_key_that_is_given_tells_the_kind():
    assert len(kinds()) == len(KINDS)
    for kind in kinds():
        assert issubclass(kind, Sink)
        assert kind.address
        assert kind.noun
        assert all(sink_kind([key, "shape"]) is kind for key in kind.keys)
    every = re.escape(", or ".join(kind.address for kind in kinds()))
    with pytest.raises(InputError, match=f"give {every}$"):
        sink_kind(["shape"])
    with pytest.raises(InputError, match="not both"):
        sink_kind(["uri", "path"])


@pytest.fixture(scope="module")
def job_file(tmp_path_factory) -> Path:
    """A job whose sink is the class of the page, in a module beside the job file."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r'```python title="json_lines.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    (folder / "json_lines.py").write_text(code)
    small_table().to_parquet(folder / "table.parquet")
    sink = {"name": "mine", "kind": "json_lines:JsonLines", "file": f"{folder}/lines"}
    places = (("job.store", f"{folder}/out"), ("source.path", f"{folder}/table.parquet"))
    explain = [changed()["explain"][0]]
    return write_job(folder, changed(*places, ("explain", explain), ("sink", [sink])))


def test_a_kind_of_ones_own(job_file):
    job = read_job_file(job_file)
    assert job.sink[0].sink("a").rows == "all"
    run = run_recorded(job, SilentProgress(), Command(str(job_file)))
    lines = (job_file.parent / "lines").read_text().splitlines()
    assert len(lines) == len(small_table())
    assert "prediction" in json.loads(lines[0])
    assert run is not None


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("kind=json_lines:Nothing", "has no 'Nothing'"),
        ("kind=mail", "unknown kind 'mail'"),
        ("uri=duckdb:///a.duckdb", "uri is not a key of kind"),
        ("write=append", 'a file of JSON lines is written with write = "replace"'),
    ],
)
def test_what_is_refused(job_file, setting, said):
    with pytest.raises(InputError, match=said):
        read_job_file(job_file, [f"sink.mine.{setting}"])


def test_a_kind_is_a_class_of_sinks():
    with pytest.raises(InputError, match=r"is not a subclass of dshap\.sinks\.Sink"):
        parse_job(changed(("sink", [{"kind": "threading:Event"}])))
