"""What README and the pages of docs/ show, pasted in its order as a user would: it runs, and ends
in what they say."""

from __future__ import annotations

import importlib.util
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.pages import (
    NOT_RUN,
    PAGES,
    ROOT,
    Block,
    anchors_of,
    blocks_of,
    copy_jobs,
    lines_of,
    links_of,
    missing_lines,
    printed_by,
    run_here,
)

README = PAGES["README.md"]
JOBS = "docs/job_files.md"
NEEDS = {
    "README.md": "xgboost",
    "docs/from_shap.md": "shap",
    "docs/models.md": "sklearn",
    "docs/value_functions.md": "sklearn",
    "docs/pictures.md": "altair",
    "docs/notebooks.md": "shap",
    "docs/reports.md": "jinja2",
    "docs/tutorial_analyst.md": "sklearn",
    "docs/tutorial_data_engineer.md": "xgboost",
    "docs/tutorial_researcher.md": "sklearn",
}
"""Page -> a package that its blocks want beyond those of a plain installation."""
DOCUMENTS = {
    **PAGES,
    **{name: ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md")},
    **{
        f"dshap/{name}.md": ROOT / "dshap" / f"{name}.md"
        for name in ("ARCHITECTURE", "WALKS", "WORDS")
    },
}
RUNNABLE = [
    name
    for name, page in PAGES.items()
    if any(block.language == "python" for block in blocks_of(page))
]
SMALLER = {
    "landmarks = 500": "landmarks = 60",
    "landmarks = 128": "landmarks = 24",
    "n_coalitions = 512": "n_coalitions = 40",
    'kind = "python"\nfile = "../cluster/local.py"\nworkers = 2\nmemory_limit = "2GiB"': 'kind = "none"',
}
"""Of the bike job, so that its commands take seconds: the lines are the same, and run in the same
order.  Clusters of job files are tested by tests/test_cli.py and `make demo`."""
SAID = [
    "bytes are free",
    "nulls: none",
    "done: census",
    "363 ok, 0 pending",
    "held-out R²",
    "verified",
    "verified",
    "done: census",
]
"""What each command on the bike job says."""


def test_readme_is_short():
    assert len(README.read_text().splitlines()) < 120


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", RUNNABLE)
def test_a_page_runs_from_top_to_bottom_and_prints_what_it_shows(
    name, tmp_path, monkeypatch, in_this_process
):
    """From a folder with the tables of the workflows alone, and without what other pages define; a
    warning about numbers fails the page."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(ROOT / "workflows" / "data", "workflows/data")
    if name == JOBS:
        monkeypatch.setattr(
            "tests.pages.blocks_of",
            lambda page: [b for b in blocks_of(page) if "bike" not in b.text],
        )
    done = printed_by(PAGES[name])
    for (_, printed), (block, _) in pairwise(done):
        if block.language == "text":
            assert missing_lines(block.text, printed) == [], printed


def test_every_block_is_run_or_compared():
    """A block of another language would be tested by nothing; outputs stand below a block that
    prints."""
    for name, page in PAGES.items():
        blocks = blocks_of(page)
        assert page.read_text().count("```") == 2 * len(blocks), name
        for above, block in pairwise([Block("", "", ""), *blocks]):
            assert block.title or block.language in ("python", "sh", "text"), (name, block)
            assert block.language != "text" or above.language in ("python", "sh"), (name, block)


def test_an_output_that_is_not_printed_is_told():
    assert missing_lines("a ...3\n  b\n", "a 1 2 3  \nc\n  b") == []
    assert missing_lines("a 1\na ...3\nb\n", "a 12\n  b") == ["a 1", "a ...3", "b"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(500)
def test_every_command_on_the_bike_job_ends_well_in_its_order(tmp_path, monkeypatch):
    """In one folder: the last one, another model into the same store, ended with status 4 once."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(tmp_path)
    copy_jobs(SMALLER, every=48)
    (text,) = (
        block.text
        for block in blocks_of(PAGES[JOBS])
        if block.language == "sh" and "bike" in block.text
    )
    lines = lines_of(text.replace("model.landmarks=300", "model.landmarks=50"))
    ended = [run_here(line) for line in lines]
    assert {command.status for command in ended} == {0}, ended
    for said, command in zip(SAID, ended, strict=True):
        assert said in command.printed, command
    inside = {path.name for path in Path("build").iterdir()}
    assert inside == {"bike.zarr", "bike300.zarr", "bike_ranking.png", "bike300.png"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_to_a_page_and_its_heading(name):
    for path, anchor in links_of(DOCUMENTS[name]):
        assert path.exists(), path
        assert not anchor or anchor in anchors_of(path), f"{path}#{anchor}"


def test_every_page_is_reached_from_readme():
    linked = {path for path, _ in links_of(README)}
    assert set(DOCUMENTS.values()) <= linked | {README}


def test_a_heading_has_the_anchor_that_its_host_gives_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# How fast, how `large`?\n```sh\n# no heading [a](b)\n```\n[here](#x) "
        "[web](https://a.b/c)\n"
    )
    assert anchors_of(page) == {"how-fast-how-large"}
    assert links_of(page) == [(page, "x")]


def test_commands_that_are_not_run_are_those_of_make():
    commands = [
        line
        for block in blocks_of(README)
        if block.language == "sh"
        for line in block.text.splitlines()
    ]
    targets = [line.split()[1] for line in commands if line.startswith(NOT_RUN)]
    assert targets == ["demo", "nightly", "test"]
    assert len(commands) == 3
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_benchmark_that_a_page_names_is_there():
    named = {
        name
        for page in PAGES.values()
        for name in re.findall(r"tests\.benchmarks\.([a-z_]+)", page.read_text())
    }
    assert len(named) >= 11
    for name in named:
        assert importlib.util.find_spec(f"tests.benchmarks.{name}"), name
