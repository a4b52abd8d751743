"""Choosing the method: a design or a closed form, from a name or "auto", with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dshap import designs
from dshap.attributors.closed_form import ClosedForm, PairedForm
from dshap.attributors.linear import Linear
from dshap.attributors.quadrature import Quadrature
from dshap.attributors.trees import TreeForm
from dshap.core.blocks import N_ENDS, DesignInfo
from dshap.core.capabilities import (
    Interactions,
    Work,
    is_of_texts,
    lacking,
    learns_from_data,
    linear,
    refuse_lacking,
    sample_size,
)
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.options import RunOptions
from dshap.core.records import JSON, Cost, State
from dshap.core.types import Design, Explained, GivenAttributor, ValueFunction, replaced
from dshap.core.vocabulary import Vocabulary
from dshap.designs.on_graphs.design import OfChains
from dshap.values.interventional import KernelInterventional
from dshap.values.linear_gaussian import LinearGaussian
from dshap.values.trees import Trees

MAX_COALITIONS = 2_048
"""Design "auto" lists all coalitions up to this many, and samples (or uses a closed form) above."""
MAX_TABLE_COALITIONS = 4_096
"""The limit of design "auto" for value functions with a closed form, which is taken above it."""
ROUND_SLACK = 10
"""Pairs of coalitions that the first round has beyond the fewest that give standard errors."""


def _permutation(d: int, n_coalitions: int, seed: int) -> Design:
    """The permutation design with the most pairs of an order and its reversal within the limit.

    There is at least one pair.
    """
    return designs.permutation(
        d, 2 * max(1, (n_coalitions - N_ENDS) // max(1, 2 * (d - 1))), seed=seed
    )


SAMPLED: Mapping[str, Callable[[int, int, int], Design]] = {
    "kernelshap": lambda d, n_coalitions, seed: designs.kernelshap(d, n_coalitions, seed=seed),
    "kriging": lambda d, n_coalitions, seed: designs.kriging(d, n_coalitions, seed=seed),
    "permutation": _permutation,
}
"""name -> function (d, most coalitions, seed) that builds the sampled design of d players."""
LEAST: Mapping[str, Callable[[int], int]] = {
    "kernelshap": lambda d: 2 * d,
    "kriging": lambda d: 2 * d + N_ENDS,
    "permutation": lambda d: 2 * d,
}
"""name -> the fewest coalitions, as a function of d, that determine the attributions.

kernelshap and kriging need the single players and their complements, permutation needs one order
and its reversal.
"""
INTERACTION_ERRORS = (
    "on products those of two columns were off by 0.4 % at 13 columns, 9 % at 20, 71 % at 60"
)
"""The measured relative errors of interactions from sampled coalitions, quoted in warnings."""
OTHER = "or explain Marginal(predict, background), which takes any design"
DESIGN_NAMES = ("auto", "exact", *SAMPLED, "quadrature", "closed_form")


FORMS: Mapping[type, type[ClosedForm]] = {
    KernelInterventional: Quadrature,
    LinearGaussian: Linear,
    Trees: TreeForm,
}
"""Type of value function -> its closed form; subclasses inherit it."""


def form_of(value: Explained) -> ClosedForm | None:
    """The closed form of a value function; None where it has none."""
    kind = next((FORMS[kind] for kind in type(value).__mro__ if kind in FORMS), None)
    if kind is None:
        return None
    return kind(value)


def learns(value: Explained) -> bool:
    """Whether the values, or the closed form, need a pass that sums over all rows of the data."""
    form = form_of(value)
    return learns_from_data(value) or (form is not None and form.learns)


def reads_data(value: Explained) -> bool:
    """Whether rows of data are read: as the background of absent players, or to learn from.

    False for attributors, for texts, and for closed forms of the model alone.
    """
    form = form_of(value)
    is_of_model = form is not None and form.is_only and not form.learns
    return not (is_of_model or isinstance(value, GivenAttributor) or is_of_texts(value))


@dataclass(frozen=True)
class Chosen:
    """The chosen method: a value function with a design or closed form, or an attributor."""

    value: Any
    """The value function, or the given attributor, over the players that take part."""
    design: Design | None = None
    form: ClosedForm | None = None
    why: str = "given"

    @classmethod
    def of(cls, value: Explained, form: ClosedForm, why: str) -> Chosen:
        """The closed form `form`, applied to this value function."""
        return cls(value, None, replace(form, value=value), why)

    @property
    def info(self) -> DesignInfo:
        """The properties of the design.

        Closed forms and attributors list the two ends only, and their additivity holds to a stated
        error, not by construction.
        """
        if self.design is not None:
            return self.design.info
        d = len(self.value.players)
        return DesignInfo(d, N_ENDS, self.learner.n_replicates, d, is_efficient=False)

    @property
    def learns(self) -> bool:
        """Whether the states need sums over all rows of the data."""
        if self.form:
            return self.form.learns
        return learns_from_data(self.value)

    @property
    def learner(self) -> Any:
        """The object that learns from the data: the closed form, else the value function."""
        return self.form or self.value

    def resolved(self, choice: State) -> Chosen:
        """A copy that holds the choice (such as landmarks) made from a sample of the data."""
        learner = self.learner.chosen(choice)
        if self.form is None:
            return replace(self, value=learner)
        return replace(self, value=learner.value, form=learner)

    @property
    def is_given(self) -> bool:
        """Whether the user gave an attributor in place of a value function."""
        return self.design is None and self.form is None

    @property
    def is_base_by_row(self) -> bool:
        """Whether v(empty) differs from row to row."""
        return self.is_given or bool(self.value.link.is_by_row)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of texts, whose tokens the cube keeps; None for tables."""
        return None

    def with_value(self, value: Any) -> Chosen:
        """A copy for another model, other players or other data."""
        return replace(self, value=value, form=self.form and replace(self.form, value=value))

    def with_players(self, n_players: int) -> Chosen:
        """A copy whose design is of the same kind, for `n_players` players."""
        return replace(self, design=self.design and self.design.with_players(n_players))

    def with_threads(self, n_threads: int) -> Chosen:
        """A copy that uses `n_threads` threads where it can; the numbers do not depend on it."""
        if self.form is None:
            return self
        form = self.form.with_threads(n_threads)
        return replace(self, value=form.value, form=form)

    def without_data(self) -> Chosen:
        """A copy without the data, as it is sent to the workers."""
        return self.with_value(replaced(self.value, data=None))

    def work(self) -> Work:
        """The costs and sizes that the planner needs."""
        if self.design is not None:
            return Work.of(self.value, self.design)
        by = self.learner

        def cost(m: int, n: int = 1) -> Cost:
            return by.cost(n)

        size = sample_size(by)
        n = self.info.n_coalitions
        return Work(
            self.value,
            self.info,
            cost,
            self.learns,
            size,
            is_closed_form=True,
            stage_coalitions=(n,),
        )

    def value_fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a value, for the fingerprint."""
        return dict(self.learner.fingerprint())

    def fingerprint(self) -> dict[str, JSON]:
        """The design's fingerprint; of a closed form its kind, players and jackknife groups."""
        if self.design is not None:
            return self.design.fingerprint()
        if self.form:
            name = "closed_form"
        else:
            name = "attributor"
        return {
            "design": name,
            "n_players": self.info.n_players,
            "n_replicates": self.info.n_replicates,
        }


ByItself = Callable[[Explained, int, int, str], Chosen]
"""Builds the sampled design for "auto" when there are more coalitions than the limit.

Its arguments are the value function, the most coalitions, the seed and the reason so far.
"""


def restored_choice(value: Explained, fingerprint: Mapping[str, Any]) -> Chosen:
    """Rebuild the chosen method from its `Chosen.fingerprint`."""
    if fingerprint["design"] != "closed_form":
        return Chosen(value, designs.restored_design(fingerprint))
    form = form_of(value)
    if form is None:
        raise InputError(f"{type(value).__name__} has no closed form: give another design")
    return Chosen.of(value, form, "given")


def choose(
    design: Design | str,
    value: Explained,
    max_coalitions: int | None,
    seed: int = 0,
    by_itself: ByItself | None = None,
) -> Chosen:
    """Choose the design or closed form that explains a value function, with the reason.

    `seed` goes to a sampled design that is chosen by name or by "auto"; `by_itself` builds the
    sampled design for "auto" when there are more coalitions than the limit.
    """
    form = form_of(value)
    if isinstance(value, GivenAttributor):
        if design != "auto":
            raise InputError(
                f"{type(value).__name__} is an attributor and takes no design: leave design at "
                "'auto'"
            )
        return Chosen(value)
    if form is not None and form.is_only and design not in ("auto", "closed_form"):
        raise InputError(
            f"{type(value).__name__} is a closed form and lists no coalition: leave design at "
            f"'auto', {OTHER}"
        )
    if not isinstance(design, str):
        return Chosen(value, _within(design, max_coalitions))
    if design in ("quadrature", "closed_form"):
        if form is None:
            raise InputError(
                f"design {design!r} is a closed form of KernelInterventional, and "
                f"{type(value).__name__} "
                "has none: give 'auto', 'exact', 'kriging', 'kernelshap' or 'permutation'"
            )
        return Chosen.of(value, form, f"given: {form.describe()}")
    if design == "auto" and form is not None and form.is_only:
        return Chosen.of(value, form, f"auto: {form.describe()}")
    n_players = len(value.players)
    if form is None:
        most = MAX_COALITIONS
    else:
        most = MAX_TABLE_COALITIONS
    limit = max_coalitions or max(most, 4 * n_players)
    if design == "exact":
        return Chosen(value, _within(designs.exact(n_players), max_coalitions))
    if design in SAMPLED:
        return Chosen(
            value, sampled(design, n_players, limit, seed), why=f"{limit:,} coalitions at most"
        )
    if design != "auto":
        raise InputError(unknown_name("design", design, DESIGN_NAMES))
    if n_players <= 24 and 2**n_players <= limit:
        return Chosen(
            value,
            designs.exact(n_players),
            why=f"auto: all 2^{n_players} coalitions are at most {limit:,}",
        )
    why = f"auto: 2^{n_players} coalitions are more than {limit:,}"
    if form is not None and max_coalitions is None:
        return Chosen.of(value, form, f"{why}; {form.describe()} (max_coalitions= samples)")
    return (by_itself or _sampled_by_itself)(value, limit, seed, why)


def _sampled_by_itself(value: Explained, limit: int, seed: int, why: str) -> Chosen:
    """The sampled design that "auto" takes for tables: see `ByItself`."""
    n_players = len(value.players)
    if limit < LEAST["kriging"](n_players):
        # a regression has as many unknowns as coalitions
        design = sampled("permutation", n_players, limit, seed)
        return Chosen(value, design, why=f"{why}, too few coalitions for kriging")
    if n_players <= designs.MAX_KRIGED_PLAYERS and limit <= designs.MAX_KRIGED:
        design = designs.kriging(n_players, limit, seed=seed)
        return Chosen(value, design, why=f"{why}; kriging makes the most of them")
    design = designs.kernelshap(n_players, limit, seed=seed)
    return Chosen(value, design, why=f"{why}, too many players or coalitions for kriging")


def _within(design: Design, limit: int | None) -> Design:
    """Return the design; raise InputError if it takes more coalitions than `limit`."""
    if limit is not None and design.info.n_coalitions > limit:
        takes = f"takes {design.info.n_coalitions:,} coalitions of {design.info.n_players} players"
        raise InputError(
            f"max_coalitions={limit}: this design {takes}, give as many or leave it out"
        )
    return design


def sampled(name: str, d: int, limit: int, seed: int) -> Design:
    """Build the sampled design of this name with at most `limit` coalitions.

    Raises InputError where so few coalitions do not determine the attributions.
    """
    every = 2 ** min(d, 62)
    if min(limit, every) < min(LEAST[name](d), every):
        raise InputError(
            f"max_coalitions={limit}: {name} of {d} players takes at least {LEAST[name](d)}, give "
            "as many or leave it "
            "out"
        )
    if name == "kriging" and min(limit, every) > designs.MAX_KRIGED:
        raise InputError(
            f"max_coalitions={limit}: kriging takes at most {designs.MAX_KRIGED}, give as many, or "
            "design='kernelshap'"
        )
    return SAMPLED[name](d, min(limit, every), seed)


ASKED: Mapping[type, str] = {ValueFunction: "value function", GivenAttributor: "attributor"}
"""Protocol of the first argument of `explain` -> its name in messages."""


def check_kinds(value: Any, design: Any) -> None:
    """Raise InputError unless the arguments are a value function or attributor, and a design."""
    has_form = form_of(value) is not None
    kind = min(ASKED, key=lambda kind: len(lacking(value, kind)))  # what it is nearest to
    if not has_form and not isinstance(value, type):
        refuse_lacking(value, kind, ASKED[kind])
    if isinstance(value, type) or not (has_form or isinstance(value, kind)):
        raise InputError(
            f"explain was given {type(value).__name__} as the value function: wrap a model like "
            "dshap.values.Marginal(model.predict, background)"
        )
    if isinstance(design, OfChains):
        raise design.refused(len(value.players))
    if not isinstance(design, str | type):
        refuse_lacking(design, Design, "design")
    if isinstance(design, type) or not isinstance(design, str | Design):
        raise InputError(
            f"design is {shown(design)}: give {', '.join(map(repr, DESIGN_NAMES))} or one of "
            "dshap.designs"
        )


def check_closed(value: Explained, options: RunOptions) -> None:
    """Raise InputError for interactions or `tol` where a closed form or attributor lacks them."""
    form = form_of(value)
    is_given = isinstance(value, GivenAttributor)
    is_paired = isinstance(form, PairedForm)
    can_be_asked = ("interactions", options.interactions and not is_paired), ("tol", options.tol)
    asked = [name for name, is_asked in can_be_asked if is_asked]
    if asked and (is_given or (form is not None and form.is_only)):
        if is_given:
            kind = "an attributor"
        else:
            kind = "a closed form, exact without any"
        raise InputError(
            f"{asked[0]} belongs to designs that list coalitions, and {type(value).__name__} is "
            f"{kind}: leave "
            f"{asked[0]} out, {OTHER}"
        )


def with_interactions(chosen: Chosen) -> Chosen:
    """The method with interactions; InputError where it has none, or too many players."""
    form = chosen.form
    design = chosen.design
    if isinstance(form, PairedForm):
        return replace(chosen, form=form.with_interactions())
    if not isinstance(design, Interactions):
        raise InputError(
            "interactions are those of design='exact' and 'kriging', and the design is "
            f"{_called(chosen)}: give one of "
            f"these, kriging with max_coalitions of {2 * chosen.info.n_players + 2} or more"
        )
    design.interactions(N_ENDS, N_ENDS)
    return chosen


def why_no_interaction_errors(chosen: Chosen) -> str:
    """Why interactions have no standard errors; empty where they are exact."""
    design = chosen.design
    if design is None or design.info.is_whole:
        return ""
    taken = f"{design.info.n_coalitions:,} of 2^{design.info.n_players} coalitions"
    return (
        f"interactions of {_called(chosen)} have no standard errors, and {taken} say less of them "
        "than of attributions"
        f': {INTERACTION_ERRORS}; design="exact" has none'
    )


def of_noisy_model(chosen: Chosen) -> Chosen:
    """The method for a stochastic model: the form of its design that is linear in the values.

    Raises InputError where two answers of the model cannot separate noise from signal: closed
    forms, learned value functions, links of the predicted class.
    """
    value = chosen.value
    design = chosen.design
    if (
        design is None
        or chosen.learns
        or math.isfinite(value.cost(1).operations)
        or value.link.is_by_row
    ):
        raise InputError(
            "stochastic=True is for Marginal, with a link that does not ask for the predicted "
            "class "
            f"(LogOdds('name') names one): not for this {type(value).__name__}"
        )
    return replace(chosen, design=linear(design))


def in_rounds(
    chosen: Chosen, asked: Design | str, options: RunOptions
) -> tuple[Chosen, RunOptions, str]:
    """The design grown in rounds up to its limit, the options, and the reason.

    A design that was chosen by name starts small; one that was given starts as it is and ends at
    `max_coalitions`.

    Raises
    ------
    InputError
        Where a design has no standard errors to stop by, or cannot grow.
    """
    design: Any = chosen.design
    if isinstance(design, designs.ExactDesign):
        return chosen, replace(options, tol=None), f"{options.tol:g} is met: every coalition counts"
    if not isinstance(design, designs.KernelShapDesign | designs.KrigingDesign):
        raise InputError(
            "tol grows a design until its standard errors are small, and the design is "
            f"{_called(chosen)}: give design='kriging' or 'kernelshap'"
        )
    if not design.info.n_replicates:
        raise InputError("tol needs standard errors, and the design has n_replicates=0: give 20")
    d = design.info.n_players
    last = design.info.n_coalitions
    if isinstance(asked, str):
        if isinstance(design, designs.KernelShapDesign):
            least = design.least_for_errors
        else:
            least = 0
        first = max(least, 2 * max(2 * d, d + design.info.n_replicates + ROUND_SLACK))
        design = replace(design, budgets=(min(last, first),))
    else:
        last = (options.max_coalitions or MAX_COALITIONS) // 2 * 2  # pairs stay whole
    while design.info.n_coalitions < min(last, 1 << d):
        design = replace(
            design, budgets=(*design.budgets, min(2 * design.info.n_coalitions, last, 1 << d))
        )
    if design.info.why_no_errors:
        raise InputError(f"tol needs standard errors, and {design.info.why_no_errors}")
    rounds = ", ".join(f"{budget:,}" for budget in design.budgets)
    why = f"rounds of {rounds} coalitions, for the rows whose std_error / range is above {options.tol:g}"
    why = f"{why}; a pilot of up to 16 rows tells how many it takes, and their cost"
    return replace(chosen, design=design), options, why


def _called(chosen: Chosen) -> str:
    """The name of the chosen method in messages."""
    if chosen.design is None:
        return "the closed form, which lists no coalition"
    return str(chosen.design.fingerprint()["design"])
