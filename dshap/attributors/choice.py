"""Which design is taken, and why: by name, by "auto", in rounds where a tolerance is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dshap import designs
from dshap.abilities import ClosedForm, Interactions, PairedForm, closed_form_of, prefers_closed_form
from dshap.blocks import N_ENDS
from dshap.errors import InputError, unknown_name
from dshap.options import RunOptions
from dshap.types import Design, ValueFunction

__all__ = ["DESIGN_NAMES", "check_closed", "check_interactions", "choose_design", "in_rounds"]

MAX_COALITIONS = 2_048
"""Design "auto": exact up to this many coalitions, sampled above."""
MAX_TABLE_COALITIONS = 4_096
"""The same where a table of subsets is all there is to a coalition, and a closed form takes over above."""
ROUND_SLACK = 10
"""Pairs of the first round beyond those that standard errors need at least."""


def _permutation(d: int, n_coalitions: int, seed: int) -> Design:
    """As many pairs of an order and its reversal as come to at most n_coalitions."""
    return designs.permutation(d, 2 * max(1, (n_coalitions - N_ENDS) // max(1, 2 * (d - 1))), seed=seed)


SAMPLED: Mapping[str, Callable[[int, int, int], Design]] = {
    "kernelshap": lambda d, n_coalitions, seed: designs.kernelshap(d, n_coalitions, seed=seed),
    "kriging": lambda d, n_coalitions, seed: designs.kriging(d, n_coalitions, seed=seed),
    "permutation": _permutation,
}
"""name -> the design of d players with at most so many coalitions, from a seed."""
LEAST: Mapping[str, Callable[[int], int]] = {
    "kernelshap": lambda d: 2 * d,
    "kriging": lambda d: 2 * d + N_ENDS,
    "permutation": lambda d: 2 * d,
}
"""name -> the fewest coalitions that determine attributions: of kernelshap and kriging the single players and their
complements, of a permutation an order and its reversal."""
OTHER = "or explain Marginal(predict, background), which takes any design"
DESIGN_NAMES = ("auto", "exact", *SAMPLED, "quadrature", "closed_form")


def choose_design(
    design: Design | str, value: ValueFunction, max_coalitions: int | None, seed: int = 0
) -> tuple[Design, str]:
    """The design and why it was taken; `seed` is that of a design that is sampled and not given.

    A `designs.ClosedFormDesign` asks for the closed form of the value function.
    """
    n_players, form = len(value.players), closed_form_of(value)
    if isinstance(value, ClosedForm) and design not in ("auto", "closed_form") and not _is_closed(design):
        raise InputError(
            f"{type(value).__name__} is a closed form and lists no coalition: leave design at 'auto', {OTHER}"
        )
    if not isinstance(design, str):
        return design, "given"
    if design in ("quadrature", "closed_form"):
        if form is None:
            raise InputError(
                f"design {design!r} is a closed form of KernelInterventional, and {type(value).__name__} "
                "has none: give 'auto', 'exact', 'kriging', 'kernelshap' or 'permutation'"
            )
        return _of_form(form), f"given: {form.describe_form()}"
    if design == "auto" and form is not None and prefers_closed_form(value):
        return _of_form(form), f"auto: {form.describe_form()}"
    most = MAX_COALITIONS if form is None else MAX_TABLE_COALITIONS
    limit = max_coalitions or max(most, 4 * n_players)
    is_all = n_players <= 24 and 2**n_players <= limit
    if design == "auto" and form is not None and max_coalitions is None and not is_all:
        return _of_form(form), (
            f"auto: 2^{n_players} coalitions are more than {limit:,}; {form.describe_form()} (max_coalitions= samples)"
        )
    if design == "exact":
        return designs.exact(n_players), "given"
    if design in SAMPLED:
        return _sampled(design, n_players, limit, seed), f"{limit:,} coalitions at most"
    if design != "auto":
        raise InputError(unknown_name("design", design, DESIGN_NAMES))
    if is_all:
        return designs.exact(n_players), f"auto: all 2^{n_players} coalitions are at most {limit:,}"
    why = f"auto: 2^{n_players} coalitions are more than {limit:,}"
    if limit < LEAST["kriging"](n_players):
        return _sampled("kernelshap", n_players, limit, seed), f"{why}, too few coalitions for kriging"
    if n_players <= designs.MAX_KRIGED_PLAYERS and limit <= designs.MAX_KRIGED:
        return designs.kriging(n_players, limit, seed=seed), f"{why}; kriging makes the most of them"
    return designs.kernelshap(n_players, limit, seed=seed), f"{why}, too many players or coalitions for kriging"


def _sampled(name: str, d: int, limit: int, seed: int) -> Design:
    """The design of this name with at most so many coalitions, or InputError where they determine nothing."""
    every = 2 ** min(d, 62)
    if min(limit, every) < min(LEAST[name](d), every):
        raise InputError(
            f"max_coalitions={limit}: {name} of {d} players takes at least {LEAST[name](d)}, give as many or leave it "
            "out"
        )
    if name == "kriging" and min(limit, every) > designs.MAX_KRIGED:
        raise InputError(
            f"max_coalitions={limit}: kriging takes at most {designs.MAX_KRIGED}, give as many, or design='kernelshap'"
        )
    return SAMPLED[name](d, min(limit, every), seed)


def check_closed(value: ValueFunction, options: RunOptions) -> None:
    """Refuse what a value function that is a closed form has not, whatever the design."""
    is_unpaired = options.interactions and not isinstance(value, PairedForm)
    asked = [name for name, is_asked in (("interactions", is_unpaired), ("tol", options.tol)) if is_asked]
    if isinstance(value, ClosedForm) and asked:
        raise InputError(
            f"{asked[0]} belongs to designs that list coalitions, and {type(value).__name__} is a closed form, exact "
            f"without any: leave {asked[0]} out, {OTHER}"
        )


def check_interactions(design: Design) -> None:
    """Refuse a design without them, or with too many players."""
    if not isinstance(design, Interactions):
        raise InputError(
            f"interactions are those of design='exact' and 'kriging', and the design is {_called(design)}: give one of "
            f"these, kriging with max_coalitions of {2 * design.info.n_players + 2} or more"
        )
    design.interactions(N_ENDS, N_ENDS)


def in_rounds(design: Design, asked: Design | str, options: RunOptions) -> tuple[Design, RunOptions, str]:
    """The design grown in rounds up to its limit, the options, and why.

    A design that was chosen by name starts small; one that was given starts as it is and ends at `max_coalitions`.

    Raises
    ------
    InputError
        Where a design has no standard errors to stop by, or cannot grow.
    """
    if isinstance(design, designs.ExactDesign):
        return design, replace(options, tol=None), f"{options.tol:g} is met: every coalition counts"
    if not isinstance(design, designs.KernelShapDesign | designs.KrigingDesign):
        raise InputError(
            "tol grows a design until its standard errors are small, and the design is "
            f"{_called(design)}: give design='kriging' or 'kernelshap'"
        )
    if not design.info.n_replicates:
        raise InputError("tol needs standard errors, and the design has n_replicates=0: give 20")
    d, last = design.info.n_players, design.info.n_coalitions
    if isinstance(asked, str):
        first = min(last, 2 * max(2 * d, d + design.info.n_replicates + ROUND_SLACK))
        design = replace(design, budgets=(first,))
    else:
        last = (options.max_coalitions or MAX_COALITIONS) // 2 * 2  # pairs stay whole
    while design.info.n_coalitions < min(last, 1 << d):
        design = replace(design, budgets=(*design.budgets, min(2 * design.info.n_coalitions, last, 1 << d)))
    if design.info.why_no_errors:
        raise InputError(f"tol needs standard errors, and {design.info.why_no_errors}")
    rounds = ", ".join(f"{budget:,}" for budget in design.budgets)
    why = f"rounds of {rounds} coalitions, for the rows whose std_error / range is above {options.tol:g}"
    return design, options, f"{why}; a pilot of up to 16 rows tells how many it takes, and their cost"


def _called(design: Design) -> str:
    """What a design is called, the closed form that "auto" takes too."""
    return "the closed form, which lists no coalition" if _is_closed(design) else str(design.fingerprint()["design"])


def _of_form(form: ClosedForm) -> designs.ClosedFormDesign:
    return designs.ClosedFormDesign(len(form.players), n_replicates=form.n_replicates)


def _is_closed(design: Design | str) -> bool:
    return isinstance(design, designs.ClosedFormDesign)
