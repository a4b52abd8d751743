"""Methods that explain rows: what each learns, the attributor that it makes, and what is refused."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.attributors.choice import choose
from dshap.attributors.closed_form import ClosedFormAttributor
from dshap.attributors.contraction import Contraction, DirectContraction, NoisyContraction
from dshap.attributors.game import EstimatedGame, Game, LearnedGame, StreamedGame
from dshap.attributors.learning import BaseValue, NoisyBaseValue
from dshap.attributors.method import ByLength, Closed, Facts, Given, Listed
from dshap.attributors.rounds import RoundsAttributor
from dshap.attributors.states import States
from dshap.attributors.texts import TextAttributor
from dshap.core.errors import DshapError, InputError
from dshap.core.options import RunOptions
from dshap.core.records import Record
from dshap.engine.planner import tiling_of
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion
from dshap.tables import ArraySource
from dshap.values import Gaussian, KernelInterventional, KernelObservational, Marginal, Tokens

PACKAGE = Path(dshap.__file__).parent
D = 4
DATA = np.random.default_rng(0).normal(size=(30, D))
EXPANSION = KernelExpansion(RBF(1.0).bind(D), DATA[:6], np.ones((6, 1)), np.zeros(1))


def first(x):
    return np.asarray(x)[:, 0]


class Own(dshap.Attributor):
    """Attributions of a sum."""

    def attribute(self, rows):
        return self.attribution(rows, rows[:, :, None], np.zeros(1))


METHODS = {
    "marginal": lambda: choose("exact", Marginal(first, DATA), None),
    "gaussian": lambda: choose("exact", Gaussian(first, DATA), None),
    "observational": lambda: choose(
        "exact", KernelObservational(EXPANSION, DATA, Nystrom(5)), None
    ),
    "quadrature": lambda: choose("quadrature", KernelInterventional(EXPANSION, DATA), None),
    "given": lambda: choose("auto", Own(lambda x: x.sum(axis=1), DATA), None),
    "texts": lambda: choose("exact", Tokens(first, 9).of_length(D), None),
}
KINDS = {"quadrature": Closed, "given": Given, "texts": ByLength}


def states_of(**more) -> States:
    return States(None, {"value": "test"}, np.ones(D, bool), **more)


def tiling_for(method, **options):
    return tiling_of(method.work(), 10, len(DATA), RunOptions.of(options))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_the_same_questions(name):
    method = METHODS[name]()
    assert type(method) is KINDS.get(name, Listed)
    assert method.info.n_players == D
    tiling = tiling_for(method)
    names = method.tile_names(states_of(), tiling)
    assert bool(names) == method.learns == (name not in ("marginal", "given", "texts"))
    assert len(names) == (len(list(method.passes(tiling))) if names else 0)
    base = method.base_pass(tiling)
    assert (base is None) == (name in ("given", "texts"))
    assert isinstance(base, BaseValue | None)
    assert method.without_data().value.data is None
    assert method.with_threads(2).fingerprint() == method.fingerprint()
    assert method.tuned(Record()) == method.linear() == method
    assert not method.pilot_coalitions
    assert not method.is_base_by_row or name in ("given", "texts")


def test_the_attributor_follows_from_the_method_and_the_tiling():
    kinds = {"marginal": Contraction, "quadrature": ClosedFormAttributor, "texts": TextAttributor}
    for name, kind in kinds.items():
        method = METHODS[name]()
        assert type(method.attributor(states_of(), tiling_for(method))) is kind
    given = METHODS["given"]()
    assert given.attributor(states_of(), tiling_for(given)) is given.value
    assert given.facts(given.value) == Facts(None, {})
    noisy = METHODS["marginal"]().of_noisy_model()
    tiling = tiling_for(noisy, stochastic=True)
    assert type(noisy.attributor(states_of(), tiling)) is NoisyContraction
    assert isinstance(noisy.base_pass(tiling), NoisyBaseValue)
    kernel = choose("exact", KernelInterventional(EXPANSION, DATA), None)
    assert type(kernel.attributor(states_of(), tiling_for(kernel))) is DirectContraction


def test_the_game_follows_from_the_value_function():
    for name, kind in {
        "marginal": Game,
        "gaussian": EstimatedGame,
        "observational": LearnedGame,
    }.items():
        method = METHODS[name]()
        assert type(method.game(states_of(), tiling_for(method))) is kind
    streamed = choose("exact", Marginal(first, ArraySource(DATA)), None)
    game = streamed.game(states_of(data=ArraySource(DATA)), tiling_for(streamed))
    assert type(game) is StreamedGame
    with pytest.raises(DshapError, match="a state is missing in the prepared store"):
        streamed.game(states_of(), tiling_for(streamed))


def test_states_in_memory_are_shared_where_that_is_asked_for():
    method = METHODS["gaussian"]()
    tiling = tiling_for(method)
    shared = states_of(loaded={})
    assert method.game(shared, tiling).cache is method.game(shared, tiling).cache
    assert method.game(states_of(), tiling).cache is not method.game(states_of(), tiling).cache


def test_names_of_states_say_what_decides_them():
    method = METHODS["gaussian"]()
    tiling = tiling_for(method, coalition_tile=4)
    names = method.tile_names(states_of(), tiling)
    assert len(set(names)) == len(names) == 4
    other = replace(states_of(), follows_from={"value": "another"})
    assert not set(names) & set(method.tile_names(other, tiling))
    assert other.base_name != states_of().base_name
    assert states_of().range_names == (states_of().base_name,)
    assert len(states_of(run_digest="1f").range_names) == 2


def test_a_design_grows_in_rounds_from_few_coalitions_or_from_its_own():
    value = Marginal(first, np.zeros((2, 12)))
    named, tol, why = choose("kernelshap", value, 1_000).in_rounds(0.1, 2_048, True)
    assert tol == 0.1
    assert named.design.budgets[-1] == 1_000
    assert "rounds of" in why
    assert named.design.budgets[0] < 200
    given, _, _ = choose(designs.kernelshap(12, 300), value, None).in_rounds(0.1, 700, False)
    assert given.design.budgets == (300, 600, 700)
    _, left, why = METHODS["marginal"]().in_rounds(0.1, 2_048, True)
    assert left is None
    assert why == "0.1 is met, because every coalition is evaluated"
    tiling = tiling_for(named, tol=0.1)
    states = replace(states_of(), is_active=np.ones(12, bool))
    assert type(named.attributor(states, tiling)) is RoundsAttributor


REFUSED = {
    "closed": (
        "quadrature",
        {
            "with_interactions": "the design is the closed form, which uses no coalitions: give "
            "one",
            "of_noisy_model": "stochastic=True is for Marginal, .*not for this KernelInterventional",
            "measurable": "a mean over coalitions, and a closed form has none: give design='exact'",
        },
    ),
    "given": (
        "given",
        {
            "of_noisy_model": "stochastic=True is for Marginal, .*not for this Own",
            "measurable": "a mean over coalitions, and an attributor has none",
        },
    ),
    "texts": ("texts", {"measurable": "texts have a list for each length: leave quality out"}),
    "learned": ("gaussian", {"of_noisy_model": "not for this Gaussian"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_refuses_what_it_lacks(name):
    method, refused = REFUSED[name]
    for asked, message in refused.items():
        with pytest.raises(InputError, match=message):
            getattr(METHODS[method](), asked)()
    with pytest.raises(InputError, match="tol grows a design until its standard errors are small"):
        METHODS["quadrature"]().in_rounds(0.1, 2_048, True)
    with pytest.raises(TypeError, match="makes no choice from a pilot"):
        METHODS["given"]().pilot(states_of(), tiling_for(METHODS["given"]()))


def test_only_the_chooser_knows_the_methods_apart():
    """Every other module works with `Method`; none asks for the class, the design or the form."""
    kinds = {"Listed", "Closed", "Given", "ByLength"}
    found = {}
    for path in PACKAGE.rglob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module == "dshap.attributors.method"
            for alias in node.names
        }
        if names & kinds:
            found[path.relative_to(PACKAGE).as_posix()] = names & kinds
    assert set(found) == {"attributors/choice.py"}
