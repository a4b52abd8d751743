"""Files beside the package: versions agree, the package is typed, hooks are local, named commands
and places exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest
import yaml

import dshap
from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def changelog_versions() -> list[str]:
    return re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "stated",
    [
        lambda: PROJECT["project"]["version"],
        lambda: changelog_versions()[0],
        lambda: yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
    ],
    ids=["pyproject.toml", "CHANGELOG.md", "CITATION.cff"],
)
def test_the_version_is_the_same_wherever_it_is_stated(stated):
    assert stated() == dshap.__version__


def test_the_citation_has_what_its_format_requires():
    """Of version 1.2.0 of the Citation File Format; references are checked for theirs too."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"authors", "message", "title"} <= citation.keys()
    assert all(
        {"authors", "title", "type"} <= reference.keys() for reference in citation["references"]
    )


def test_the_package_is_marked_as_typed_and_nothing_keeps_the_mark_out_of_the_wheel():
    assert Path(dshap.__file__).with_name("py.typed").read_bytes() == b""
    assert PROJECT["tool"]["hatch"]["build"] == {"targets": {"wheel": {"packages": ["dshap"]}}}
    assert not any(
        line.startswith(("*.typed", "py.typed"))
        for line in (ROOT / ".gitignore").read_text().splitlines()
    )


def hooks() -> list[dict[str, Any]]:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    return repos[0]["hooks"]


def test_hooks_are_the_tools_of_the_virtual_environment():
    found = {hook["id"]: hook["entry"].split() for hook in hooks()}
    assert found.keys() == {"ruff-format", "ruff-check", "mypy"}
    for name, (program, *rest) in found.items():
        assert program == f".venv/bin/{name.split('-')[0]}"
        assert name.split("-")[1:] == rest[:1]
    assert {hook["language"] for hook in hooks()} == {"system"}


def test_contributing_fits_a_screen_and_its_targets_are_those_of_make():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 45
    named = re.findall(r"^make ([a-z -]+?)(?: +#.*)?$", text, re.MULTILINE)
    targets = " ".join(named).split()
    assert "daily-slow" in targets
    assert set(targets) <= made_targets()


def made_targets() -> set[str]:
    """The targets that the Makefile has rules for."""
    return set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_part_of_the_daily_run_is_made():
    (parts,) = re.findall(r"^DAILY := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(parts.split()) >= 7
    assert set(parts.split()) <= made_targets()


def test_python_is_new_enough_everywhere():
    """The Makefile, the package, the tools and .python-version ask for the same oldest Python."""
    asked = re.findall(r"version_info < \((\d+), (\d+)\)", (ROOT / "Makefile").read_text())
    tools = PROJECT["tool"]
    assert asked == [("3", "12")]
    assert PROJECT["project"]["requires-python"] == ">=3.12"
    assert tools["ruff"]["target-version"] == "py312"
    assert tools["mypy"]["python_version"] == "3.12"
    versions = (ROOT / ".python-version").read_text().split()
    assert [version.rpartition(".")[0] for version in versions] == ["3.13", "3.12"]


def pinned(path: str) -> set[str]:
    """The packages that a file of pins names."""
    return {line.partition("==")[0] for line in (ROOT / path).read_text().splitlines()}


def test_pytorch_is_of_the_experiments_alone():
    """Tests, gate and demo install from constraints.txt, by extras that bring no PyTorch."""
    ours = {"torch", "lime", "gpytorch"}
    assert not ours & pinned("constraints.txt")
    assert ours <= pinned("workflows/experiments/requirements.txt")
    extras = PROJECT["project"]["optional-dependencies"]
    assert [name for name, needs in extras.items() if "torch" in str(needs)] == ["gpytorch"]
    assert "gpytorch" not in str([needs for name, needs in extras.items() if name != "gpytorch"])


def is_there(name: str) -> bool:
    """There is such a module, class, function, attribute, or field of a record, below dshap."""
    owner, _, last = f"dshap.{name}".rpartition(".")
    return locate(f"{owner}.{last}") is not None or last in getattr(
        locate(owner), "__annotations__", {}
    )


def words() -> dict[str, str]:
    """Word -> the places where it lives, of the table in WORDS.md."""
    table = (ROOT / "dshap" / "WORDS.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| (`[^|]+`) \|$", table, re.MULTILINE)
    assert len(rows) == len(dict(rows)) == table.count("\n|") - 2  # the heading and its line
    return dict(rows)


def test_every_word_of_the_architecture_lives_where_it_says():
    assert len(words()) > 40
    for places in words().values():
        for name in re.findall(r"`([^`]+)`", places):
            assert is_there(name), name


@pytest.mark.parametrize("name", ["types.CoalitionBlock.nothing", "types.Nothing", "nothing.State"])
def test_a_place_that_is_gone_is_told(name):
    assert not is_there(name)
