"""Compiled loops travel from one clone to another, as long as no source differs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.compiled_loops import digest, load, save

SOURCE = """
from numba import njit


@njit(cache=True)
def doubled(x):
    return 2 * x
"""


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Archives of one clone, in which `doubled` has been compiled."""
    first = _clone(tmp_path / "first")
    assert _compiled(first).stats.cache_misses
    assert save(first, tmp_path / "archives") == 2
    return tmp_path / "archives"


def test_a_clone_finds_what_another_has_compiled(archives: Path, tmp_path: Path) -> None:
    second = _clone(tmp_path / "second")
    assert load(second, archives) == 2
    assert not _compiled(second).stats.cache_misses


def test_other_sources_are_compiled_anew(archives: Path, tmp_path: Path) -> None:
    second = _clone(tmp_path / "second", SOURCE.replace("2 * x", "3 * x"))
    assert load(second, archives) == 0
    assert _compiled(second)(2) == 6


def test_code_that_is_there_is_not_replaced(archives: Path, tmp_path: Path) -> None:
    second = _clone(tmp_path / "second")
    _compiled(second)
    assert load(second, archives) == 0
    assert save(second, archives) == 0


def test_the_digest_follows_names_too(tmp_path: Path) -> None:
    first = _clone(tmp_path / "first")
    before = digest(first)
    (first / "loop.py").rename(first / "other.py")
    assert digest(first) != before


def _clone(folder: Path, source: str = SOURCE) -> Path:
    folder.mkdir()
    (folder / "loop.py").write_text(source)
    return folder


def _compiled(loops: Path) -> Any:
    """The function of a clone, after one call."""
    spec = importlib.util.spec_from_file_location("loop", loops / "loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.doubled(2) in (4, 6)
    return module.doubled
