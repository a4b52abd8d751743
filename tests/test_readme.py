"""What the README shows, pasted in its order as a user would: it runs, and ends in what it says."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"## ([^\n]*)\n|```(\w*)\n(.*?)```", README, re.DOTALL)
"""(title, "", "") of a section, or ("", language, text) of a block."""
MARK = "~~~~ "
"""Printed before what a block of this section prints."""
AFTER = {
    "How sure it is": "print(sorted(map(str, cube.data_vars)))",
    "Classifiers, and a background that stands for the table": (
        "print(cube.explained_class.attrs['flag_meanings'], cube.attribution.attrs['link'])"
    ),
    "Coming from shap": "print(type(explanation).__name__, explanation.values.shape)",
    "From one process to a cluster": "print(int(dshap.open_cube('cube.zarr', index=True).sel(id=7).status))",
}
"""Section -> a line after its Python block that shows what came of it."""


def sections(language: str) -> list[tuple[str, str]]:
    """(title of its section, text) of each block, in order."""
    found, title = [], ""
    for heading, kind, text in BLOCKS:
        title = heading or title
        found += [(title, text)] if text and kind == language else []
    return found


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """All Python blocks in one process and one folder: that folder, and section -> what its block printed.

    A warning fails the block; that of shap is left out where shap is not installed.
    """
    folder, code = tmp_path_factory.mktemp("readme"), []
    for title, text in sections("python"):
        if title != "Coming from shap" or importlib.util.find_spec("shap"):
            code += [f"print({MARK + title!r})", text, AFTER.get(title, "")]
    run = [sys.executable, "-W", "error::RuntimeWarning", "-c", "\n".join(code)]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    parts = [part.partition("\n") for part in done.stdout.split(MARK)[1:]]
    shown: dict[str, str] = {}
    for title, _, text in parts:
        shown[title] = shown.get(title, "") + text
    return folder, shown


@pytest.mark.cluster
def test_every_python_block_runs_in_its_order(printed):
    folder, shown = printed
    assert len(sections("python")) == 7 and len(shown) >= 6
    for store in ("attributions.zarr", "cube.zarr", "prepared"):
        assert (folder / store).is_dir(), store


@pytest.mark.cluster
def test_what_is_shown_is_what_is_printed(printed):
    """The blocks without a language below Python blocks; their numbers too."""
    _, shown = printed
    for title, text in sections(""):
        for line in text.strip().splitlines() if title in shown else ():
            assert line.split("...")[0].rstrip() in shown[title], line


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("From one process to a cluster", r"^1$"),
        ("What there is", r"\njob +[\d.-]+\nis_new +[\d.-]+\nage +[\d.-]+\n"),
        ("How sure it is", r"'interaction'"),
        ("Classifiers, and a background that stands for the table", "low high log odds of the predicted class"),
        ("Coming from shap", r"Explanation \(50, 6\)"),
        ("Learn once, explain tomorrow's rows", r"MSE_v 0\..*100 rows, 62 coalitions"),
    ],
)
def test_what_came_of_a_block(printed, title, said):
    _, shown = printed
    if title == "Coming from shap" and title not in shown:
        pytest.skip("shap is not installed")
    assert re.search(said, shown[title], re.MULTILINE), shown[title]


def test_how_sure_it_is(tmp_path):
    """Each of the three cubes holds what its line says, and no warning is given."""
    (ten,) = (text for title, text in sections("python") if title == "Ten lines")
    (sure,) = (text for title, text in sections("python") if title == "How sure it is")
    assert sure.count("\ncube = ") == 3
    shown = re.sub(r"\n(cube = .*)", r"\n\1\nprint(sorted(map(str, cube.data_vars)))", sure)
    run = [sys.executable, "-W", "error::RuntimeWarning", "-c", ten + shown]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    errors, rounds, pairs = done.stdout.strip().splitlines()[-3:]
    assert "std_error" in errors and "n_coalitions" in rounds and "relative_error" in rounds and "interaction" in pairs


SMALLER = {
    "landmarks = 500": "landmarks = 60",
    "landmarks = 128": "landmarks = 24",
    "n_coalitions = 512": "n_coalitions = 40",
}
"""Of the job file, so that its commands take seconds: the lines are the same, and run in the same order."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, int, str]]]:
    """The commands in one shell: their folder, and (command, exit status, what it printed) of each."""
    folder = tmp_path_factory.mktemp("shell")
    for part in ("workflows", "cluster"):
        shutil.copytree(ROOT / part, folder / part)
    job = folder / "workflows" / "bike_sharing.toml"
    text = job.read_text()
    for old, new in SMALLER.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    job.write_text(text)
    (folder / "bin").mkdir()
    (folder / "bin" / "dshap").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dshap "$@"\n')
    (folder / "bin" / "dshap").chmod(0o755)
    commands = re.split(
        r"(?<!\\)\n", next(text for title, text in sections("") if title == "From the command line").strip()
    )
    commands = [command.replace("model.landmarks=300", "model.landmarks=50") for command in commands]
    script = "\n".join(f"{command}\necho '{MARK}'$?" for command in commands)
    places = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env={**os.environ, **places}, capture_output=True,
                          text=True, timeout=400)  # fmt: skip
    assert done.stderr.count("Traceback") == 0, done.stderr
    parts = re.split(rf"^{MARK}(\d+)\n", done.stdout, flags=re.MULTILINE)
    return folder, list(zip(commands, map(int, parts[1::2]), parts[::2], strict=False))


@pytest.mark.cluster
@pytest.mark.timeout(500)
def test_every_command_ends_well_in_its_order(shell):
    """In one shell and one folder: the last one, another model into the same store, ended with status 4 once."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    folder, ended = shell
    assert [status for _, status, _ in ended] == [0] * 7, ended
    said = [
        "nulls: none",
        "done: census",
        "17,379 ok, 0 pending",
        "held-out R²",
        "verified",
        "verified",
        "done: census",
    ]
    for part, (command, _, text) in zip(said, ended, strict=True):
        assert part in text, command
    inside = {path.name for path in (folder / "build").iterdir()}
    assert inside == {"bike.zarr", "bike300.zarr", "bike_ranking.png", "bike300.png"}


def test_every_path_that_the_readme_names_is_there():
    root = Path(__file__).parents[1]
    for path in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (root / path).exists(), path
