"""Texts: each is explained by the game of its own tokens, and by a design of as many players."""

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

__all__ = ["ChosenOfTexts", "TextAttributor", "choose_of_texts", "design_of_texts"]


KEPT_DESIGNS = 8
"""Designs whose solutions a process keeps at most."""
TRIED = 8
"""Players of the first design that a function is asked for."""


@dataclass(kw_only=True)
class TextGame(Game):
    """The game of the texts of one length."""

    value: OfTexts

    def mean_prediction(self) -> FloatArray:
        return self.value.mean_prediction()


@dataclass(kw_only=True)
class TextAttributor(Instances):
    """A design for each length: rows of one length are explained together, whatever rows stand
    between them."""

    value: OfTexts
    design: Design
    """Of the longest text; those of other lengths are of its kind, with their own number of
    players."""
    coalition_tile: int
    joined_tiles: int
    n_replicates: int
    range_names: tuple[str, ...] = ()
    """State files of the least and the largest predictions: see `Game`."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of texts (n, columns), NaN beyond the end of each; 0 there."""
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
        """What explains the texts of this length."""
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
    """Refuse what texts, whose players differ from row to row, have not."""
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
    """What was given as the design; of texts a function of the length as one, and one of no graph
    as that of chains."""
    if isinstance(design, Design | type) or not (callable(design) and is_of_texts(value)):
        return design
    if isinstance(design, OfChains):
        return design(TRIED)
    return DesignByLength(design, TRIED)


@dataclass(frozen=True)
class ChosenOfTexts(Chosen):
    """By what texts are explained: the design of the longest, whose kind those of other lengths
    take."""

    def work(self) -> Work:
        """With what designs of other lengths keep beside that of the longest: solutions, one a
        group."""
        work = super().work()
        kept = KEPT_DESIGNS * 8 * (1 + work.info.n_replicates) * work.info.n_players**2
        return replace(work, info=replace(work.info, kept_bytes=work.info.kept_bytes + kept))

    @property
    def is_base_by_row(self) -> bool:
        """Of its length at least."""
        return True

    @property
    def vocabulary(self) -> Vocabulary:
        """See `Chosen`."""
        found: Vocabulary = self.value.vocabulary
        return found


def choose_of_texts(
    design: Design | str, value: OfTexts, options: RunOptions, seed: int
) -> tuple[ChosenOfTexts, RunOptions]:
    """By what texts are explained, and the options; `value` is that of the longest.

    Raises
    ------
    InputError
        What is asked for is not there where players differ from row to row.
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
    """See `ByItself`."""
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
    """(n,)"""
    status: NDArray[np.int8]
    """(n,)"""
    reasons: dict[int, str]
    """position -> why, of the texts that failed"""

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
        """Those of the texts at these positions; a design without standard errors has none, and its
        groups agree."""
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
        """Say that the texts at these positions have no attribution."""
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
