"""Hashes of keys: the same everywhere, 128 bits where they decide alone, and which rows have one key."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dshap.tables import hash_keys, number_keys, wide_hashes
from tests.tables.keys_of_one_hash import keys_of_one_hash

TEXT = np.dtypes.StringDType()
SMALL = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
"""The ends of the hashes, and their middle."""


def test_hashes_are_the_same_in_another_process():
    code = (
        "import numpy as np; from dshap.tables import wide_hashes; "
        "print(*wide_hashes({'a': np.array([1, -1]), 'b': np.array(['x', 'ü'], "
        "dtype=np.dtypes.StringDType())}).ravel())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    keys = {"a": np.array([1, -1]), "b": np.array(["x", "ü"], dtype=TEXT)}
    here = wide_hashes(keys)
    assert done.stdout.split() == [str(value) for value in here.ravel()]
    np.testing.assert_array_equal(here[:, 0], hash_keys(keys))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(-50_000, 50_000),
        np.datetime64("1970-01-01", "ns") + np.arange(100_000),
        np.array([f"customer {i}" for i in range(100_000)], dtype=TEXT),
    ],
    ids=["numbers", "times", "texts"],
)
def test_each_half_tells_keys_apart(values):
    for half in wide_hashes({"a": values}).T:
        assert len(np.unique(half)) == len(values)


def test_keys_that_share_the_first_half_do_not_share_the_second():
    first, second = wide_hashes(keys_of_one_hash(100_000)).T
    assert len(np.unique(first)) == 1
    assert len(np.unique(second)) == 100_000


def test_the_halves_have_nothing_in_common():
    """No bit of the second half follows a bit of the first: 64 x 64 correlations of 100,000 keys,
    of which none is beyond six standard deviations (one run in 10^5 would be, by chance)."""
    halves = wide_hashes({"a": np.arange(100_000)}).T
    places = np.arange(64, dtype=np.uint64)
    bits = [2.0 * ((half[:, None] >> places) & np.uint64(1)) - 1.0 for half in halves]  # (n, 64)
    assert np.abs(bits[0].T @ bits[1]).max() < 6.0 * np.sqrt(100_000)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 5), (5, 0), (1, 1), (40, 30), (3, 200)])
@pytest.mark.parametrize("n_values", [1, 2, 4])
def test_numbers_against_a_dictionary(n, m, n_values):
    """Halves of few values: rows share the first, the second, both, on one side or on two."""
    rng = np.random.default_rng(n + m)
    old, new = (rng.choice(SMALL[:n_values], (size, 2)) for size in (n, m))
    found = number_keys(old, new)
    known: dict = {}
    for rows in (old, new):
        for row in rows:
            known.setdefault(tuple(row.tolist()), len(known))
    first: list[dict] = [{}, {}]
    for side, rows in enumerate((old, new)):
        for place, row in enumerate(rows):
            first[side].setdefault(tuple(row.tolist()), place)
    assert found.n_keys == len(known)
    assert sorted(zip(*found.pairs, strict=True)) == sorted(
        (first[0][key], first[1][key]) for key in first[0].keys() & first[1].keys()
    )
    for rows, repeated, of_side in (
        (old, found.repeated_old, first[0]),
        (new, found.repeated_new, first[1]),
    ):
        assert repeated.tolist() == [
            place for place, row in enumerate(rows) if of_side[tuple(row.tolist())] != place
        ]
    for numbers, rows in ((found.old, old), (found.new, new)):
        keys = [tuple(row.tolist()) for row in rows]
        n_both = len(set(zip(numbers.tolist(), keys, strict=True)))
        assert n_both == len(set(keys)) == len(set(numbers.tolist()))
