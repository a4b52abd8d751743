"""The comparison of workflows/experiments: its parts on functions that are known, its commands in their tiny form."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax

import dshap
from workflows.experiments import baselines
from workflows.experiments.comparison import SHARES, Method, Study, changes, compare, log_odds
from workflows.experiments.data import made_up_images
from workflows.experiments.images import image_methods, masked

pytestmark = pytest.mark.usefixtures("in_this_process")

SHAPE = (3, 4, 3)
N_COLUMNS = 36


class Linear:
    """Logits that are linear in the row, with what a network of the experiments has."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.weights, self.offset = rng.normal(size=(N_COLUMNS, 2)), rng.normal(size=2)
        self.n_evaluations, self.seconds = 0, 0.0

    def logits(self, rows):
        self.n_evaluations += len(rows)
        self.seconds += 1e-9
        return rows @ self.weights + self.offset

    def probabilities(self, rows):
        return softmax(self.logits(rows), axis=1)

    def log_probabilities(self, rows):
        return log_softmax(self.logits(rows), axis=1)

    def predicted(self, rows):
        return self.logits(rows).argmax(axis=1)

    def slopes(self, rows, classes):
        """∂ log p_c / ∂x = w_c − Σ_y p_y w_y"""
        return self.weights.T[classes] - self.probabilities(rows) @ self.weights.T


@pytest.fixture
def study() -> Study:
    rows = np.random.default_rng(1).random((5, N_COLUMNS))
    return Study("made_up", "Made up", Linear(), rows, np.full(N_COLUMNS, 0.5), dshap.image_players(*SHAPE))


def gains(study: Study) -> np.ndarray:
    """(n, d): what each pixel adds to the log-odds of the predicted class, which is the difference of two logits."""
    classes = study.classifier.predicted(study.rows)
    slope = (study.classifier.weights @ [1.0, -1.0])[None] * np.where(classes == 0, 1, -1)[:, None]
    return (slope * (study.rows - study.reference)) @ study.members.members.T


def test_log_odds_of_three_classes():
    logits = np.random.default_rng(0).normal(size=(6, 3))
    classes = np.array([0, 1, 2, 0, 1, 2])
    p = softmax(logits, axis=1)[np.arange(6), classes]
    assert_allclose(log_odds(logits, classes), np.log(p / (1 - p)))
    assert log_odds(np.array([[800.0, 0.0]]), np.array([0])) == 800.0  # where 1 − p is 0


def test_masking_takes_the_top_ranked_pixels_of_each_row(study):
    """By hand: in a linear function what is taken is the sum of the largest gains."""
    gained = gains(study)
    shares = np.array([0.0, 0.25, 1.0])
    found = changes(study, gained, shares)
    top = -np.sort(-gained, axis=1)
    assert_allclose(found, -np.stack([top[:, :0].sum(1), top[:, :3].sum(1), top.sum(1)], axis=1), atol=1e-12)
    assert (changes(study, -gained, shares)[:, 1] > found[:, 1]).all()


def test_masked_pixels_are_red_where_brighter(study):
    attribution = np.tile(np.arange(12.0), (5, 1))
    shown = masked(study, SHAPE, attribution, 2, 2 / 12)
    image = study.rows[2].reshape(SHAPE)
    assert_array_equal(shown[:2], image[:2])
    assert_array_equal(shown[2, :2], image[2, :2])
    for pixel in (2, 3):
        is_bright = image[2, pixel].mean() > 0.5
        assert_array_equal(shown[2, pixel], (0.85, 0.1, 0.1) if is_bright else (0.15, 0.3, 0.9))


def test_saliency_is_the_magnitude_of_the_gradient(study):
    network = study.classifier
    cube = dshap.explain(baselines.Saliency(network, study.reference, study.players), study.rows, progress=False)
    classes, step = network.predicted(study.rows), 1e-6
    slopes = [network.log_probabilities(study.rows + step * unit)[np.arange(5), classes] for unit in np.eye(N_COLUMNS)]
    slopes = (np.array(slopes).T - network.log_probabilities(study.rows).max(axis=1)[:, None]) / step
    expected = np.abs(slopes).reshape(5, 12, 3).sum(axis=2)
    assert_allclose(cube.attribution[..., 0], expected, atol=1e-4)
    assert_allclose(cube.prediction[:, 0], network.log_probabilities(study.rows).max(axis=1))


@pytest.mark.parametrize("draw", baselines.LIME_KERNELS)
def test_lime_is_a_weighted_ridge_regression(study, draw):
    pytest.importorskip("lime")
    lime = baselines.Lime(study.classifier, study.reference, study.players, budget=5, draw=draw, seed=3)
    found = dshap.explain(lime, study.rows, progress=False).attribution[..., 0]
    masks = draw(np.random.default_rng(3), 60, 12)
    factor, width = baselines.LIME_KERNELS[draw]
    norms = np.sqrt(masks.sum(axis=1) * 12)
    cosine = np.divide(masks.sum(axis=1), norms, out=np.zeros(60), where=norms > 0)
    weights = np.exp(-((factor * (1 - cosine)) ** 2) / (2 * width**2))
    centred = masks - np.average(masks, axis=0, weights=weights)
    for row, phi in zip(study.rows, found, strict=True):
        mixed = np.where(np.repeat(masks, 3, axis=1), row, study.reference)
        values = study.classifier.log_probabilities(mixed)[:, study.classifier.predicted(row[None])[0]]
        gram = (centred.T * weights) @ centred + np.eye(12)
        assert_allclose(phi, np.linalg.solve(gram, (centred.T * weights) @ values), atol=1e-9)


@pytest.mark.parametrize("draw", baselines.LIME_KERNELS)
def test_samples_of_lime(draw):
    """The first is the instance itself; the others are as many as lime draws: a half, or all numbers equally likely."""
    masks = draw(np.random.default_rng(0), 4_000, 10)
    assert masks.shape == (4_000, 10) and masks[0].all()
    sizes = np.bincount(masks[1:].sum(axis=1), minlength=11) / 3_999
    assert sizes[10] < 0.01
    if draw is baselines.draw_as_texts:
        assert_allclose(sizes[:10], 0.1, atol=0.025)  # five standard deviations
    else:
        assert sizes.argmax() == 5


def test_a_comparison_leaves_cubes_curves_numbers_and_a_picture(study, tmp_path):
    pytest.importorskip("matplotlib")
    methods = image_methods(study, SHAPE)
    kept = {name: methods[name] for name in ("KernelSHAP", "SampleShapley", "Saliency")}
    results = compare(study, {**kept, "exact": Method(kept["KernelSHAP"].value, "exact")}, tmp_path, {"more": 1})
    cubes = {each.method: dshap.open_cube(tmp_path / "cubes" / f"{each.method}.zarr") for each in results}
    for each in results:
        assert_array_equal(cubes[each.method].attribution[..., 0], each.attribution)
    with xr.open_zarr(tmp_path / "curves.zarr", consolidated=False) as curves:
        assert curves.change.dims == ("explainer", "instance", "share")
        assert_array_equal(curves.change.sel(explainer="exact"), results[3].change)
    content = json.loads((tmp_path / "made_up.json").read_text())
    assert content["instances"] == 5 and content["features"] == 12 and content["more"] == 1
    of_exact = content["change_in_log_odds"]["exact"]
    assert_allclose(of_exact["mean"], results[3].change.mean(axis=0), atol=1e-4)
    assert of_exact["mean"][0] == 0 and len(of_exact["mean"]) == len(SHARES)
    assert (tmp_path / "made_up.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("KernelSHAP", "SampleShapley"):  # at most 4d, and what names, checks and masking want
        assert content["change_in_log_odds"][name]["evaluations_an_instance"] < 48 + 30
        assert_allclose(cubes[name].attribution, cubes["exact"].attribution, atol=0.3)


def test_made_up_images_tell_their_classes():
    images = made_up_images((8, 8, 3), ("a", "b"), 50)
    upper = images.x_test.reshape(-1, 2, 96).mean(axis=2)
    assert_array_equal(upper.argmax(axis=1), images.y_test)
    assert images.x_train.shape == (50, 192) and images.reference.shape == (192,) and len(images.players) == 64


def test_masking_a_text_is_by_its_own_length():
    """Half of the words of each; what stands beyond its end, NaN, is never masked before them."""
    rows = np.zeros((2, N_COLUMNS))
    rows[0, :4], rows[1, :2] = 1.0, 1.0
    phi = np.where(rows > 0, np.arange(N_COLUMNS), np.nan)
    study = Study("made_up", "Made up", Linear(), rows, np.zeros(N_COLUMNS), None, np.array([4, 2]))
    sign = np.where(study.classifier.predicted(rows) == 0, 1, -1)
    slope = study.classifier.weights @ [1.0, -1.0]
    expected = -sign * [slope[2] + slope[3], slope[1]]
    assert_allclose(changes(study, phi, np.array([0.5]))[:, 0], expected)


@pytest.mark.parametrize("name", ["mnist"])
def test_the_tiny_form_of_a_command(name, tmp_path, monkeypatch, capsys):
    for package in ("torch", "lime", "PIL", "matplotlib"):
        pytest.importorskip(package)
    command = importlib.import_module(f"workflows.experiments.{name}")
    monkeypatch.setattr(command, "EPOCHS", 10)
    for _ in range(2):  # the second finds network and cubes there
        command.main(["--tiny", "--threads", "1", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert said.count("test accuracy") == 2 and said.count("epoch 10 of 10") == 1
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert content["instances"] == 4 and content["test_accuracy"] > 0.8
    assert {path.suffix for path in tmp_path.iterdir()} >= {".json", ".png", ".zarr", ".pt"}


@pytest.mark.cluster
def test_two_workers_give_the_same_cubes(tmp_path, monkeypatch):
    """As one process does."""
    for package in ("torch", "lime", "matplotlib"):
        pytest.importorskip(package)
    command = importlib.import_module("workflows.experiments.mnist")
    monkeypatch.setattr(command, "EPOCHS", 1)
    command.main(["--tiny", "--threads", "1", "--out", str(tmp_path / "one")])
    (tmp_path / "two").mkdir()
    shutil.copy(tmp_path / "one" / "network.pt", tmp_path / "two")
    monkeypatch.undo()  # `explain` looks for the current client again
    command.main(["--tiny", "--threads", "1", "--workers", "2", "--out", str(tmp_path / "two")])
    for store in (tmp_path / "one" / "cubes").glob("*.zarr"):
        here, there = store, tmp_path / "two" / "cubes" / store.name
        assert dshap.open_cube(here).attribution.equals(dshap.open_cube(there).attribution), store.name
        if store.stem != "Saliency":  # the network was asked elsewhere
            evaluations = [json.loads(each.with_suffix(".json").read_text())[0] for each in (here, there)]
            assert evaluations[1] < evaluations[0] / 2, store.name


def test_data_must_be_named(capsys):
    pytest.importorskip("torch")
    commands = importlib.import_module("workflows.experiments.commands")
    with pytest.raises(SystemExit):
        commands.options("about", ["--out", "x"])
    assert "--data is the folder" in capsys.readouterr().err


def test_every_result_that_is_kept_is_of_a_documented_command():
    """README names the command of each JSON of results/, and its numbers are those of the file."""
    folder = Path(importlib.import_module("workflows.experiments").__file__).parent
    text = (folder / "README.md").read_text()
    for path in (folder / "results").glob("*.json"):
        content = json.loads(path.read_text())
        assert f"python -m workflows.experiments.{content['experiment']}" in text
        assert f"{100 * content['test_accuracy']:.1f} %" in text
