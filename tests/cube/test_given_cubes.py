"""Cubes as callers give them: paths of every type, mappings, opened cubes, and all else in one line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.places import BucketPath
from dshap.cube.given_cubes import given_cube, given_cubes
from dshap.report import (
    accuracy,
    breakdown,
    damage_summary,
    error_sizes,
    importance_summary,
    largest_shift,
    progress_summary,
    rankings,
    segment_tables,
)
from tests.cube.cubes import make_cube

OF_CUBES = {
    "rankings": rankings,
    "accuracy": accuracy,
    "breakdown": breakdown,
    "progress_summary": lambda cubes: progress_summary(cubes, is_running=False),
    "importance_summary": lambda cubes: importance_summary(Path("store"), cubes, None),
    "segment_tables": lambda cubes: segment_tables(cubes, "rooms"),
}
"""Name -> a public function of `dshap.report` that takes cubes."""


class OtherPath(os.PathLike):
    """A path of another library, whose text is no path."""

    def __init__(self, path):
        self.path = str(path)

    def __fspath__(self):
        return self.path

    def __str__(self):
        return "<a path>"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The working directory of stores: one of a cube, and one of a job with two."""
    folder = tmp_path_factory.mktemp("stores")
    rows = np.random.default_rng(0).normal(size=(20, 2))
    value = dshap.values.Marginal(
        lambda x: 3 * x[:, 0] - x[:, 1], rows, feature_names=["rooms", "alter-ü"]
    )
    for name in ("store", "two/one", "two/other"):
        dshap.explain(value, rows, store=folder / name, keep_rows=True, progress=False)
    return folder


@pytest.fixture(autouse=True)
def in_stores(stores, monkeypatch):
    monkeypatch.chdir(stores)


FORMS = {
    "text": lambda: "store",
    "path": lambda: Path("store"),
    "other path": lambda: OtherPath("store"),
    "entry": lambda: next(each for each in os.scandir() if each.name == "store"),
    "named text": lambda: {"store": "store"},
    "named path": lambda: {"store": Path("store").absolute()},
    "named other path": lambda: {"store": OtherPath("store")},
    "opened": lambda: dshap.open_cube("store"),
    "named opened": lambda: {"store": dshap.open_cube("store")},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_cube(form, stores):
    assert given_cubes(FORMS[form]()) == {"store": stores / "store"}


@pytest.mark.parametrize("name", OF_CUBES)
@pytest.mark.parametrize("form", ["text", "other path", "named text", "opened"])
def test_functions_of_the_report_take_every_form(name, form):
    wanted = OF_CUBES[name]({"store": Path("store").absolute()})
    assert str(OF_CUBES[name](FORMS[form]())) == str(wanted)


def test_a_store_of_several_cubes():
    assert [each.label for each in rankings("two")] == ["one", "other"]


def test_functions_of_one_cube():
    assert error_sizes("store") == error_sizes(Path("store")) == error_sizes(OtherPath("store"))
    assert error_sizes(dshap.open_cube("store")) is None
    assert largest_shift("two/one", OtherPath("two/other"), "psi").value == pytest.approx(0)
    assert damage_summary("store", {"store": []}, None).lines == [
        "store: verified: 2 of 2 blocks finished"
    ]


WRONG = [5, None, ["store"], object(), np.zeros(3)]


@pytest.mark.parametrize("name", OF_CUBES)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: type(each).__name__)
def test_all_else_is_one_line(name, wrong):
    with pytest.raises(InputError, match=r"^cubes is .*: give the path of a store") as error:
        OF_CUBES[name](wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: type(each).__name__)
def test_all_else_by_name_is_one_line(wrong):
    with pytest.raises(InputError, match=r"^cubes\['a'\] is .*: give the path of a cube"):
        rankings({"a": wrong})
    with pytest.raises(InputError, match=r"^cube is .*: give the path of a cube"):
        error_sizes(wrong)
    with pytest.raises(InputError, match=r"^store is "):
        damage_summary(wrong, {}, None)


@pytest.mark.parametrize("name", OF_CUBES)
def test_a_store_that_is_not_there(name):
    with pytest.raises(InputError, match="nowhere does not exist: give the store of a run"):
        OF_CUBES[name]("nowhere")
    with pytest.raises(InputError, match="nowhere"):
        OF_CUBES[name]({"a": "nowhere"})


@pytest.mark.parametrize(
    "change",
    [
        lambda cube: cube.isel(instance=slice(3)),
        lambda cube: cube.load(),
        lambda cube: cube.assign(attribution=2 * cube["attribution"]),
        lambda cube: cube.drop_vars("attribution"),
    ],
    ids=["chosen rows", "in memory", "doubled", "without attributions"],
)
def test_a_dataset_that_no_store_has_is_refused(change):
    """Its numbers would be those of the store, not its own."""
    with pytest.raises(InputError, match="is a Dataset that was changed"):
        rankings(change(dshap.open_cube("store")))


def test_no_cube():
    assert rankings({}) == []
    with pytest.raises(InputError, match="cubes is empty"):
        breakdown({})


def test_the_current_cube_of_nights(tmp_path):
    for run in ("20261126T041500Z", "20261127T041500Z"):
        make_cube(tmp_path / "reasons" / run)
    (tmp_path / "reasons" / "current").write_text("20261126T041500Z\n")
    assert given_cube(str(tmp_path / "reasons")).name == "20261126T041500Z"


def test_a_bucket_is_a_place():
    with pytest.raises(InputError, match="names no store in a bucket"):
        given_cube("s3://bucket")
    place = BucketPath("s3", "bucket", "cube")
    assert str(place) == "s3://bucket/cube"
