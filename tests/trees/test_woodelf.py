"""Values of another program, on its own models: trees of depth 6, 16 and 22 with missing values."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dshap.trees.exact import ExactTrees
from dshap.values import Trees
from tests.trees.test_exact import counted

FILES = Path(__file__).parent / "woodelf"


@pytest.mark.parametrize("depth", [6, 16, 22])
def test_the_values_of_woodelf(depth):
    """Its float32 sums are the difference of a few units in the seventh digit."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    with np.load(FILES / "values.npz") as kept:
        held = dict(kept)
    booster = xgboost.Booster()
    booster.load_model(
        bytearray(gzip.decompress((FILES / f"ieee_cis_depth_{depth}.json.gz").read_bytes()))
    )
    trees = Trees(booster).model.trees
    rows, player_of = held["rows"], np.arange(held["rows"].shape[1])
    for kind, background in (("path_dependent", None), ("interventional", held["background"])):
        exact = ExactTrees.of(trees, player_of, counted(trees, player_of, background))
        wanted = held[f"{kind}_{depth}"]
        off = np.abs(exact.values(rows)[..., 0] - wanted).max() / np.abs(wanted).max()
        assert off < 1e-6
        assert np.abs(wanted).max() > 0.01
