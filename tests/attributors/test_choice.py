"""Budgets of designs that are chosen by name: too few coalitions are one line in the words of the
option."""

from __future__ import annotations

import pytest

from dshap import designs
from dshap.attributors.choice import LEAST, choose
from dshap.core.errors import InputError
from dshap.values import Marginal

DRAWN = sorted(LEAST)


def value(d):
    return Marginal(lambda x: x[:, 0], [[0.0] * d, [1.0] * d])


@pytest.mark.parametrize("d", [3, 8, 14, 40])
@pytest.mark.parametrize("name", DRAWN)
def test_the_fewest_coalitions_are_enough_and_fewer_are_refused(name, d):
    least = LEAST[name](d)
    # whose draw may leave an attribution undetermined, and says so
    enough = least + 4 * (name == "kernelshap")
    design = choose(name, value(d), enough).design
    assert design.n_coalitions <= max(enough, 2**3)
    message = f"max_coalitions={least - 1}: {name} of {d} players takes at least {least}, give as many or leave it out"
    with pytest.raises(InputError, match=message):
        choose(name, value(d), least - 1)


@pytest.mark.parametrize("d", [14, 40])
def test_auto_says_why_it_is_no_kriging(d):
    assert choose("auto", value(d), 2 * d).why.endswith(
        "too few coalitions for kriging; all background rows for every coalition: "
        "1 pair of orders: too few for standard errors"
    )
    assert "kriging makes the most" in choose("auto", value(d), 2 * d + 2).why
    with pytest.raises(InputError, match=f"permutation of {d} players takes at least {2 * d}"):
        choose("auto", value(d), 2 * d - 1)


def test_a_design_that_takes_more_is_refused():
    """All 256 of 8 players, or a list of one's own; what takes no more is taken."""
    given = designs.kernelshap(8, 64)
    for design, n in (("exact", 256), (given, 64)):
        assert choose(design, value(8), n).design.info.n_coalitions == n
        message = f"max_coalitions={n - 1}: this design takes {n} coalitions of 8 players, give as many or leave it out"
        with pytest.raises(InputError, match=message):
            choose(design, value(8), n - 1)
