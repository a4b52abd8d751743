"""The rule for how many rows are enough, and the error that it states."""

from __future__ import annotations

import itertools
from math import factorial

import numpy as np
import pytest

from dshap.attributors.enough import (
    FIRST_ROWS,
    LEAST_ROWS,
    Enough,
    Judgement,
    SpreadBlock,
    all_and_without,
    blocks_of,
    in_deviations,
    jackknife,
    judged_design,
    may_judge,
    n_blocks_to,
    part_ends,
    reason_of,
)
from dshap.core.records import Moments
from dshap.core.spread import SpreadOrder
from dshap.kernels import RBF, Nystrom
from dshap.tables import ArraySource
from dshap.values import ConditionalRegression


def model(x):
    """Interactions of every order."""
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + x[:, 0] * x[:, 1] * x[:, 2]


def rows_of(n, seed):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    x[:, 1] += 0.6 * x[:, 0]
    return x


def regression(x, n_landmarks=24, penalty=1e-3):
    value = ConditionalRegression(model, x, RBF(1.5), Nystrom(n_landmarks), penalty)
    return value.chosen(value.choose(x[:2_000]))


def judged_parts(judgement, parts):
    """The errors by moments of each part, as the passes make them."""
    ends = np.cumsum([len(part) for part in parts]).tolist()
    table = ArraySource(np.concatenate(parts))
    found = []
    for tile in judgement.tiles(3, ends):
        # two blocks of each part, so that sums of a part are added
        spans = itertools.pairwise(sorted([0, *ends, *(end - 7 for end in ends)]))
        sums = [tile.partial(table.read(*span)) for span in spans]
        found.append(tile.finish(sum(sums[1:], sums[0])))
    predictions = [judgement.value.model(part) for part in parts]
    return jackknife(judgement.attributions(found, predictions))


def shapley(value, rows, data):
    """Attributions (n, d) by the definition, learned from all of `data`."""
    d = data.shape[1]
    masks = np.array(list(itertools.product([False, True], repeat=d)))
    proper = masks[1:-1]
    state = value.prepare(proper, value.moments(proper, data))
    values = np.empty((len(masks), len(rows)))
    values[0] = model(data).mean()
    values[1:-1] = value.evaluate(state, rows)[..., 0].T
    values[-1] = model(rows)
    at = {tuple(mask): j for j, mask in enumerate(masks)}
    phi = np.zeros((len(rows), d))
    for i in range(d):
        for mask in masks[~masks[:, i]]:
            s = int(mask.sum())
            weight = factorial(s) * factorial(d - s - 1) / factorial(d)
            added = mask.copy()
            added[i] = True
            phi[:, i] += weight * (values[at[tuple(added)]] - values[at[tuple(mask)]])
    return phi


def test_sums_without_a_part_are_those_of_the_others():
    rng = np.random.default_rng(0)
    parts = [Moments({"a": rng.normal(size=3), "n": np.array(1.0)}) for _ in range(8)]
    total, *without = all_and_without(parts)
    np.testing.assert_allclose(total["a"], sum(part["a"] for part in parts))
    for g, each in enumerate(without):
        others = [part["a"] for h, part in enumerate(parts) if h != g]
        np.testing.assert_allclose(each["a"], sum(others), atol=1e-12)
        assert each["n"] == 7.0


def test_the_error_is_the_jackknife_of_shapley_values():
    x = rows_of(1_600, 0)
    value = regression(x)
    rows = rows_of(5, 1)
    parts = np.split(x, 8)
    errors = judged_parts(Judgement(value, judged_design(3), rows), parts)
    phi = shapley(value, rows, x)
    without = [
        shapley(value, rows, np.concatenate([*parts[:g], *parts[g + 1 :]])) for g in range(8)
    ]
    squares = 7 / 8 * sum((each - phi) ** 2 for each in without)
    np.testing.assert_allclose(errors[:, 0], np.sqrt(squares.mean(axis=0)), rtol=1e-6)


def test_the_stated_error_is_that_between_disjoint_samples():
    # 16 samples: the ratio has a standard deviation of about 8 %, a false alarm below 1 in 1,000
    x = rows_of(16 * 1_024, 2)
    value = regression(x)
    rows = rows_of(60, 3)
    judgement = Judgement(value, judged_design(3), rows)
    samples = np.split(x, 16)
    stated = np.array([judged_parts(judgement, np.split(each, 8)) for each in samples])
    phi = np.array([shapley(value, rows, each) for each in samples])
    true = np.sqrt(phi.var(axis=0, ddof=1).mean())
    assert 0.75 < np.sqrt(np.mean(stated**2)) / true < 1.3
    spread = (phi - phi.mean(axis=0)) * np.sqrt(16 / 15)
    covered = np.abs(spread) < 1.96 * stated.mean(axis=0)[:, 0]
    assert covered.mean() > 0.9


def test_parts_are_eighths():
    assert part_ends(8_192) == [1_024 * part for part in range(1, 9)]
    ends = part_ends(1_003)
    assert ends[-1] == 1_003
    assert set(np.diff([0, *ends]).tolist()) == {125, 126}


def test_errors_are_compared_with_the_deviation_of_each_output():
    errors = np.array([[3.0, 0.3], [4.0, 0.4]])
    rms = np.sqrt(12.5)
    assert in_deviations(errors, np.array([10.0, 0.1])) == pytest.approx(rms)
    assert in_deviations(errors, np.array([10.0, 0.0])) == pytest.approx(rms / 10)


@pytest.mark.parametrize(
    ("error", "more"),
    [(0.0031, 2), (0.0042, 2), (0.0044, 2), (0.007, 8), (0.05, 256)],
)
def test_the_next_number_of_rows_is_a_doubling_that_may_be_enough(error, more):
    assert Enough(0.003).more(FIRST_ROWS, error) == more * FIRST_ROWS


def test_blocks_end_where_the_rule_may_end():
    ends = [stop for _, stop in blocks_of(6)]
    assert ends == [8_192, 16_384, 32_768, 65_536, 131_072, 196_608]
    assert blocks_of(3)[0][0] == 0
    for n_rows, n_blocks in [(8_192, 1), (65_536, 4), (131_072, 5), (262_144, 7)]:
        assert n_blocks_to(n_rows) == n_blocks


def test_a_table_is_judged_from_four_times_the_first_rows_on():
    assert not may_judge(LEAST_ROWS - 1)
    assert may_judge(LEAST_ROWS)


def test_the_plan_says_why_all_rows_are_read():
    data = ArraySource(np.zeros((100, 2)))
    ((name, why),) = reason_of(Enough(0.003), data)
    assert name == "enough"
    assert (
        why
        == "all 100 rows are read: a part of them is tried only in tables of 32,768 rows or more"
    )
    assert reason_of(None, data) == ()


def test_a_block_holds_its_rows_in_the_order_without_bad_ones():
    x = np.arange(200.0).reshape(100, 2)
    x[30] = np.nan
    order = SpreadOrder(100)
    value = ConditionalRegression(
        lambda rows: rows[:, 0], x[31:], RBF(1.0), Nystrom(landmarks=x[31:33]), 1e-3
    )
    block = SpreadBlock.of(value.model, order, 10, 40)
    table = ArraySource(x, missing="skip")
    total = None
    for span in block.reads(32):
        part = block.partial(table.read(*span))
        total = part if total is None else total + part
    found = block.finish(total)
    wanted = [place for place in order.positions(10, 40) if place != 30]
    assert len(wanted) == 29
    np.testing.assert_array_equal(found["x"], x[wanted])
    np.testing.assert_array_equal(found["prediction"][:, 0], x[wanted, 0])


def test_many_players_are_judged_by_a_sample_of_coalitions():
    assert judged_design(4).info.n_coalitions == 16
    assert judged_design(8).info.n_coalitions == 64
    assert judged_design(40).info.n_coalitions == 160
