"""The comparison of workflows/experiments: its parts on functions that are known, its commands in
their tiny form."""

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
from dshap.designs import chain, connected_regression, grid
from workflows.experiments import baselines
from workflows.experiments.comparison import (
    PRESENT,
    SHARES,
    Method,
    Result,
    Study,
    changes,
    compare,
    log_odds,
    of_panel,
    result_of,
)
from workflows.experiments.data import made_up_images
from workflows.experiments.images import BUDGET, image_methods, masked, value_of
from workflows.experiments.kept import KeptMarginal
from workflows.experiments.neighbours import (
    REGRESSIONS,
    FreeRegression,
    local_methods,
    regression_methods,
    ring,
)
from workflows.experiments.tables import differences, table
from workflows.experiments.text_methods import text_methods
from workflows.experiments.texts import (
    made_up_reviews,
    texts_of_csv,
    tokens_of,
    vocabulary_of,
    words_of,
)

pytestmark = pytest.mark.usefixtures("in_this_process")

SHAPE = (3, 4, 3)
N_COLUMNS = 36


class Linear:
    """Logits that are linear in the row, with what a network of the experiments has."""

    def __init__(self, n_columns: int = N_COLUMNS) -> None:
        rng = np.random.default_rng(0)
        self.weights, self.offset = rng.normal(size=(n_columns, 2)), rng.normal(size=2)
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


class OfTokens(Linear):
    """Of texts: the numbers of the tokens in the place of a row."""

    def logits(self, rows):
        padded = np.pad(rows, ((0, 0), (0, N_COLUMNS - min(N_COLUMNS, rows.shape[1]))))[
            :, :N_COLUMNS
        ]
        return super().logits(padded / 10)


@pytest.fixture
def study() -> Study:
    rows = np.random.default_rng(1).random((5, N_COLUMNS))
    return Study(
        "made_up", "Made up", Linear(), rows, np.full(N_COLUMNS, 0.5), dshap.image_players(*SHAPE)
    )


def gains(study: Study) -> np.ndarray:
    """(n, d): what each pixel adds to the log-odds of the predicted class, which is the difference
    of two logits."""
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
    assert_allclose(
        found, -np.stack([top[:, :0].sum(1), top[:, :3].sum(1), top.sum(1)], axis=1), atol=1e-12
    )
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
    cube = dshap.explain(
        baselines.Saliency(network, study.reference, study.players), study.rows, progress=False
    )
    classes, step = network.predicted(study.rows), 1e-6
    slopes = [
        network.log_probabilities(study.rows + step * unit)[np.arange(5), classes]
        for unit in np.eye(N_COLUMNS)
    ]
    slopes = (
        np.array(slopes).T - network.log_probabilities(study.rows).max(axis=1)[:, None]
    ) / step
    expected = np.abs(slopes).reshape(5, 12, 3).sum(axis=2)
    assert_allclose(cube.attribution[..., 0], expected, atol=1e-4)
    assert_allclose(cube.prediction[:, 0], network.log_probabilities(study.rows).max(axis=1))


@pytest.mark.parametrize("draw", baselines.LIME_KERNELS)
def test_lime_is_a_weighted_ridge_regression(study, draw):
    pytest.importorskip("lime")
    lime = baselines.Lime(
        study.classifier, study.reference, study.players, budget=5, draw=draw, seed=3
    )
    found = dshap.explain(lime, study.rows, progress=False).attribution[..., 0]
    masks = draw(np.random.default_rng(3), 60, 12)
    factor, width = baselines.LIME_KERNELS[draw]
    norms = np.sqrt(masks.sum(axis=1) * 12)
    cosine = np.divide(masks.sum(axis=1), norms, out=np.zeros(60), where=norms > 0)
    weights = np.exp(-((factor * (1 - cosine)) ** 2) / (2 * width**2))
    centred = masks - np.average(masks, axis=0, weights=weights)
    for row, phi in zip(study.rows, found, strict=True):
        mixed = np.where(np.repeat(masks, 3, axis=1), row, study.reference)
        values = study.classifier.log_probabilities(mixed)[
            :, study.classifier.predicted(row[None])[0]
        ]
        gram = (centred.T * weights) @ centred + np.eye(12)
        assert_allclose(phi, np.linalg.solve(gram, (centred.T * weights) @ values), atol=1e-9)


@pytest.mark.parametrize("draw", baselines.LIME_KERNELS)
def test_samples_of_lime(draw):
    """The first is the instance itself; the others are as many as lime draws: a half, or all
    numbers equally likely."""
    masks = draw(np.random.default_rng(0), 4_000, 10)
    assert masks.shape == (4_000, 10)
    assert masks[0].all()
    sizes = np.bincount(masks[1:].sum(axis=1), minlength=11) / 3_999
    assert sizes[10] < 0.01
    if draw is baselines.draw_as_texts:
        assert_allclose(sizes[:10], 0.1, atol=0.025)  # five standard deviations
    else:
        assert sizes.argmax() == 5


@pytest.mark.slow
def test_a_comparison_leaves_cubes_curves_numbers_and_a_picture(study, tmp_path):
    pytest.importorskip("matplotlib")
    methods = image_methods(study, SHAPE)
    kept = {name: methods[name] for name in ("KernelSHAP", "SampleShapley", "Saliency")}
    results = compare(
        study, {**kept, "exact": Method(kept["KernelSHAP"].value, "exact")}, tmp_path, {"more": 1}
    )
    cubes = {
        each.method: dshap.open_cube(tmp_path / "cubes" / f"{each.method}.zarr") for each in results
    }
    for each in results:
        assert_array_equal(cubes[each.method].attribution[..., 0], each.attribution)
    with xr.open_zarr(tmp_path / "made_up_curves.zarr", consolidated=False) as curves:
        assert curves.change.dims == ("explainer", "instance", "share")
        assert_array_equal(curves.change.sel(explainer="exact"), results[3].change)
    content = json.loads((tmp_path / "made_up.json").read_text())
    assert content["instances"] == 5
    assert content["features"] == 12
    assert content["more"] == 1
    assert content["all_methods"]["evaluations"] == sum(each.evaluations for each in results)
    of_exact = content["change_in_log_odds"]["exact"]
    assert_allclose(of_exact["mean"], results[3].change.mean(axis=0), atol=1e-4)
    assert of_exact["mean"][0] == 0
    assert len(of_exact["mean"]) == len(SHARES)
    assert (tmp_path / "made_up.png").read_bytes()[:4] == b"\x89PNG"
    # at most 4d, and what names, checks and masking want
    for name in ("KernelSHAP", "SampleShapley"):
        assert content["change_in_log_odds"][name]["evaluations_an_instance"] < 48 + 30
        assert_allclose(cubes[name].attribution, cubes["exact"].attribution, atol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(12, 12, 1), (28, 28, 1), (16, 8, 3)])
def test_no_method_of_images_takes_more_than_its_budget(size):
    n_columns = int(np.prod(size))
    players = dshap.image_players(*size)
    study = Study(
        "made_up", "", Linear(n_columns), np.ones((1, n_columns)), np.zeros(n_columns), players
    )
    methods = image_methods(study, size)
    taken = {
        name: each.design.info.n_coalitions
        for name, each in methods.items()
        if each.design != "auto"
    }
    assert len(taken) == 14
    assert sum(name.endswith(PRESENT) for name in taken) == 6
    assert max(taken.values()) <= BUDGET * len(players), taken
    if size == (28, 28, 1):  # squares of 2 x 2 and of 3 x 3
        found = {
            name: len(methods[name].value.players)
            for name in ("C-Shapley, boundary", "C-Shapley, paper", "L-Shapley")
        }
        assert list(found.values()) == [196, 100, 100]


def test_what_a_patch_is_given_is_shared_among_its_pixels(study, tmp_path):
    """In a linear function each pixel of a patch gets the mean of them all."""
    players = dshap.image_players(*SHAPE, patch=2)
    value = dshap.values.Marginal(
        study.classifier.logits, study.reference[None], players=players, link=None
    )
    found = result_of(study, "patches", Method(value, "exact"), tmp_path).attribution
    gained = (
        study.classifier.weights[:, 0] * (study.rows - study.reference)
    ) @ study.members.members.T
    for patch in ([0, 1, 4, 5], [2, 3, 6, 7], [8, 9], [10, 11]):
        expected = np.broadcast_to(gained[:, patch].mean(axis=1, keepdims=True), (5, len(patch)))
        assert_allclose(found[:, patch], expected, atol=1e-9)


@pytest.mark.parametrize("weights", ["uniform", "kernel"])
@pytest.mark.parametrize("graph", [chain(1), chain(6), grid(2, 4)], ids=["one", "chain", "grid"])
@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions_are_their_definitions(name, graph, weights):
    """Σ w (v'(S) − Σ φ)² with and without Σφ = v(N) − v(∅), S what `connected_regression` lists; v'
    of what is there over nobody, or of what is taken from everybody."""
    d, rng = graph.n_nodes, np.random.default_rng(4)
    design, listed = (
        REGRESSIONS[name](graph, 2, weights=weights),
        connected_regression(graph, 2, weights=weights),
    )
    v = {mask.tobytes(): rng.normal() for mask in design.masks}
    empty, full = (v[np.full(d, is_in).tobytes()] for is_in in (False, True))
    z, w = (
        listed.masks[2:].astype(float),
        listed.block(2, listed.n_coalitions).score.max(axis=1, initial=0),
    )
    if name.endswith(PRESENT):
        target = full - np.array([v[(mask == 0).tobytes()] for mask in z])
    else:
        target = np.array([v[(mask == 1).tobytes()] for mask in z]) - empty
    if ", free" in name:
        expected = np.linalg.lstsq(np.sqrt(w)[:, None] * z, np.sqrt(w) * target)[0]
        assert not design.info.is_efficient
    else:
        a = np.block([[z.T * w @ z, np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
        expected = np.linalg.solve(a, np.append(z.T * w @ target, full - empty))[:d]
    values = np.array([v[mask.tobytes()] for mask in design.masks])
    assert_allclose(design.operator.T @ values, expected, atol=1e-9)


def test_the_constraint_gives_the_border_what_is_left():
    """A game of everybody together alone: nothing but the constraint gives it to anybody."""
    phi = connected_regression(grid(10, 10), 4).operator[1].reshape(10, 10)
    assert phi.sum() == pytest.approx(1)
    assert phi[0, 0] > 6 * abs(phi[2:-2, 2:-2]).max()
    assert not FreeRegression(grid(10, 10), 4).operator[1].any()


def test_others_are_present_where_the_name_says_so():
    """Any two players apart: those of small coalitions are absent, those of large ones present."""
    for name, method in local_methods(None, chain(9)).items():
        sizes = method.design.masks[2:].sum(axis=1)
        assert (sizes >= 6).all() if name.endswith(PRESENT) else (sizes <= 3).all(), name
        assert method.design.fingerprint().get("coefficients") in (None, *name.split(", ")[1:2])


def test_a_ring_joins_the_ends_of_a_chain():
    assert_array_equal(ring(4).toarray(), [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    assert ring(3).toarray().sum() == 6
    assert ring(1) == chain(1)
    assert ring(2) == chain(2)


def test_a_panel_has_one_convention_and_all_baselines():
    names = ["L-Shapley", f"L-Shapley{PRESENT}", f"C-Shapley, paper{PRESENT}", "LIME"]
    results = [Result(name, np.zeros((1, 2)), np.zeros((1, 2)), 1, 1, 1.0, 1.0) for name in names]
    for end, expected in {
        "": ["L-Shapley", "LIME"],
        PRESENT: ["L-Shapley", "C-Shapley, paper", "LIME"],
    }.items():
        found = of_panel(results, end)
        assert list(found) == expected
        assert found["L-Shapley"].method == f"L-Shapley{end}"


def test_made_up_images_tell_their_classes():
    images = made_up_images((8, 8, 3), ("a", "b"), 50)
    upper = images.x_test.reshape(-1, 2, 96).mean(axis=2)
    assert_array_equal(upper.argmax(axis=1), images.y_test)
    assert images.x_train.shape == (50, 192)
    assert images.reference.shape == (192,)
    assert len(images.players) == 64


def test_words_and_their_tokens():
    """By hand: tags are no words, an apostrophe joins, equally frequent words go by the
    alphabet."""
    assert words_of("It's GREAT.<br />A 10/10 film, it's") == [
        "it's",
        "great",
        "a",
        "10",
        "10",
        "film",
        "it's",
    ]
    words = vocabulary_of([["b", "a", "b"], ["c", "a", "d"]], 5)
    assert words == ("<padding>", "<unknown>", "a", "b", "c")
    assert_array_equal(tokens_of([["b", "z"], ["c"]], words), [[3, 1], [4, 0]])
    assert_array_equal(tokens_of([[*["a"] * 400, "b"]], words), [[2] * 399 + [3]])


def test_made_up_reviews_tell_their_classes():
    reviews = made_up_reviews(200)
    said = [[reviews.words[token] for token in row] for row in reviews.x_test]
    labels = [("good" in words) != ("not" in words) for words in said]
    assert_array_equal(labels, reviews.y_test)


def test_padding_changes_nothing_of_the_word_network():
    """The paper's number of parameters, and the numbers of torch's convolution."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.text_networks")
    network = networks.WordNetwork().eval()
    assert sum(each.numel() for each in network.parameters()) == 351_002
    tokens = torch.randint(1, 5_000, (3, 7))
    padded = torch.nn.functional.pad(tokens, (0, 9))
    assert torch.equal(networks.trimmed(padded), tokens)
    padded[:, [1, 4]] = 0  # absent words among those that are there
    assert torch.equal(networks.trimmed(padded), padded[:, :7])
    assert networks.trimmed(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 0)
    padded[:, [1, 4]] = tokens[:, [1, 4]]
    with torch.inference_mode():
        assert_allclose(network(padded), network(tokens), atol=1e-6)
        embedded = network.embedding(torch.nn.functional.pad(tokens, network.margins))
        found = network.convolution(embedded.transpose(1, 2)).amax(dim=2).relu()
        assert_allclose(network(tokens), network.outer(network.inner(found).relu()), atol=1e-6)


def test_other_networks_of_texts_read_over_padding():
    """Behind a text it changes nothing.  The LSTM takes the words that are left, the other blanks
    in their place."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.text_networks")
    words = ["<padding>", "<unknown>", "bad", "it's", "very-good", "a"]
    torch.manual_seed(0)
    tokens = torch.tensor([[2, 0, 3, 4], [5, 2, 0, 0], [0, 0, 0, 0]])
    for network in (networks.RecurrentNetwork(6, 3), networks.CharacterNetwork(words, 3)):
        with torch.inference_mode():
            found = network.eval()(tokens)
            assert found.shape == (3, 3)
            assert len(torch.unique(found[:, 0])) == 3
            assert_allclose(network(torch.nn.functional.pad(tokens, (0, 5))), found, atol=1e-6)
            assert network(tokens[:, :0]).shape == (3, 3)
            assert_allclose(network(tokens[:, :0])[0], found[2], atol=1e-6)
            if isinstance(network, networks.RecurrentNetwork):
                assert_allclose(network(torch.tensor([[2, 3, 4]])), found[:1], atol=1e-6)
    codes = network.characters(tokens)
    assert codes.shape == (3, 1_014)
    spelled = [
        "".join(" " if code == 0 else networks.ALPHABET[code - 1] for code in row) for row in codes
    ]
    assert spelled[0].rstrip() == "bad  it's verygood"
    assert spelled[1].rstrip() == "a bad"
    assert not spelled[2].strip()


def test_inference_forms_are_their_networks():
    """To float32 rounding, at any number of absent words, texts of nothing else among them."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.text_networks")
    torch.manual_seed(0)
    words = ["<padding>", "<unknown>", *("abcdefghij"[: 1 + token % 10] for token in range(2, 50))]
    tokens = torch.randint(1, 50, (6, 190))
    for share, row in zip((0.0, 0.1, 0.5, 0.9, 0.99, 1.0), tokens, strict=True):
        row[torch.rand(190) < share] = 0
    tokens[1, 90:] = 0
    for made in (
        networks.WordNetwork(50, 3),
        networks.RecurrentNetwork(50, 3),
        networks.CharacterNetwork(words, 3),
    ):
        network = made.eval()
        with torch.inference_mode():
            expected, form = network(tokens), network.inference_form()
            assert_allclose(form(tokens), expected, atol=1e-6)
            # each by itself, as far as it goes
            for row, logits in zip(tokens, expected, strict=True):
                assert_allclose(form(networks.trimmed(row[None]))[0], logits, atol=1e-6)
        sizes = form.sizes(tokens)
        assert sizes.shape == (6,)
        assert sizes.argmax() == 0
        assert sizes.argmin() == 5


@pytest.mark.parametrize("name", ["digit_network", "photo_network"])
def test_normalisation_is_folded_into_the_convolutions(name):
    """Of a network that has been trained for a step, so that there is something to fold."""
    torch = pytest.importorskip("torch")
    network = getattr(importlib.import_module("workflows.experiments.networks"), name)
    folded = importlib.import_module("workflows.experiments.folding").folded
    torch.manual_seed(0)
    network = network(8, 8)
    images = torch.rand(5, network[0].in_channels, 8, 8)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    network(images).square().sum().backward()
    optimizer.step()
    with torch.inference_mode():
        assert_allclose(folded(network)(images), network.eval()(images), atol=1e-5)
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in folded(network))


def test_logits_stand_where_their_texts_do():
    """Texts of near sizes go through the network together, whatever their order."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.networks")
    network = importlib.import_module("workflows.experiments.text_networks").RecurrentNetwork(50)
    rows = np.random.default_rng(0).integers(0, 50, (9, 12)).astype(float)
    found = networks.Classifier(network, ("a", "b"), None, batch=2).logits(rows)
    with torch.inference_mode():
        assert_allclose(found, network(torch.as_tensor(rows)), atol=1e-6)


@pytest.mark.slow
def test_methods_share_their_values(study, tmp_path):
    """No mix of a row is computed twice, and attributions are those of values that are not kept."""
    kept, alone = value_of(study, study.players, KeptMarginal), value_of(study, study.players)
    graph, seen = grid(3, 4), set()
    remembering, plain = (
        regression_methods(value, graph, 2) | local_methods(value, graph) for value in (kept, alone)
    )
    for name, first in remembering.items():
        before = kept.memory.n_saved
        results = [
            result_of(study, name, each, tmp_path / str(i))
            for i, each in enumerate((first, plain[name]))
        ]
        # calls of fewer rows
        assert_allclose(results[0].attribution, results[1].attribution, rtol=0, atol=1e-13)
        proper = first.design.block(2, first.design.info.n_coalitions).masks
        asked = {mask.tobytes() for mask in proper}
        assert kept.memory.n_saved - before == 5 * len(asked & seen), name
        assert results[0].evaluations - results[0].computed == 5 * len(asked & seen), name
        assert results[1].evaluations == results[1].computed == results[0].evaluations, name
        seen |= asked
    assert kept.memory.n_saved > 5 * len(seen)


def test_texts_of_csv(tmp_path):
    """By hand: classes from 1, columns of text joined, words known from the texts to train on."""
    (tmp_path / "train.csv").write_text('"2","Wall St.","a ""quoted"" word"\n"1","","Wall"\n')
    (tmp_path / "test.csv").write_text('"3","none of it","wall"\n')
    found = texts_of_csv(tmp_path, n_words=4)
    assert found.words == ("<padding>", "<unknown>", "wall", "a")
    assert found.classes == (
        "1",
        "2",
        "3",
    )
    assert_array_equal(found.x_train, [[2, 1, 3, 1, 1], [2, 0, 0, 0, 0]])
    assert_array_equal(found.x_test, [[1, 1, 1, 2]])
    assert_array_equal(found.y_train, [1, 0])
    (tmp_path / "classes.txt").write_text("World\nSports\nBusiness\n")
    assert texts_of_csv(tmp_path).classes == ("World", "Sports", "Business")


def test_batches_of_texts_are_of_near_lengths():
    torch = pytest.importorskip("torch")
    batches = importlib.import_module("workflows.experiments.training").batches
    lengths = torch.randint(1, 400, (1_000,))
    for given in (None, lengths):
        found = batches(1_000, 16, given)
        assert_array_equal(np.sort(torch.cat(list(found))), np.arange(1_000))
    assert max(int(lengths[batch].max() - lengths[batch].min()) for batch in found) < 100
    assert len(found) == 63


def test_the_best_network_on_rows_held_out_is_kept(capsys):
    """One that unlearns: labels of the rows to train on are wrong, so that the first pass is the
    best."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.training")
    torch.manual_seed(0)
    x = torch.randn(300, 2)
    y = (x[:, 0] > 0).long().numpy()
    y[100:] = 1 - y[100:]
    network = torch.nn.Linear(2, 2)
    network.weight.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    networks.train(network, x, y, epochs=4, rate=0.3, n_held_out=100)
    said = [
        float(line.split("accuracy ")[1].split()[0])
        for line in capsys.readouterr().out.splitlines()
    ]
    found = float((network(x[:100]).argmax(dim=1).numpy() == y[:100]).mean())
    assert len(said) == 4
    assert said[-1] < 0.2
    assert abs(found - max(said)) < 1e-4


def test_images_are_moved_and_mirrored():
    """Each is a part of the image with its mirrored surroundings, or of its mirror image; both
    happen."""
    torch = pytest.importorskip("torch")
    networks = importlib.import_module("workflows.experiments.training")
    torch.manual_seed(0)
    image = torch.rand(1, 2, 8, 8)
    around = torch.nn.functional.pad(image, (4, 4, 4, 4), mode="reflect")[0]
    parts = {(y, x): around[:, y : y + 8, x : x + 8] for y in range(9) for x in range(9)}
    seen = set()
    for found in networks.shifted_and_mirrored(image.repeat(200, 1, 1, 1)):
        met = [
            (at, turned)
            for at, part in parts.items()
            for turned in (0, 1)
            if torch.equal(found, (part, part.flip(2))[turned])
        ]
        assert met
        seen |= set(met)
    assert len({at for at, _ in seen}) > 20
    assert {turned for (_, x), turned in seen if x == 4} == {0, 1}  # no other part mirrors these


def test_no_method_of_texts_takes_more_than_its_budget():
    """At any length, the two ends of a ring apart: a text of four words has 16 coalitions."""
    words = [f"word{token}" for token in range(N_COLUMNS)]
    study = Study("made_up", "", OfTokens(), np.ones((1, 60)), np.zeros(60), None, np.array([60]))
    methods = text_methods(study, words)
    assert len(methods) == 15
    for d in (1, 2, 3, 4, 5, 9, 60):
        made = {name: each.design for name, each in methods.items() if each.design != "auto"}
        taken = {
            name: (of(d) if callable(of) else of.with_players(d)).info.n_coalitions
            for name, of in made.items()
        }
        assert max(taken.values()) <= 4 * d + 2, (
            d,
            taken,
        )
        assert min(taken.values()) >= min(2 * d, 2**d), (
            d,
            taken,
        )


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


TINY = {
    "mnist": ("mnist.EPOCHS", []),
    "squares": ("mnist.EPOCHS", []),
    "cifar": ("cifar.EPOCHS", []),
    "imdb": ("text_commands.TINY_EPOCHS", []),
    "imdb_recurrent": ("text_commands.TINY_EPOCHS", ["--network", "recurrent"]),
    "news": ("text_commands.TINY_EPOCHS", []),
}
"""Experiment -> how many passes its network is trained for, and more options."""


@pytest.mark.parametrize("name", TINY)
def test_the_tiny_form_of_a_command(name, tmp_path, monkeypatch, capsys):
    for package in ("torch", "lime", "PIL", "matplotlib"):
        pytest.importorskip(package)
    command, (epochs, more) = (
        importlib.import_module(f"workflows.experiments.{name.split('_')[0]}"),
        TINY[name],
    )
    monkeypatch.setattr(f"workflows.experiments.{epochs}", 10)
    for _ in range(2):  # the second finds network and cubes there
        command.main(["--tiny", "--threads", "1", "--out", str(tmp_path), *more])
    said = capsys.readouterr().out
    assert said.count("test accuracy") == 2
    assert said.count("epoch 10 of 10") == 1
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert content["instances"] == 4
    assert content["test_accuracy"] > 0.8
    assert {path.suffix for path in tmp_path.iterdir()} >= {".json", ".png", ".zarr", ".pt"}
    assert (tmp_path / "sentence.png").exists() == name.startswith("imdb")


@pytest.mark.cluster
def test_two_workers_give_the_same_cubes(tmp_path, monkeypatch):
    """As one process does, to the rounding of the network."""
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
        one, two = (dshap.open_cube(each).attribution for each in (here, there))
        # the network is float32, its calls differ
        assert_allclose(two, one, rtol=0, atol=1e-5, err_msg=store.name)
        if store.stem != "Saliency":  # the network was asked elsewhere
            evaluations = [
                json.loads(each.with_suffix(".json").read_text())[0] for each in (here, there)
            ]
            assert evaluations[1] < evaluations[0] / 2, store.name


def test_data_must_be_named(capsys):
    pytest.importorskip("torch")
    commands = importlib.import_module("workflows.experiments.commands")
    with pytest.raises(SystemExit):
        commands.options("about", ["--out", "x"])
    assert "--data is the folder" in capsys.readouterr().err


def test_a_table_has_a_row_for_each_method():
    """By hand."""
    changed = {"mean": [-1.0, -2.0, -3.0, -4.0], "std_error": [0.1, 0.2, 0.3, 0.4]}
    methods = {"LIME": changed | {"evaluations_an_instance": 1234.4, "computed_an_instance": 2.6}}
    found = table(
        {"masked_share": [0.05, 0.1, 0.2, 0.4], "change_in_log_odds": methods}
    ).splitlines()
    assert found[0] == "| | 5 % | 10 % | 20 % | 40 % | evaluations | computed |"
    assert found[2:] == [
        "| LIME | −1.00 ± 0.10 | −2.00 ± 0.20 | −3.00 ± 0.30 | −4.00 ± 0.40 | 1,234 | 3 |"
    ]


def test_differences_are_taken_instance_by_instance():
    change = np.zeros((2, 3, 4))
    change[0, :, 1] = [1.0, 2.0, 3.0]
    coordinates = {"explainer": ["a", "b"], "share": [0.05, 0.1, 0.2, 0.4]}
    curves = xr.Dataset(
        {"change": (("explainer", "instance", "share"), change)}, coords=coordinates
    )
    zero = "0.00 ± 0.00"
    assert list(differences(curves, "a")) == [f"| b | {zero} | 2.00 ± 0.47 | {zero} | {zero} |"]


def test_every_result_that_is_kept_is_of_a_documented_command():
    """README names the command of each JSON of results/, and its numbers are those of the file."""
    folder = Path(importlib.import_module("workflows.experiments").__file__).parent
    text = (folder / "README.md").read_text()
    for path in (folder / "results").glob("*.json"):
        content = json.loads(path.read_text())
        assert f"python -m workflows.experiments.{content['experiment'].split('_')[0]}" in text
        assert f"{100 * content['test_accuracy']:.1f} %" in text
        assert table(content) in text
