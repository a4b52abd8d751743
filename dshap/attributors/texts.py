"""The attributor of texts: rows of each length have a game and a design of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.choice import Chosen, choose, sampled
from dshap.attributors.contraction import Contraction
from dshap.attributors.failing import is_of_rows, text_of
from dshap.attributors.game import Game, Instances
from dshap.core.blocks import N_ENDS, Attribution, Status
from dshap.core.capabilities import OfTexts, Pilot, Work, is_of_texts
from dshap.core.errors import InputError
from dshap.core.options import RunOptions
from dshap.core.records import FloatArray
from dshap.core.rows import spans
from dshap.core.types import Design, Explained
from dshap.core.vocabulary import Vocabulary
from dshap.designs.by_length import DesignByLength
from dshap.designs.on_graphs.design import GraphDesign, OfChains
from dshap.predictors.token_function import by_length

KEPT_DESIGNS = 8
"""The most designs (one per length) whose solutions a process keeps."""
TRIED = 8
"""Number of players that a user's design function is first called with."""


@dataclass(kw_only=True)
class TextGame(Game):
    """The game of the texts of one length."""

    value: OfTexts

    def mean_prediction(self) -> FloatArray:
        return self.value.mean_prediction()


@dataclass(kw_only=True)
class TextAttributor(Instances):
    """Explains texts with one design per length; rows of equal length are explained together."""

    value: OfTexts
    design: Design
    """The design of the longest text; each other length uses the same kind with its own players."""
    coalition_tile: int
    joined_tiles: int
    n_replicates: int
    range_names: tuple[str, ...] = ()
    """State files of the smallest and largest predictions: see `Game`."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of texts (n, columns), NaN beyond the end of each, where φ is 0."""
        found = _Filled.of(rows.shape, self.n_outputs, self.n_replicates)
        for length, at in by_length(rows):
            texts = np.ascontiguousarray(rows[at, :length])
            try:
                found.put(at, length, self._of_length(length).attribute(texts))
            except Exception as error:  # no text of this length can be explained
                if not is_of_rows(error):
                    raise
                found.fail(at, text_of(error))
        has_classes = (
            self.value.link.classes(np.zeros((0, len(self.value.model.output_names)))) is not None
        )
        return found.attribution(has_classes)

    def _of_length(self, length: int) -> Contraction:
        """The contraction that explains the texts of this length."""
        design = self.design.with_players(length)
        tiles = spans(N_ENDS, design.info.n_coalitions, self.coalition_tile)
        game = TextGame(
            value=self.value.of_length(length),
            design=design,
            tiles=tuple(tiles),
            joined_tiles=self.joined_tiles,
            range_names=self.range_names,
            store=self.store,
            base_name=self.base_name,
            n_outputs=self.n_outputs,
            micro_rows=self.micro_rows,
            is_kept=self.is_kept,
            is_active=np.ones(length, dtype=bool),
        )
        return Contraction(game, (tuple(game.all_tiles),), has_pairs=False)


def _check(value: OfTexts, options: RunOptions) -> None:
    """Raise InputError for options that texts, whose players differ from row to row, lack."""
    asked = {
        "tol": (
            options.tol,
            "lets one list of coalitions grow, and texts have a list for each length",
        ),
        "interactions": (
            options.interactions,
            "are of pairs of players, and each text has its own players",
        ),
        "stochastic": (options.stochastic, "is for Marginal"),
        "keep_rows": (options.keep_rows, "keeps columns, and the cube of texts has their tokens"),
        "coalition_groups": (
            options.coalition_groups not in (None, 1),
            "cuts one list of coalitions, and texts have a list for each length",
        ),
        "missing": (options.missing != "refuse", "is about values that lack, and a text has none"),
    }
    for name, (is_asked, why) in asked.items():
        if is_asked:
            raise InputError(f"{name} {why}: leave {name} out for {type(value).__name__}")


def design_of_texts(value: Explained, design: Any) -> Any:
    """The design as given; for texts, a function of the length becomes a design by length.

    An `OfChains` design is called with a first length.
    """
    if isinstance(design, Design | type) or not (callable(design) and is_of_texts(value)):
        return design
    if isinstance(design, OfChains):
        return design(TRIED)
    return DesignByLength(design, TRIED)


@dataclass(frozen=True)
class ChosenOfTexts(Chosen):
    """The method for texts: the design of the longest, and its kind for other lengths."""

    def work(self) -> Work:
        """As for tables, plus the bytes that designs of other lengths keep."""
        work = super().work()
        kept = KEPT_DESIGNS * 8 * (1 + work.info.n_replicates) * work.info.n_players**2
        return replace(work, info=replace(work.info, kept_bytes=work.info.kept_bytes + kept))

    @property
    def is_base_by_row(self) -> bool:
        """True: v(empty) may depend on the row, at least through its length."""
        return True

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the texts."""
        found: Vocabulary = self.value.vocabulary
        return found


def choose_of_texts(
    design: Design | str, value: OfTexts, options: RunOptions, seed: int
) -> tuple[ChosenOfTexts, RunOptions]:
    """Choose the design that explains texts, and adapt the options.

    `value` is the value function of the longest text.

    Raises
    ------
    InputError
        An option or design that needs the same players in all rows.
    """
    _check(value, options)
    chosen = choose(design, value, options.max_coalitions, seed, _sampled_by_itself)
    assert chosen.design is not None  # a value function of texts has no closed form
    if isinstance(chosen.design, Pilot):
        raise InputError(
            "kriging chooses from a pilot of rows that have the same players, and each text has "
            "its own: give "
            "design='kernelshap' or 'permutation', or one of dshap.designs"
        )
    if isinstance(chosen.design, GraphDesign) and not chosen.design.graph.is_chain:
        raise InputError(
            f"the design is of a graph of {chosen.design.n_players} players that is no chain, and "
            "a text has the chain "
            "of its tokens: leave graph out"
        )
    of_longest = chosen.design.with_players(len(value.players))
    return ChosenOfTexts(value, of_longest, why=chosen.why), replace(options, coalition_groups=1)


def _sampled_by_itself(value: Explained, limit: int, seed: int, why: str) -> Chosen:
    """The sampled design that "auto" takes for texts: see `ByItself`."""
    design = sampled("kernelshap", len(value.players), limit, seed)
    return Chosen(
        value, design, why=f"{why}; shorter texts take as many, all there are where they are fewer"
    )


@dataclass(frozen=True)
class _Filled:
    """Attributions of all texts of a tile, filled length by length."""

    phi: FloatArray
    """(n, longest, k)"""
    replicates: FloatArray
    """(R, n, longest, k)"""
    ends: FloatArray
    """(2, n, k): v(empty) and v(N)"""
    classes: NDArray[np.int16]
    """(n,): the class that each row is explained for"""
    status: NDArray[np.int8]
    """(n,): see `Status`"""
    reasons: dict[int, str]
    """position -> reason, of the texts that failed"""

    @classmethod
    def of(cls, shape: tuple[int, ...], k: int, n_replicates: int) -> _Filled:
        n, longest = shape
        return cls(
            np.zeros((n, longest, k)),
            np.zeros((n_replicates, n, longest, k)),
            np.zeros((2, n, k)),
            np.zeros(n, np.int16),
            np.full(n, Status.OK, np.int8),
            {},
        )

    def put(self, at: NDArray[np.intp], length: int, found: Attribution) -> None:
        """Store the attributions of the texts at these positions.

        A design without standard errors leaves its replicates equal to phi.
        """
        self.phi[at, :length] = found.phi
        self.status[at] = found.status
        self.reasons.update({int(at[i]): reason for i, reason in found.reasons.items()})
        self.ends[0, at] = found.base
        self.ends[1, at] = found.prediction
        self.replicates[:, at, :length] = found.phi
        if found.replicates is not None:
            several = found.replicates[: len(self.replicates)]
            self.replicates[: len(several), at, :length] = several
        if found.classes is not None:
            self.classes[at] = found.classes

    def fail(self, at: NDArray[np.intp], reason: str) -> None:
        """Mark the texts at these positions as failed."""
        self.phi[at] = np.nan
        self.ends[:, at] = np.nan
        self.replicates[:, at] = np.nan
        self.status[at] = Status.FAILED
        self.reasons.update(dict.fromkeys(at.tolist(), reason))

    def attribution(self, has_classes: bool) -> Attribution:
        """The record of all rows."""
        more: dict[str, Any] = {"replicates": self.replicates} if len(self.replicates) else {}
        more |= {"classes": self.classes} if has_classes else {}
        base, prediction = self.ends
        return Attribution(self.phi, base, prediction, self.status, reasons=self.reasons, **more)
