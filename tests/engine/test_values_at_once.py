"""Runs of a design that wants all values of a row at once: kriging whose pilot chose sparse
terms."""

import json

import numpy as np
import pytest

import dshap
from dshap.core.errors import FailedBlocksError
from dshap.core.records import Record
from dshap.cube import verify_cube
from dshap.designs import kriging
from dshap.values import Marginal

D, M = 12, 400


def few(x):
    """Two outputs of few interactions: products of three columns and pairs, and a little of every
    order."""
    rough = 0.02 * np.tanh(x @ np.linspace(-1, 1, D))
    one = (
        x[:, 0] * x[:, 1] * x[:, 2]
        + 0.5 * x[:, 3] * x[:, 4]
        + x[:, 5]
        - x[:, 6] * x[:, 7] * x[:, 8]
        + rough
    )
    return np.stack([one, x[:, 9] * x[:, 10] * x[:, 11] + x[:, 0] + rough], axis=1)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(80, D))


@pytest.fixture(scope="module")
def value(rows):
    return Marginal(few, np.zeros((1, D)))


@pytest.fixture(scope="module")
def plain(value, rows):
    """The cube of a run without options, and the values (rows, m, 2) by hand."""
    cube = dshap.explain(value, rows, design=kriging(D, M, seed=4))
    chosen = {name: np.array(own) for name, own in json.loads(cube.attrs["pilot"]).items()}
    design = kriging(D, M, seed=4).tuned(Record(chosen))
    mixed = np.where(design.masks[None], rows[:, None], 0.0)  # (n, m, d)
    return cube, design, few(mixed.reshape(-1, D)).reshape(len(rows), -1, 2)


@pytest.mark.slow
def test_the_attributions_are_those_of_all_values(plain, value, rows):
    """As by hand, better by far than without terms, adding up; the choice stands in the cube."""
    cube, design, values = plain
    assert design.findings.sparse
    assert design.held_coalitions == M
    assert design.findings.doubt >= 1
    phi, replicates = design.of_values(values)
    np.testing.assert_allclose(cube.attribution, phi, atol=1e-9)
    np.testing.assert_allclose(
        cube.std_error, np.sqrt(np.square(replicates - phi).sum(axis=0)), atol=1e-9
    )
    truth = dshap.explain(value, rows, design="exact")
    without = dshap.explain(value, rows, design=kriging(D, M, seed=4, sparse=False))
    assert (
        abs(cube.attribution - truth.attribution).mean()
        < 0.3 * abs(without.attribution - truth.attribution).mean()
    )
    error = abs(cube.attribution - truth.attribution)
    assert float((error <= 2.093 * cube.std_error).mean()) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"coalition_groups": 3, "coalition_tile": 70},
        {"coalition_tile": 30, "instance_tile": 32, "micro_rows": 7},
        {"interactions": True, "coalition_groups": 2, "coalition_tile": 100},
        {"dtype": "float32"},
    ],
    ids=str,
)
def test_however_the_work_is_cut(plain, value, rows, tmp_path, options):
    """Parts of the coalitions, tiles and micro-blocks give the same."""
    store = tmp_path / "cube.zarr"
    cube = dshap.explain(value, rows, design=kriging(D, M, seed=4), store=store, **options)
    np.testing.assert_allclose(
        cube.attribution, plain[0].attribution, atol=1e-5 if "dtype" in options else 1e-8
    )
    np.testing.assert_allclose(
        cube.std_error, plain[0].std_error, atol=1e-5 if "dtype" in options else 1e-8
    )
    assert verify_cube(store) == []
    if "interactions" in options:
        np.testing.assert_allclose(
            cube.interaction.sum("feature_other"), cube.attribution, atol=1e-9
        )


@pytest.mark.slow
def test_in_rounds_the_last_has_terms(plain, value, rows):
    """Rows that tol sends to the last round have the estimates of the whole list, the others those
    of a plain stage."""
    cube = dshap.explain(value, rows, tol=1e-9, max_coalitions=M)
    assert json.loads(cube.attrs["pilot"])["sparse"]
    assert (cube.n_coalitions == M).all()
    loose = dshap.explain(value, rows, tol=0.02, max_coalitions=M)
    assert (loose.n_coalitions < M).any()
    truth = dshap.explain(value, rows, design="exact").attribution
    assert float(abs(cube.attribution - truth).mean()) < 0.3 * float(
        abs(loose.attribution - truth).mean()
    )


@pytest.mark.slow
def test_a_failing_row_is_its_own_block_s_matter(rows):
    def fails(x):
        if (np.abs(x - rows[79]).max(axis=1) < 1e-12).any():
            raise ValueError("no such row")
        return few(x)

    with pytest.raises(FailedBlocksError, match="1 of 3 blocks"):
        dshap.explain(
            Marginal(fails, np.zeros((1, D))), rows, design=kriging(D, M), instance_tile=32
        )


@pytest.mark.slow
def test_values_that_are_not_finite_are_the_model_s(rows):
    """With the reason."""

    def holes(x):
        out = few(x)
        out[(x[:, 0] == rows[79, 0]) & (x[:, 1] == 0.0)] = np.nan
        return out

    with pytest.raises(FailedBlocksError, match="NaN or infinity"):
        dshap.explain(
            Marginal(holes, np.zeros((1, D))), rows, design=kriging(D, M), instance_tile=32
        )


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_same_choice(value, rows, tmp_path):
    """Blocks that are left out and done later are those of one run."""
    store, calls = tmp_path / "cube.zarr", []

    def breaks(x):
        calls.append(len(x))
        if len(calls) == 30:
            raise KeyboardInterrupt
        return few(x)

    design, broken = kriging(D, M, seed=4), Marginal(breaks, np.zeros((1, D)))
    with pytest.raises(KeyboardInterrupt):
        dshap.explain(broken, rows, design=design, store=store, instance_tile=8)
    found = dshap.explain(broken, rows, design=design, store=store, instance_tile=8)
    again = dshap.explain(value, rows, design=design, instance_tile=8)
    np.testing.assert_allclose(found.attribution, again.attribution, atol=1e-12)


@pytest.mark.slow
def test_rows_may_have_processes_of_their_own(tmp_path):
    """Rows that differ from the background in a few columns, each in others: as by hand, however
    the work is cut, and nearer to the truth than with one process for all."""
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((64, D)) < 0.35, 1.0, 0.0)
    value = Marginal(lambda x: np.exp(0.5 * x @ np.linspace(-1, 2, D)), np.zeros((1, D)))
    design = kriging(D, M, seed=2)
    cube = dshap.explain(value, rows, design=design)
    chosen = json.loads(cube.attrs["pilot"])
    assert chosen["by_game"]
    assert chosen["by_game_gain"] <= 0.95
    tuned = design.tuned(Record({name: np.array(own) for name, own in chosen.items()}))
    mixed = np.where(tuned.masks[None], rows[:, None], 0.0)
    phi, replicates = tuned.of_values(value.model(mixed.reshape(-1, D)).reshape(len(rows), -1, 1))
    np.testing.assert_allclose(cube.attribution, phi, atol=1e-9)
    # the others are the background itself, and have the floor of rows that never moved
    moved = rows.any(axis=1)
    errors = np.sqrt(np.square(replicates - phi).sum(axis=0))
    np.testing.assert_allclose(cube.std_error[moved], errors[moved], atol=1e-9)
    store = tmp_path / "cube.zarr"
    cut = {"coalition_tile": 90, "instance_tile": 32, "coalition_groups": 2}
    again = dshap.explain(value, rows, design=design, store=store, **cut)
    np.testing.assert_allclose(again.attribution, cube.attribution, atol=1e-8)
    assert verify_cube(store) == []
    truth = dshap.explain(value, rows, design="exact").attribution
    alike = dshap.explain(value, rows, design=kriging(D, M, seed=2, sparse=False)).attribution
    assert float(abs(cube.attribution - truth).mean()) < 0.5 * float(abs(alike - truth).mean())
