"""Methods that explain rows: lists of coalitions, closed forms, attributors of users, texts.

There is one class for each, and all have one interface: cost, the states that are learned, the
attributor that is made from them, and a fingerprint.  `choice.py` chooses among them.  No other
module tests which class a method has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeGuard

import numpy as np

from dshap import designs
from dshap.attributors.checked import CheckedContraction
from dshap.attributors.closed_form import (
    ClosedForm,
    ClosedFormAttributor,
    PairedAttributor,
    StateOfRows,
)
from dshap.attributors.compatibility import not_together, refuse
from dshap.attributors.contraction import (
    Contraction,
    DirectContraction,
    NoisyContraction,
    WholeContraction,
)
from dshap.attributors.drawn import drawn_attributor
from dshap.attributors.enough import Enough, reason_of
from dshap.attributors.game import EstimatedGame, Game, LearnedGame, StreamedGame
from dshap.attributors.learning import (
    BaseValue,
    CoalitionErrors,
    CoalitionTile,
    CoalitionTiles,
    NoisyBaseValue,
    PilotPass,
)
from dshap.attributors.rounds import RoundsAttributor
from dshap.attributors.state_notes import notes_of_states
from dshap.attributors.states import States
from dshap.attributors.texts import KEPT_DESIGNS, TextAttributor
from dshap.attributors.tiling import Tiling
from dshap.attributors.undoing import (
    CoalitionsWithout,
    FormsWithout,
    GameWithout,
    OneMorePass,
    UndoneCodes,
    ValuesWithout,
    forms_without,
    undoing,
)
from dshap.core.blocks import N_ENDS, DesignInfo
from dshap.core.capabilities import (
    DirectSums,
    EstimatedBase,
    Interactions,
    Work,
    checking,
    checks_rows,
    draw_replicates,
    draws_of,
    game_seconds,
    held_coalitions,
    interactions_of,
    learning_tolerance,
    learns_from_data,
    linear,
    pilot_coalitions,
    rounds_of,
    sample_size,
    streams_data,
    tuned,
)
from dshap.core.code_groups import Codes
from dshap.core.errors import InputError
from dshap.core.options import RunOptions
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Record, State
from dshap.core.types import Attributor, Design, Pass, RowReader, replaced
from dshap.core.vocabulary import Vocabulary
from dshap.designs.jackknife import N_REPLICATES

INTERACTION_ERRORS = (
    "on products those of two columns were off by 0.4 % at 13 columns, 9 % at 20, 71 % at 60"
)
"""The measured relative errors of interactions from sampled coalitions, quoted in warnings."""
DESIGNS = ("exact", "kriging", "kernelshap", "permutation")
"""Kinds of designs without a graph that `compatibility.KINDS` knows."""
SAMPLE_SEED = 0
"""The seed of the rows in a sample.  It is part of the numerics, as the landmarks' seed is of their
options."""
ROUND_SLACK = 10
"""Pairs of coalitions in the first round, in addition to the fewest that standard errors need."""


@dataclass(frozen=True)
class Facts:
    """Facts about a learned attributor that the cube stores with the attributions."""

    base: FloatArray | None = None
    """v(empty) (k,); None if it differs from row to row."""
    notes: Mapping[str, dict[str, JSON]] = field(default_factory=dict)
    """name -> content of each note."""


@dataclass(frozen=True)
class Method(ABC):
    """A method that explains rows.

    The members of this base class are right for a method that lists no coalitions and learns nothing.
    """

    value: Any
    """The value function, or the given attributor, over the active players."""
    why: str = field(default="given", kw_only=True)
    """The reason for this choice, as the plan shows it."""
    undone: UndoneCodes = field(default=UndoneCodes(), kw_only=True)
    """The codes without which the prediction is also computed, one code at a time."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The kinds of method, design and value function that `compatibility.TABLE` knows."""

    @property
    def called(self) -> str:
        """The name of the design in messages."""
        return "the closed form, which uses no coalitions"

    def refuse(self, ask: str) -> None:
        """Raise an InputError if the method does not go with what is asked for."""
        refuse(
            ask,
            self.kinds,
            value=type(self.value).__name__,
            called=self.called,
            enough=2 * self.info.n_players + 2,
        )

    @property
    def info(self) -> DesignInfo:
        """The properties of the design.

        A method without a design lists the two ends only, and its additivity is accurate to a
        stated error, not by construction.
        """
        d = len(self.value.players)
        return DesignInfo(d, N_ENDS, self.learner.n_replicates, d, is_efficient=False)

    @property
    def why_no_errors(self) -> str:
        """The reason why all standard errors are NaN; empty if they are not."""
        return self.info.why_no_errors

    @property
    def why_no_order(self) -> str:
        """Why no order of attributions is certain; empty if they are exact or have errors."""
        return self.why_no_errors

    @property
    def why_errors(self) -> str:
        """Why `std_error` is NaN, or which other errors it includes; else empty."""
        why = self.why_no_errors
        return f"NaN: {why}" if why else ""

    @property
    def learner(self) -> Any:
        """The object that learns from the data."""
        return self.value

    @property
    def sample_seed(self) -> int:
        """The seed of the rows of the data that the learner chooses from, if it does."""
        return SAMPLE_SEED

    @property
    def learns(self) -> bool:
        """Whether the states need sums over all rows of the data."""
        return False

    @property
    def enough(self) -> Enough | None:
        """The rule for how many rows are learned from; None: all rows."""
        return None

    def about_data(self, data: RowReader | None) -> tuple[tuple[str, str], ...]:
        """Lines of a plan, (choice, reason), about the data that the method reads."""
        return reason_of(self.enough, data)

    @property
    def is_base_by_row(self) -> bool:
        """Whether v(empty) differs from row to row."""
        return True

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of texts, whose tokens the cube stores; None for tables."""
        return None

    @property
    def design_of_longest(self) -> Design | None:
        """The design of the longest text, of which shorter ones take a part; None for tables."""
        return None

    @property
    def game_seconds(self) -> float:
        """Estimated seconds of one core to fit separate Gaussian processes to one row."""
        return 0.0

    def work(self) -> Work:
        """The costs and sizes that the planner needs."""
        learner = self.learner

        def cost(m: int, n: int = 1) -> Cost:
            return learner.cost(n)

        return Work(
            self.value,
            self.info,
            cost,
            self.learns,
            sample_size(learner),
            is_closed_form=True,
            stage_coalitions=(N_ENDS,),
        )

    def value_fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a value, for the fingerprint."""
        return dict(self.learner.fingerprint())

    @abstractmethod
    def fingerprint(self) -> dict[str, JSON]:
        """The design; or the kind of method, with its players and jackknife groups."""

    def _fingerprint_of(self, name: str) -> dict[str, JSON]:
        info = self.info
        return {"design": name, "n_players": info.n_players, "n_replicates": info.n_replicates}

    def with_value(self, value: Any) -> Self:
        """A copy for another model, other players or other data."""
        return replace(self, value=value)

    def without_data(self) -> Self:
        """A copy without the data, as it is sent to the workers."""
        return self.with_value(replaced(self.value, data=None))

    def with_players(self, n_players: int) -> Self:
        """A copy whose design is of the same kind, for `n_players` players."""
        return self

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses `n_threads` threads if it can; the numbers do not depend on it."""
        return self

    def with_choice(self, choice: State) -> Self:
        """A copy with the choice (such as landmarks) made from a sample of the data."""
        return self.with_value(self.value.chosen(choice))

    def with_landmarks(self, states: States) -> Self:
        """A copy with the stored choice from a sample, if there is one to make."""
        if not sample_size(self.learner):
            return self
        return self.with_choice(states.store.get(states.landmarks_name, State))

    def linear(self) -> Self:
        """The method, or one like it that is linear in the values."""
        return self

    def checking(self) -> Self:
        """A copy that compares each row with the rows of its design's pilot, if it has a pilot."""
        return self

    def tuned(self, choice: Record) -> Self:
        """A copy whose design has this choice from a pilot."""
        return self

    @property
    def pilot_coalitions(self) -> int:
        """The number of coalition values that the next choice needs; 0: none is left."""
        return 0

    def with_interactions(self) -> Self:
        """A copy that also computes interactions; InputError if there are none."""
        self.refuse("interactions")
        return self

    @property
    def why_no_interaction_errors(self) -> str:
        """The reason why interactions have no standard errors; empty if they are exact."""
        return ""

    def with_undone(self, codes: Codes) -> Self:
        """A copy that also computes v(N) − v(N without each code); InputError if it cannot."""
        self.refuse("undo_codes")
        return replace(self, undone=UndoneCodes.of(codes, self.value.players.names))

    def undoing(self, attributor: Attributor, states: States, tiling: Tiling) -> Attributor:
        """The attributor, with the values without each code if these are asked for."""
        if not self.undone:
            return attributor
        return undoing(attributor, self.undone, self._without(states, tiling))

    def _without(self, states: States, tiling: Tiling) -> ValuesWithout:
        """The values of rows without each code."""
        raise TypeError(f"{self.called} has no values without a code")

    def of_noisy_model(self) -> Self:
        """A copy for a stochastic model, linear in the values.

        Raises
        ------
        InputError
            Two answers of the model cannot separate noise from signal.
        """
        self.refuse("stochastic")
        return self

    def in_rounds(self, tol: float, most: int, is_named: bool) -> tuple[Self, float | None, str]:
        """A copy that grows in rounds; also the tolerance that is left (None: met), and why.

        A design that was chosen by name starts small; one that was given starts as it is and ends
        at `most` coalitions.

        Raises
        ------
        InputError
            If there are no standard errors to stop by, or the design cannot grow.
        """
        self.refuse("tol")
        return self, tol, ""

    def limited(self, options: RunOptions) -> RunOptions:
        """The options, with those settled that the method leaves no choice in."""
        return options

    def measurable(self) -> Listed:
        """The method, as a list of coalitions that MSE_v averages over.

        Raises
        ------
        InputError
            MSE_v is not defined for this method, or would be too costly.
        """
        self.refuse("quality")
        raise TypeError(f"{self.called} has no list of coalitions")

    def base_pass(self, tiling: Tiling) -> Pass | None:
        """The pass over the data that gives the base value; None if it is not learned."""
        return None

    def passes(self, tiling: Tiling) -> Sequence[Pass]:
        """The passes over the data that make the states of the coalition tiles, in order."""
        return ()

    def tile_names(self, states: States, tiling: Tiling) -> tuple[str, ...]:
        """Names of the states that `passes` make; empty if nothing is learned from data."""
        return ()

    def pilot(self, states: States, tiling: Tiling) -> PilotPass:
        """The pass over a few rows by which the design makes its next choice."""
        raise TypeError(f"{self.called} makes no choice from a pilot")

    @abstractmethod
    def attributor(self, states: States, tiling: Tiling) -> Attributor:
        """The attributor of rows, once the states are learned."""

    @staticmethod
    def facts(attributor: Any) -> Facts:
        """Facts about an attributor of this method, whose states are learned."""
        return Facts()


def instance_fields(states: States, tiling: Tiling, value: Any) -> dict[str, Any]:
    """The fields of `Instances`, which every attributor of dshap has."""
    loaded = {} if states.loaded is None else {"cache": states.loaded}
    return loaded | {
        "made": states.made,
        "value": value,
        "store": states.store,
        "base_name": states.base_name,
        "n_outputs": tiling.n_outputs,
        "micro_rows": tiling.micro_rows,
        "is_kept": tiling.cache_bytes > 0,
        "is_active": states.is_active,
    }


def _base_pass(value: Any, tiling: Tiling) -> Pass:
    weights = getattr(value, "data_weights", None)  # weights of background rows
    if tiling.stochastic:
        return NoisyBaseValue(weights, value.model)
    return BaseValue(weights)


@dataclass(frozen=True)
class Listed(Method):
    """A value function with a design, which lists coalitions."""

    design: Design

    @property
    def kinds(self) -> tuple[str, ...]:
        return kind_of_design(self.design), kind_of_value(self.value)

    @property
    def called(self) -> str:
        return str(self.design.fingerprint()["design"])

    @property
    def info(self) -> DesignInfo:
        return self.design.info

    @property
    def why_no_errors(self) -> str:
        draws = draws_of(self.value)
        if draws is None or not draw_replicates(self.value, self.info):
            return self.info.why_no_errors
        return self.info.why_no_errors or draws.why_no_errors

    @property
    def why_no_order(self) -> str:
        if self.why_no_errors or draw_replicates(self.value, self.info):
            return self.why_no_errors
        if why := self.info.why_no_order:
            return why
        draws = draws_of(self.value)
        if draws is None:
            return ""
        return (
            f"values are means over {draws.called}, and the design has n_replicates = 0: give "
            "n_replicates = 20"
        )

    @property
    def why_errors(self) -> str:
        draws = draws_of(self.value)
        is_known = not self.why_no_errors and draw_replicates(self.value, self.info) > 0
        if draws is None or not is_known:
            return super().why_errors
        return f"includes the error of {draws.called}; to make it smaller, {draws.advice}"

    @property
    def learns(self) -> bool:
        return learns_from_data(self.value)

    @property
    def enough(self) -> Enough | None:
        tolerance = learning_tolerance(self.value)
        if tolerance is None or self.info.n_coalitions == N_ENDS:
            return None
        return Enough(tolerance)

    @property
    def is_base_by_row(self) -> bool:
        return bool(self.value.link.is_by_row)

    @property
    def game_seconds(self) -> float:
        return game_seconds(self.design) * len(self.value.model.output_names)

    def work(self) -> Work:
        return Work.of(self.value, self.design)

    def fingerprint(self) -> dict[str, JSON]:
        return self.design.fingerprint()

    def with_players(self, n_players: int) -> Self:
        return replace(self, design=self.design.with_players(n_players))

    def linear(self) -> Self:
        return replace(self, design=linear(self.design))

    def checking(self) -> Self:
        if sums_directly(self.value) and not held_coalitions(self.design):
            return self  # a comparison takes the values, which cost ten times as much as their sums
        return replace(self, design=checking(self.design))

    def tuned(self, choice: Record) -> Self:
        return replace(self, design=tuned(self.design, choice))

    @property
    def pilot_coalitions(self) -> int:
        return pilot_coalitions(self.design)

    def with_interactions(self) -> Self:
        if not isinstance(self.design, Interactions):
            self.refuse("interactions")
        interactions_of(self.design, N_ENDS, N_ENDS)  # refuses too many players
        return self

    @property
    def why_no_interaction_errors(self) -> str:
        info = self.design.info
        draws = draws_of(self.value)
        if info.is_whole and draws is not None:
            return f"interactions have no standard errors, and are means over {draws.called}"
        if info.is_whole:
            return ""
        taken = f"{info.n_coalitions:,} of 2^{info.n_players} coalitions"
        return (
            f"interactions of {self.called} have no standard errors, and {taken} estimate "
            "interactions less accurately than attributions"
            f': {INTERACTION_ERRORS}; design="exact" has none'
        )

    def of_noisy_model(self) -> Self:
        value = self.value
        # values whose operations are known do not call the model, and show no noise of its answers
        is_known = self.learns or math.isfinite(value.cost(1).operations)
        if is_known or value.link.is_by_row:
            raise not_together("stochastic", "learned", value=type(value).__name__)
        info = self.info
        # deviations of coalitions and of the noise are added group by group
        if not info.has_errors or info.n_replicates not in (0, N_REPLICATES):
            raise InputError(
                f"stochastic needs standard errors in {N_REPLICATES} groups, and the design has "
                f"n_replicates={info.n_replicates}: give {N_REPLICATES}"
            )
        return self.linear()

    def in_rounds(self, tol: float, most: int, is_named: bool) -> tuple[Self, float | None, str]:
        if isinstance(self.design, designs.ExactDesign):
            return (
                self,
                None,
                f"{tol:g} is met, because every coalition is evaluated{self._of_draws}",
            )
        if not isinstance(self.design, designs.KernelShapDesign | designs.KrigingDesign):
            return super().in_rounds(tol, most, is_named)
        if not self.info.n_replicates:
            raise InputError(
                "tol needs standard errors, and the design has n_replicates=0: give 20"
            )
        if is_named:
            most = self.info.n_coalitions
            design = _started_small(self.design)
        else:
            most = most // 2 * 2  # pairs stay whole
            design = self.design
        design = _grown(design, min(most, 1 << self.info.n_players))
        if design.info.why_no_errors:
            raise InputError(f"tol needs standard errors, and {design.info.why_no_errors}")
        rounds = ", ".join(f"{budget:,}" for budget in design.budgets)
        why = (
            f"rounds of {rounds} coalitions, for the rows whose std_error / range is above "
            f"{tol:g}; a pilot of up to 16 rows estimates the number of coalitions and their "
            f"cost{self._of_draws}"
        )
        return replace(self, design=design), tol, why

    @property
    def _of_draws(self) -> str:
        """The end of the reason of a tolerance that the error of draws has no part in."""
        draws = draws_of(self.value)
        if draws is None:
            return ""
        return (
            f"; the error of {draws.called} is in std_error but not in tol, as coalitions do not "
            f"lower it: {draws.advice}"
        )

    def measurable(self) -> Listed:
        self.refuse("quality")
        players = self.value.players
        if len(players) == 1:
            raise InputError(
                "MSE_v is a mean over proper coalitions, and a game of one player "
                f"({players.names[0]}) has none: "
                "give two players or more, or leave quality out"
            )
        return self

    def errors(self, states: States, tiling: Tiling) -> CoalitionErrors:
        """The pass over held-out rows that sums squared errors f − v_S, for MSE_v."""
        return CoalitionErrors(self.game(states, tiling))

    @property
    def proper_masks(self) -> BoolArray:
        """(m, d): the proper coalitions."""
        return self.design.block(N_ENDS, self.info.n_coalitions).masks

    def base_pass(self, tiling: Tiling) -> Pass | None:
        return _base_pass(self.value, tiling)

    def passes(self, tiling: Tiling) -> Sequence[Pass]:
        tiles = CoalitionTiles(self.value, self.design, tiling.coalition_spans)
        return OneMorePass(tiles, [CoalitionTile(self.value, each) for each in self._more_masks])

    def tile_names(self, states: States, tiling: Tiling) -> tuple[str, ...]:
        if not self.learns:
            return ()
        masks = (self.design.block(*span).masks for span in tiling.coalition_spans)
        return tuple(map(states.tile_name, (*masks, *self._more_masks)))

    @property
    def _more_masks(self) -> list[BoolArray]:
        """The tiles of coalitions that the design does not list: those without a code."""
        masks = self.undone.proper_masks
        return [masks] if len(masks) else []

    def _without(self, states: States, tiling: Tiling) -> ValuesWithout:
        game = self.game(states, tiling)
        name = self.tile_names(states, tiling)[-1] if self.learns and self._more_masks else ""
        return GameWithout(game, game.value, self.undone.proper_masks, name)

    def pilot(self, states: States, tiling: Tiling) -> PilotPass:
        return PilotPass(self.game(states, tiling), tiling.tol)

    def game(self, states: States, tiling: Tiling) -> Game:
        """The game that gives the values of coalitions for any row."""
        kind: Any = Game
        # without the name of the tile beside the design, which only `_without` reads
        names = self.tile_names(states, tiling)[: len(tiling.coalition_spans)]
        if streams_data(self.value):
            kind = partial(StreamedGame, data=states.table, spans=tuple(tiling.data_spans))
        elif names and isinstance(self.value, EstimatedBase):
            kind = partial(EstimatedGame, names=names)
        elif names:  # a game of one player has no proper coalitions
            kind = partial(LearnedGame, names=names)
        game: Game = kind(
            design=self.design,
            tiles=tuple(tiling.coalition_spans),
            joined_tiles=tiling.join_tiles,
            range_names=states.range_names if tiling.learns_range else (),
            **instance_fields(states, tiling, self.value),
        )
        return game

    def attributor(self, states: States, tiling: Tiling) -> Attributor:
        return attributor_of(
            self.game(states, tiling),
            parts=tiling.groups,
            round_tiles=tiling.round_tiles,
            tol=tiling.tol,
            has_pairs=tiling.interactions,
            is_noisy=tiling.stochastic,
            n_draw_replicates=tiling.draw_replicates,
        )

    @staticmethod
    def facts(attributor: Any) -> Facts:
        game = attributor.game
        notes = {"base_value": game.note(), **notes_of_states(game)}
        return Facts(game.base_value(), {name: note for name, note in notes.items() if note})


def attributor_of(
    game: Game,
    *,
    parts: Sequence[Sequence[int]],
    round_tiles: Sequence[Sequence[int]],
    tol: float | None = None,
    has_pairs: bool = False,
    is_noisy: bool = False,
    n_draw_replicates: int = 0,
) -> Attributor:
    """Choose the attributor of a game; this is the only place that chooses among them.

    Parameters
    ----------
    parts : coalition tiles that each task sums
    round_tiles : coalition tiles that each round of the design adds
    tol : tolerance of the design's rounds; None: all coalitions for every row
    has_pairs : True if interactions are asked for
    is_noisy : True if the model is stochastic
    n_draw_replicates : replicates for the draws that the values are means over; 0: no such error
    """
    value = game.value
    shares = tuple(map(tuple, parts))
    # first, as the attributors of draws have kinds for rounds, checks and noise of their own
    if n_draw_replicates:
        return drawn_attributor(
            game,
            n_draw_replicates,
            parts=shares,
            rounds=rounds_of(game.design),
            round_tiles=tuple(map(tuple, round_tiles)),
            tol=tol,
            has_pairs=has_pairs,
            is_noisy=is_noisy,
            holds_values=held_coalitions(game.design) > 0,
        )
    if tol is not None:
        return RoundsAttributor(
            game, has_pairs, tol, rounds_of(game.design), tuple(map(tuple, round_tiles))
        )
    # before `held_coalitions`, which is not 0 for designs that check rows either
    if checks_rows(game.design):
        return CheckedContraction(game, shares, has_pairs)
    if held_coalitions(game.design):
        return WholeContraction(game, shares, has_pairs)
    if is_noisy:
        return NoisyContraction(game, shares, has_pairs)
    # interactions have separate scores, for the single values
    if sums_directly(value) and not has_pairs:
        return DirectContraction(game, shares, has_pairs, value.scored)
    return Contraction(game, shares, has_pairs)


def sums_directly(value: Any) -> TypeGuard[DirectSums]:
    """Whether a value function computes its sums without the single values."""
    return isinstance(value, DirectSums) and value.link.is_identity


def kind_of_design(design: Design) -> str:
    """The kind of a design in `compatibility.KINDS`."""
    if design.info.has_graph:
        return "graph"
    name = str(design.fingerprint()["design"])
    if name in DESIGNS:
        return name
    return "own"


def kind_of_value(value: Any) -> str:
    """The kind of a value function that lists coalitions, in `compatibility.KINDS`."""
    if streams_data(value):
        return "streamed"
    if learns_from_data(value):
        return "learned"
    return "black box"


def _started_small[Growing: designs.KernelShapDesign | designs.KrigingDesign](
    design: Growing,
) -> Growing:
    """The design with as few coalitions as standard errors need, for the first round."""
    d = design.info.n_players
    least = design.least_for_errors if isinstance(design, designs.KernelShapDesign) else 0
    first = max(least, 2 * max(2 * d, d + design.info.n_replicates + ROUND_SLACK))
    return replace(design, budgets=(min(design.info.n_coalitions, first),))


def _grown[Growing: designs.KernelShapDesign | designs.KrigingDesign](
    design: Growing, most: int
) -> Growing:
    """The design with rounds of twice as many coalitions each, up to `most`."""
    while design.info.n_coalitions < most:
        budget = min(2 * design.info.n_coalitions, most)
        design = replace(design, budgets=(*design.budgets, budget))
    return design


@dataclass(frozen=True)
class ByLength(Listed):
    """A value function of texts with the design of the longest, and its kind for other lengths."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("texts",)

    @property
    def is_base_by_row(self) -> bool:
        """True: v(empty) may depend on the row, at least through its length."""
        return True

    @property
    def vocabulary(self) -> Vocabulary:
        found: Vocabulary = self.value.vocabulary
        return found

    @property
    def design_of_longest(self) -> Design:
        return self.design

    def work(self) -> Work:
        """As for tables, plus the bytes that designs of other lengths store."""
        work = super().work()
        kept = KEPT_DESIGNS * 8 * (1 + work.info.n_replicates) * work.info.n_players**2
        return replace(work, info=replace(work.info, kept_bytes=work.info.kept_bytes + kept))

    def limited(self, options: RunOptions) -> RunOptions:
        # tasks can share one list of coalitions, and texts have a list for each length
        return replace(options, coalition_groups=1)

    def base_pass(self, tiling: Tiling) -> None:
        return None

    def attributor(self, states: States, tiling: Tiling) -> TextAttributor:
        """The attributor of texts, with a game for each text length."""
        return TextAttributor(
            design=self.design,
            coalition_tile=tiling.coalition_tile,
            joined_tiles=tiling.join_tiles,
            n_replicates=tiling.n_replicates,
            range_names=(states.range_name,) if tiling.learns_range else (),
            **instance_fields(states, tiling, self.value),
        )

    @staticmethod
    def facts(attributor: Any) -> Facts:
        return Facts()


@dataclass(frozen=True)
class Closed(Method):
    """A value function with a closed form, which lists no coalition."""

    form: ClosedForm

    @classmethod
    def of(cls, form: ClosedForm, why: str = "given") -> Closed:
        """The method of a closed form, for its value function."""
        return cls(form.value, form, why=why)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.form.kind,)

    @property
    def info(self) -> DesignInfo:
        return replace(super().info, why_no_errors=self.form.why_no_errors)

    @property
    def learner(self) -> Any:
        """The closed form."""
        return self.form

    @property
    def learns(self) -> bool:
        return self.form.learns

    @property
    def is_base_by_row(self) -> bool:
        return bool(self.value.link.is_by_row)

    def work(self) -> Work:
        form = self.form
        return replace(
            super().work(),
            sums_predictions=self.learns and form.sums_predictions,
            micro_rows=form.micro_rows,
            micro_bytes=form.micro_bytes,
            check_data=form.check_data,
        )

    def fingerprint(self) -> dict[str, JSON]:
        return self._fingerprint_of("closed_form")

    def with_value(self, value: Any) -> Self:
        return replace(self, value=value, form=replace(self.form, value=value))

    def with_threads(self, n_threads: int) -> Self:
        return self._with_form(self.form.with_threads(n_threads))

    def with_choice(self, choice: State) -> Self:
        return self._with_form(self.learner.chosen(choice))

    def _with_form(self, form: ClosedForm) -> Self:
        return replace(self, value=form.value, form=form)

    def with_interactions(self) -> Self:
        self.refuse("interactions")
        return self._with_form(self.learner.with_interactions())

    def base_pass(self, tiling: Tiling) -> Pass | None:
        return _base_pass(self.value, tiling) if self.work().sums_predictions else None

    def with_undone(self, codes: Codes) -> Self:
        method = super().with_undone(codes)
        self.form.check_coalitions()
        return method

    def passes(self, tiling: Tiling) -> Sequence[Pass]:
        coalitions = self.form.coalitions
        if coalitions is None:
            more = map(StateOfRows, forms_without(self.form, self.undone))
            return (StateOfRows(self.form), *more)
        tiles = (CoalitionTile(coalitions, masks) for masks in self._more_masks)
        return (StateOfRows(self.form), *tiles)

    def tile_names(self, states: States, tiling: Tiling) -> tuple[str, ...]:
        if not self.learns:
            return ()
        none = np.zeros((0, self.info.n_players), dtype=bool)
        return tuple(map(states.tile_name, (none, *self._more_masks)))

    @property
    def _more_masks(self) -> Sequence[BoolArray]:
        """The coalitions without a code: of one state, or each of a separate state."""
        masks = self.undone.proper_masks
        if self.form.coalitions is None:
            return tuple(masks[:, None])
        return (masks,) * bool(len(masks))

    def _without(self, states: States, tiling: Tiling) -> ValuesWithout:
        names = self.tile_names(states, tiling)[1:]
        coalitions = self.form.coalitions
        if coalitions is None:
            forms = forms_without(self.form, self.undone)
            return FormsWithout(forms, names, states.store, tiling.n_outputs)
        rows = self.attributor(states, tiling)
        return CoalitionsWithout(rows, coalitions, self.undone.proper_masks, "".join(names))

    def attributor(self, states: States, tiling: Tiling) -> ClosedFormAttributor:
        shared = {
            "state_name": "".join(self.tile_names(states, tiling)[:1]),
            **instance_fields(states, tiling, self.value),
        }
        if tiling.interactions:
            return PairedAttributor(form=self.learner, **shared)
        return ClosedFormAttributor(form=self.form, **shared)

    @staticmethod
    def facts(attributor: Any) -> Facts:
        stated = attributor.form.stated_error(attributor.state())
        return Facts(attributor.base_value(), {"closed_form": stated})


@dataclass(frozen=True)
class Given(Method):
    """An attributor of the user's, in place of a value function."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("attributor",)

    def fingerprint(self) -> dict[str, JSON]:
        return self._fingerprint_of("attributor")

    def attributor(self, states: States, tiling: Tiling) -> Attributor:
        given: Attributor = self.value
        return given
