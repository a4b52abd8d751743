"""The kriging design: combines a list of coalitions, their posterior and a pilot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from dshap.core.blocks import N_ENDS, CoalitionBlock, DesignInfo
from dshap.core.errors import InputError
from dshap.core.records import JSON, BoolArray, FloatArray, Record
from dshap.core.rules import check_fields
from dshap.core.threads import one_blas_thread
from dshap.designs.coalitions import BaseDesign, checked_span
from dshap.designs.jackknife import N_REPLICATES, checked_replicates
from dshap.designs.kriging.findings import NOTHING_FOUND, Findings
from dshap.designs.kriging.pairs import PairList, checked_budgets, odd_values
from dshap.designs.kriging.pilot import look
from dshap.designs.kriging.posterior import Posterior
from dshap.designs.kriging.tuning import DEFAULT_VARIATION


@dataclass(frozen=True)
class KrigingDesign(BaseDesign):
    """Coalitions, and a Gaussian process that predicts the values of all remaining coalitions.

    The function `dshap.designs.kriging` makes it, and has the formulas.

    The coalitions come in pairs of a coalition and its complement.  All coalitions of one player
    are listed first ("size 1"), then equally many of each other size, drawn without replacement
    (leverage sampling).  A pilot evaluates the first quarter of the list for a few rows, and
    predicts the error of each possible rest.  If interactions are weak enough, the next sizes are
    listed completely before the remaining sizes get their shares.  If the list has at most three
    pairs of coalitions for each player, the pilot first evaluates a list without the coalitions of
    size 1, and predicts how much adding these would reduce the error.

    A game is the values of one row and output.  If the pilot finds that it reduces the error, each
    game gets a separate process, and sparse interactions of three players.  Attributions are then
    not linear in the values.  `sparse=False` leaves both out.

    References
    ----------
    Universal kriging: N. Cressie, Statistics for Spatial Data (1993), section 3.4; Fourier
    coefficients of games and their Shapley values: R. O'Donnell, Analysis of Boolean Functions
    (2014), and M. Grabisch, Set Functions, Games and Capacities in Decision Making (2016), section
    2.12; C. Musco and R. T. Witter, ICLR 2025, for leverage sampling.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.kriging(8, 64)
    >>> type(design).__name__, design.n_players, design.n_coalitions
    ('KrigingDesign', 8, 64)
    >>> design.linear().sparse  # attributions linear in the values: no sparse terms of single games
    False
    """

    kind = "kriging"
    n_players: int
    """Number of players d, at most 1,024."""
    budgets: tuple[int, ...]
    """Numbers of coalitions after each round, ∅ and N counted; each is even."""
    decay: float | None = None
    """Ratio of the variances of successive odd orders of interactions; None: a pilot chooses it."""
    seed: int = 0
    """Seed of the draws; all instances share them."""
    n_replicates: int = N_REPLICATES
    """Number of contrasts from which standard errors are computed; 0: no standard errors."""
    variation: float = DEFAULT_VARIATION
    """Variance of a player's effect over coalition sizes; interactions have the variance 1."""
    shells: int | None = None
    """Number of outer sizes listed whole, as far as they fit; None: a pilot chooses it."""
    sparse: bool | None = None
    """Whether games have sparse interactions of three players; None: a pilot chooses."""
    findings: Findings = NOTHING_FOUND
    """The findings of a pilot; they replace the open options, and `variation`."""
    checks_games: bool = False
    """Whether games that the pilot does not serve are estimated separately: `checking`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_replicates", checked_replicates(self.n_replicates))
        if self.decay is not None:
            check_fields(self, "decay")
        check_fields(self, "variation", "n_players", "seed")
        object.__setattr__(self, "budgets", checked_budgets(self.n_players, self.budgets))
        pairs = self.pair_list
        # a design with a decay has no pilot, which would choose the rest of the list
        if pairs.is_open and self._as_given().decay is not None:
            object.__setattr__(self, "shells", pairs.least_shells)
        # with a single choice, the pilot need not run on the first part of the list
        elif pairs.is_open and len(pairs.choices) == 1:
            object.__setattr__(self, "findings", self._with_least_shells)

    @property
    def pair_list(self) -> PairList:
        """The list of pairs of complementary coalitions."""
        later_shells = self.findings.later_shells
        return PairList(self.n_players, self.budgets, self.seed, self.shells, later_shells)

    @cached_property
    def info(self) -> DesignInfo:
        """Counts, error columns and bytes of the design, which depend on no value."""
        posterior = self._posterior
        columns = posterior.group_columns
        return DesignInfo(
            n_players=self.n_players,
            n_coalitions=self.budgets[-1],
            n_replicates=self.n_replicates,
            group_columns=columns,
            has_errors=self.n_replicates > 0,
            why_no_errors=posterior.why_no_errors,
            seed=self.seed,
            kept_bytes=posterior.kept_bytes,
            coalition_bytes=9 * self.n_players + self.n_replicates * (26 + 24 * columns),
        )

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their scores; start 0 includes ∅ and N.

        The scores are NaN if games differ, because attributions are then not linear in the values.
        They are also NaN if the rest of the list is still to be chosen and its first part does not
        determine the attributions.
        """
        checked_span(self.budgets[-1], start, stop)
        return self._posterior.block(start, stop)

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """phi plus its moves (R, n, d, k), from contrasts (R, n, c, k)."""
        return self._posterior.replicates(sums, groups)

    @property
    def operator(self) -> FloatArray:
        """The matrix of `BaseDesign.operator`.

        InputError if games have sparse terms or separate processes, or may have them after a pilot.
        """
        if not self._posterior.is_linear:
            raise InputError("this design is not linear in the values: give them to its of_values")
        return super().operator

    def with_players(self, n_players: int) -> KrigingDesign:
        """The design of another number of players, in one round, with no more coalitions.

        It has the same decay, variation and choice of sparse terms.
        """
        kept = self._posterior
        return replace(
            self,
            n_players=n_players,
            budgets=(min(self.budgets[-1], 1 << n_players),),
            decay=kept.decay,
            variation=kept.variation,
            sparse=kept.sparse,
            findings=NOTHING_FOUND,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """Name and parameters, and the findings of a pilot from values."""
        whole = super().fingerprint()
        found = whole["findings"]
        if self.findings == Findings(self.findings.later_shells):
            del whole["findings"]
        # fingerprints in stores of versions without `served` and `checks_games` lack these entries
        if found["served"] is None:
            del found["served"]
        if not self.checks_games:
            del whole["checks_games"]
        return whole | {name: found[name] for name in ("later_shells", "by_game")}

    @classmethod
    def restored(cls, parameters: Mapping[str, JSON]) -> Self:
        """The design of a fingerprint, with findings in a separate mapping or in its fields."""
        names = cls.__dataclass_fields__
        own = {name: value for name, value in parameters.items() if name in names}
        flat = {name: value for name, value in parameters.items() if name not in names}
        return super().restored(own | {"findings": Findings.of(own.get("findings", flat))})

    @property
    def rounds(self) -> tuple[Self, ...]:
        """One design for each budget; only the last has separate processes and sparse terms.

        The pilot chooses these for the whole list.
        """
        linear = self.linear()
        return *(
            replace(linear, budgets=self.budgets[:n]) for n in range(1, len(self.budgets))
        ), self

    @property
    def pilot_coalitions(self) -> int:
        """Number of coalitions whose values `tune` needs; 0 if nothing is left to choose.

        `tune` first needs the first part of the list, to choose the rest.  Then it needs the whole
        list, to choose the decay.
        """
        pairs = self.pair_list
        if pairs.is_open:
            return 2 * pairs.first_pairs + N_ENDS
        if self._posterior.decay is not None or pairs.is_whole:
            return 0
        return self.budgets[-1]

    def tune(self, values: FloatArray) -> Record:
        """Choose the `Findings` from values (games, m) of the `pilot_coalitions`, as a record.

        A game is one output of one instance.
        """
        odd = odd_values(values)
        with one_blas_thread():
            found = look(self._posterior, odd)
            settled = self._posterior.after(found)
            if self.checks_games and found.decay is not None:
                found = replace(found, served=settled.service.limits(odd))
            return found.record()

    def tuned(self, record: Record) -> Self:
        """Return this design with the choices of a pilot's record.

        With a record without findings, as few sizes as possible are listed completely.
        """
        found = Findings.of(record.arrays)
        if found == NOTHING_FOUND:
            found = self._with_least_shells if self.pair_list.is_open else self.findings
        elif found.later_shells is None:
            found = replace(found, later_shells=self.findings.later_shells)
        return replace(self, findings=found)

    @property
    def held_coalitions(self) -> int:
        """All coalitions if games may have sparse terms or separate processes; else 0."""
        return self.budgets[-1] if self._posterior.holds_values else 0

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions.

        Each game has its own sparse terms and, if likelier, its own process.
        """
        phi, replicates, _ = self._posterior.estimates(values)
        return phi, replicates

    @property
    def checks_rows(self) -> bool:
        """Whether rows that the pilot does not serve are estimated separately."""
        return self._posterior.is_checking

    def checking(self) -> Self:
        """Return this design with a comparison of each row with the rows of its pilot.

        A row that differs from them is estimated separately: its own values choose the prior, the
        process and the sparse terms.
        """
        return replace(self, checks_games=True)

    def of_checked_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The results of `of_values`, and whether the pilot serves each row (n,)."""
        return self._posterior.estimates(values)

    def linear(self) -> Self:
        """The design with the same process for all games and no sparse terms."""
        found = replace(self.findings, by_game=False, sparse=None)
        return replace(self, sparse=False, findings=found, checks_games=False)

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs of players) of coalitions start..stop in the Shapley interaction index.

        I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1).
        """
        checked_span(self.budgets[-1], start, stop)
        return self._posterior.interactions(start, stop)

    @property
    def game_seconds(self) -> float:
        """Estimated seconds to fit one game's own process; 0 unless a pilot may choose it."""
        return self._posterior.game_seconds

    @cached_property
    def _posterior(self) -> Posterior:
        """The posterior by the options of this design and the findings of its pilot."""
        return self._as_given()

    def _as_given(self) -> Posterior:
        given = Posterior(
            self.pair_list,
            self.n_replicates,
            self.decay,
            self.variation,
            self.sparse,
            checks_games=self.checks_games,
        )
        return given.after(self.findings)

    @property
    def _with_least_shells(self) -> Findings:
        """These findings, with as few completely listed sizes as possible."""
        return replace(self.findings, later_shells=self.pair_list.least_shells)
