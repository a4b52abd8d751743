"""README and the pages of docs/, block by block, as a user would paste them; no tests."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from click.testing import CliRunner

from dshap.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
"""Path in the repository -> page."""
BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STATUS = "~~~~ exit status "
"""Printed after each command."""
NOT_RUN = ("make ",)
"""Beginnings of commands that install: `make demo` and `make test` are run by .ci/run."""
PLAIN = re.compile(r"dshap [^;&|<>$`#]*(#.*)?")
"""A command that asks nothing of its shell."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    """ "python" and "sh" are run, "text" is what the block above it prints."""
    title: str
    """Name of the file that the block is; empty where it is no file."""
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a shell block, and how it ended."""

    line: str
    status: int
    printed: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(language, title, text) for language, title, text in BLOCK.findall(page.read_text())
    ]


def printed_by(page: Path) -> list[tuple[Block, str]]:
    """The blocks of a page with what they print, run in their order in the current folder; an error
    raises.

    Files are written, Python blocks share their names, a shell block is one shell, or this process
    where it has commands of dshap alone.  A RuntimeWarning is an error.
    """
    # what is defined here is pickled by value, as in a script
    names: dict[str, Any] = {"__name__": "__main__"}
    done = []
    for block in blocks_of(page):
        if block.title:
            Path(block.title).write_text(block.text)
        is_run = not block.title and block.language in RUN
        done.append((block, RUN[block.language](block.text, names) if is_run else ""))
    return done


def _python(text: str, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        exec(compile(text, "<page>", "exec"), names)
    return printed.getvalue()


def _shell(text: str, _: Mapping[str, Any]) -> str:
    lines = lines_of(text)
    is_plain = all(map(PLAIN.fullmatch, lines))
    ended = list(map(run_here, lines)) if is_plain else commands_of(text)
    assert all(command.status == 0 for command in ended), ended
    return "".join(command.printed for command in ended)


RUN = {"python": _python, "sh": _shell}


def lines_of(text: str) -> list[str]:
    """The commands of a block as they stand there."""
    lines = re.split(r"(?<!\\)\n", text.strip())
    return [line for line in lines if not line.startswith(NOT_RUN)]


def run_here(line: str) -> Command:
    """End a command of dshap in this process, which has imported what a new one takes seconds
    for."""
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    before = set(sys.modules)
    try:
        done = CliRunner().invoke(cli, words[1:])
    finally:
        for name in set(sys.modules) - before:
            # another page has another module of this name
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(Path.cwd()):
                del sys.modules[name]
    assert "Traceback" not in done.stderr, done.stderr
    return Command(line, done.exit_code, done.stdout)


def commands_of(text: str) -> list[Command]:
    """The commands of a block, ended one after the other in one shell that starts in the current
    folder."""
    lines = lines_of(text)
    script = "\n".join(f"{line}\necho '{STATUS}'$?" for line in lines)
    done = subprocess.run(
        ["bash", "-c", script], env=_environment(), capture_output=True, text=True, timeout=400
    )
    assert "Traceback" not in done.stderr, done.stderr
    parts = re.split(rf"^{STATUS}(\d+)\n", done.stdout, flags=re.MULTILINE)
    return [
        Command(*ended) for ended in zip(lines, map(int, parts[1::2]), parts[:-1:2], strict=True)
    ]


def _environment() -> dict[str, str]:
    """The environment of a user's shell, in which `dshap` is the command that was installed beside
    this Python."""
    folder = Path(sys.executable).parent
    assert shutil.which("dshap", path=str(folder)), (
        f"no command dshap in {folder}: pip install -e ."
    )
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg"}


def copy_jobs(edits: Mapping[str, str], every: int) -> None:
    """The job files in the current folder, as in a clone, with these changes to the bike job; one
    row of so many."""
    shutil.copytree(ROOT / "workflows", "workflows")
    table = Path("workflows", "data", "bike_hour.parquet")
    pd.read_parquet(table).iloc[::every].to_parquet(table)
    job = Path("workflows", "bike_sharing.toml")
    text = job.read_text()
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    job.write_text(text)


def links_of(page: Path) -> list[tuple[Path, str]]:
    """(file, anchor or "") of every link and picture of a page that does not lead to the web."""
    targets = re.findall(r"\]\((?!https?:)([^)\s]*)\)", BLOCK.sub("", page.read_text()))
    parts = [target.partition("#") for target in targets]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parts]


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings of a page, as hosts of Markdown make them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def missing_lines(shown: str, printed: str) -> list[str]:
    """Lines of a block of output that were not printed; "..." stands for any characters."""
    found = {line.rstrip() for line in printed.splitlines()}
    wanted = {
        line: ".*".join(map(re.escape, line.rstrip().split("..."))) for line in shown.splitlines()
    }
    return [
        line for line, form in wanted.items() if not any(re.fullmatch(form, each) for each in found)
    ]
