"""Arguments of `kriging`."""

import pytest

from dshap.core.errors import InputError
from dshap.designs import kriging


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kriging(8, 17), "give 18 to 4096"),
        (lambda: kriging(30, 5_000), "kernelshap takes more"),
        (lambda: kriging(1_100, 3_000), "at most 1024 players"),
        (lambda: kriging(8, 40, decay=0.1, variation=-1.0), "give a number of at least 0"),
        (lambda: kriging(8, 40, shells=-1), "shells is -1: give a whole number of at least 0"),
        (lambda: kriging(8, 40, decay=0.0), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay=2), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay="auto"), "or 'pilot'"),
        (lambda: kriging(8, 40, n_replicates=1), "n_replicates"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("d", "m"), [(5, 30), (6, 26), (6, 24), (64, 260), (64, 256), (65, 300), (6, 64)]
)
def test_where_a_pilot_tries_terms(d, m):
    """From six players to sixty-four, above four coalitions a player, not of all coalitions."""
    tries = 6 <= d <= 64 and m > 4 * d + 1 and m < 2**d
    assert kriging(d, m).held_coalitions == (m if tries else 0)
    assert (
        kriging(d, m, decay=0.1).held_coalitions == kriging(d, m, sparse=False).held_coalitions == 0
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 70, "n_coalitions": 600}, "6 to 64 players, not 70"),
        ({"d": 12, "n_coalitions": 48}, "give 50"),
        ({"d": 12, "n_coalitions": 100, "decay": 0.1}, "needs a pilot"),
        ({"d": 12, "n_coalitions": 100, "sparse": "yes"}, 'True, False or "pilot"'),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        kriging(**{"sparse": True, **options})
