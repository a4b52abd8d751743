"""Choosing the method: a design or a closed form, from a name or "auto", with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dshap import designs
from dshap.attributors.closed_form import ClosedForm
from dshap.attributors.compatibility import not_together, refuse
from dshap.attributors.linear import Linear
from dshap.attributors.method import (
    ByLength,
    Closed,
    Given,
    Listed,
    Method,
    kind_of_design,
    kind_of_value,
)
from dshap.attributors.own_rows import OwnRows, why_all_rows
from dshap.attributors.quadrature import Quadrature
from dshap.attributors.trees import TreeForm
from dshap.core.blocks import N_ENDS
from dshap.core.capabilities import (
    OfTexts,
    Pilot,
    is_nearly,
    is_of_texts,
    lacking,
    learns_from_data,
    refuse_lacking,
)
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.fixed_words import DesignName, MissingRule
from dshap.core.options import RunOptions
from dshap.core.types import Design, Explained, GivenAttributor, Predictor, ValueFunction
from dshap.designs.by_length import DesignByLength
from dshap.designs.kinds import KINDS
from dshap.designs.on_graphs.design import GraphDesign, OfChains
from dshap.values.interventional import KernelInterventional
from dshap.values.linear_gaussian import LinearGaussian
from dshap.values.marginal import Marginal
from dshap.values.trees import Trees

MAX_COALITIONS = 2_048
"""Design "auto" lists all coalitions up to this many, and samples (or uses a closed form) above."""
MAX_TABLE_COALITIONS = 4_096
"""The limit of design "auto" for value functions with a closed form, which is used above it.

Up to about 12 players a table of all coalitions is faster than quadrature, and counts every
background row.
"""


def _permutation(d: int, n_coalitions: int, seed: int) -> Design:
    """The permutation design with the most pairs of an order and its reversal within the limit.

    There is at least one pair.
    """
    # an order and its reversal ask for 2 (d − 1) proper coalitions
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
FORM_NAMES = ("quadrature", "closed_form")
DESIGN_NAMES = ("auto", "exact", *SAMPLED, *FORM_NAMES)
TRIED = 8
"""Number of players that a user's design function is first called with."""


FORMS: Mapping[type, type[ClosedForm]] = {
    KernelInterventional: Quadrature,
    LinearGaussian: Linear,
    Trees: TreeForm,
}
"""Type of value function -> its closed form; subclasses inherit it."""


def form_of(value: Explained) -> ClosedForm | None:
    """The closed form of a value function; None if it has none."""
    kind = next((FORMS[kind] for kind in type(value).__mro__ if kind in FORMS), None)
    if kind is None:
        return None
    return kind(value)


def learns(value: Explained) -> bool:
    """Whether the values or the closed form need a pass that sums over all rows of the data."""
    form = form_of(value)
    return learns_from_data(value) or (form is not None and form.learns)


def needs_numbers(value: Explained) -> bool:
    """Whether the sums of `learns` need rows without missing values."""
    form = form_of(value)
    return learns(value) and not (form is not None and form.takes_missing)


def reads_data(value: Explained) -> bool:
    """Whether rows of data are read: as the background of absent players, or to learn from.

    False for attributors, for texts, and for closed forms of the model alone.
    """
    form = form_of(value)
    is_of_model = form is not None and form.is_only and not form.learns
    return not (is_of_model or isinstance(value, GivenAttributor) or is_of_texts(value))


Fallback = Callable[[Explained, int, int, str], Listed]
"""Builds the sampled design for "auto" when there are more coalitions than the limit.

Its arguments are the value function, the most coalitions, the seed and the reason so far.
"""


def restored_method(value: Explained, fingerprint: Mapping[str, Any]) -> Method:
    """Rebuild a method from its `Method.fingerprint`."""
    if fingerprint["design"] != "closed_form":
        return Listed(value, designs.restored_design(fingerprint))
    form = form_of(value)
    if form is None:
        raise InputError(f"{type(value).__name__} has no closed form: give another design")
    return Closed.of(form)


def why_no_order_of(fingerprint: Mapping[str, Any]) -> str:
    """Why no ranking of a design's attributions is certain, from the design's fingerprint.

    Empty if the attributions are exact or have errors, and for designs that are not dshap's.
    """
    if str(fingerprint.get("design")) not in KINDS:
        return ""
    return designs.restored_design(fingerprint).info.why_no_order


def choose(
    design: Design | DesignName, value: Explained, max_coalitions: int | None, seed: int = 0
) -> Method:
    """Choose the method that explains a value function, with the reason.

    `seed` goes to a sampled design that is chosen by name or by "auto".  For texts, `value` is the
    value function of the longest text.
    """
    if is_of_texts(value):
        return _of_texts(design, value, max_coalitions, seed)
    if isinstance(value, GivenAttributor):
        if design != "auto":
            raise not_together("design", "attributor", value=type(value).__name__)
        return Given(value)
    form = form_of(value)
    if form is None:
        # four coalitions a player, which is more than the default from 513 players on
        limit = max_coalitions or max(MAX_COALITIONS, 4 * len(value.players))
        return with_own_rows(_listed(design, value, limit, max_coalitions, seed, _fallback))
    return _with_form(form, design, value, max_coalitions, seed)


def with_own_rows(listed: Listed) -> Method:
    """Give each pair of orders its own background row, for a permutation design of a `Marginal`.

    If `why_all_rows` has a reason against it, the method stays as it is and shows this reason.  All
    other methods are returned unchanged.
    """
    design: Any = listed.design
    value = listed.value
    # not isinstance: `Tokens` and classes of users inherit, and may fill in absent columns otherwise
    if type(value) is not Marginal or kind_of_design(design) != "permutation":
        return listed
    if why := why_all_rows(value, design):
        return replace(listed, why=f"{listed.why}; all background rows for every coalition: {why}")
    return OwnRows.of(listed, design)


def _with_form(
    form: ClosedForm,
    design: Design | DesignName,
    value: Explained,
    max_coalitions: int | None,
    seed: int,
) -> Method:
    """Choose between a closed form and a design."""
    if form.is_only and design not in ("auto", "closed_form"):
        raise not_together("design", form.kind, value=type(value).__name__)
    if design in FORM_NAMES:
        return Closed.of(form, f"as given: {form.describe()}")
    if form.is_only:
        return Closed.of(form, f"auto: {form.describe()}")
    d = len(value.players)
    limit = max_coalitions or max(MAX_TABLE_COALITIONS, 4 * d)
    if design == "auto" and max_coalitions is None and not _lists_all(d, limit):
        why = (
            f"{_too_many(d, limit)}; {form.describe()} (give max_coalitions= to sample coalitions)"
        )
        return Closed.of(form, why)
    return _listed(design, value, limit, max_coalitions, seed, _fallback)


def _listed(
    design: Design | DesignName,
    value: Explained,
    limit: int,
    max_coalitions: int | None,
    seed: int,
    fallback: Fallback,
) -> Listed:
    """Choose the design of a value function."""
    if not isinstance(design, str):
        return Listed(value, _within(design, max_coalitions))
    if design in FORM_NAMES:
        raise InputError(
            f"design {design!r} is a closed form of KernelInterventional, and "
            f"{type(value).__name__} "
            "has none: give 'auto', 'exact', 'kriging', 'kernelshap' or 'permutation'"
        )
    d = len(value.players)
    if design == "exact":
        return Listed(value, _within(designs.exact(d), max_coalitions))
    if design in SAMPLED:
        return Listed(value, sampled(design, d, limit, seed), why=f"{limit:,} coalitions at most")
    if design != "auto":
        raise InputError(unknown_name("design", design, DESIGN_NAMES))
    if _lists_all(d, limit):
        why = f"auto: exact, as all 2^{d} coalitions are at most {limit:,}"
        return Listed(value, designs.exact(d), why=why)
    return fallback(value, limit, seed, _too_many(d, limit))


def _lists_all(n_players: int, limit: int) -> bool:
    """Whether "auto" lists all coalitions of so many players."""
    # `designs.exact` allows 24 players, whatever the limit
    return n_players <= 24 and 2**n_players <= limit


def _too_many(n_players: int, limit: int) -> str:
    return f"auto: 2^{n_players} coalitions are more than {limit:,}"


def _fallback(value: Explained, limit: int, seed: int, why: str) -> Listed:
    """The sampled design that "auto" chooses for tables: see `Fallback`."""
    n_players = len(value.players)
    if limit < LEAST["kriging"](n_players):
        # not kernelshap: its regression would have as many unknowns as coalitions, and was off by up
        # to 59 times as much as one order and its reversal
        design = sampled("permutation", n_players, limit, seed)
        return Listed(value, design, why=f"{why}, too few coalitions for kriging")
    if n_players <= designs.MAX_KRIGED_PLAYERS and limit <= designs.MAX_KRIGED:
        design = designs.kriging(n_players, limit, seed=seed)
        return Listed(value, design, why=f"{why}; kriging makes the most of them")
    design = designs.kernelshap(n_players, limit, seed=seed)
    return Listed(value, design, why=f"{why}, too many players or coalitions for kriging")


def _of_texts(
    design: Design | DesignName, value: OfTexts, max_coalitions: int | None, seed: int
) -> ByLength:
    """Choose the design of texts.

    Raises
    ------
    InputError
        A design that needs the same players in all rows.
    """
    n_players = len(value.players)
    limit = max_coalitions or max(MAX_COALITIONS, 4 * n_players)
    listed = _listed(design, value, limit, max_coalitions, seed, _fallback_of_texts)
    if isinstance(listed.design, Pilot):
        raise not_together("kriging", "texts")
    if isinstance(listed.design, GraphDesign) and not listed.design.graph.is_chain:
        raise InputError(
            f"the design has a graph of {listed.design.n_players} players that is not a chain, and "
            "the graph of a text is the chain of its tokens: leave graph out"
        )
    return ByLength(value, listed.design.with_players(n_players), why=listed.why)


def _fallback_of_texts(value: Explained, limit: int, seed: int, why: str) -> Listed:
    """The sampled design that "auto" chooses for texts: see `Fallback`."""
    design = sampled("kernelshap", len(value.players), limit, seed)
    return Listed(
        value,
        design,
        why=f"{why}; shorter texts take the same number, or all coalitions if they have fewer",
    )


def design_of(value: Explained, design: Any) -> Any:
    """The design unchanged; for texts, a function of the length becomes a design by length.

    An `OfChains` design is called with a first length.
    """
    if isinstance(design, Design | type) or not (callable(design) and is_of_texts(value)):
        return design
    if isinstance(design, OfChains):
        return design(TRIED)
    return DesignByLength(design, TRIED)


def _within(design: Design, limit: int | None) -> Design:
    """Return the design; raise InputError if it needs more coalitions than `limit`."""
    if limit is not None and design.info.n_coalitions > limit:
        takes = f"takes {design.info.n_coalitions:,} coalitions of {design.info.n_players} players"
        raise InputError(
            f"max_coalitions={limit}: this design {takes}, give as many or leave it out"
        )
    return design


def sampled(name: str, d: int, limit: int, seed: int) -> Design:
    """Build the sampled design of this name with at most `limit` coalitions.

    Raises InputError if so few coalitions do not determine the attributions.
    """
    # 2^62 is more than any limit, and still fits a 64-bit integer
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


def is_explained(value: Any) -> bool:
    """Whether this is a value function or an attributor, or has nearly all members of one."""
    if isinstance(value, type) or form_of(value) is not None:
        return True
    return any(is_nearly(value, kind) for kind in ASKED)


def check_kinds(value: Any, design: Any) -> None:
    """Raise InputError unless the arguments are a value function or attributor, and a design."""
    has_form = form_of(value) is not None
    # the message lists what is missing of the protocol that the object is nearest to
    kind = min(ASKED, key=lambda kind: len(lacking(value, kind)))
    if not has_form and not isinstance(value, type):
        refuse_lacking(value, kind, ASKED[kind])
    if isinstance(value, type) or not (has_form or isinstance(value, kind)):
        raise InputError(
            f"explain was given {shown(value)}: give a fitted model, its predict function, or a value "
            "function like dshap.values.Marginal(model.predict, background)"
        )
    refuse_lacking(value.model, Predictor, "predictor")
    if isinstance(design, OfChains):
        raise design.refused(len(value.players))
    if not isinstance(design, str | type):
        refuse_lacking(design, Design, "design")
    if isinstance(design, type) or not isinstance(design, str | Design):
        raise InputError(
            f"design is {shown(design)}: give {', '.join(map(repr, DESIGN_NAMES))} or one of "
            "dshap.designs"
        )


def only_kind(value: Explained) -> str | None:
    """The kind of a value function that leaves no choice of the method; None if there is one."""
    if is_of_texts(value):
        return "texts"
    if isinstance(value, GivenAttributor):
        return "attributor"
    form = form_of(value)
    if form is not None and form.is_only:
        return form.kind
    return None


def check_options(value: Explained, options: RunOptions) -> None:
    """Raise InputError for options that no method of this kind of value function has."""
    kind = only_kind(value)
    if kind is None:
        return
    asked = {
        "interactions": options.interactions,
        "undo_codes": bool(options.undo_codes),
        "codes": options.codes is not None,
        "tol": options.tol,
        "stochastic": options.stochastic,
        "keep_rows": options.keep_rows,
        "coalition_groups": options.coalition_groups not in (None, 1),
        "missing": kind == "texts" and options.missing != "refuse",
    }
    for ask, is_asked in asked.items():
        if is_asked:
            refuse(ask, (kind,), value=type(value).__name__)


def refuse_to_prepare(value: Explained, missing: MissingRule) -> None:
    """Raise an InputError for a value function that learns nothing from data, or not these."""
    kind = only_kind(value) or kind_of_value(value)
    refuse("prepare", (kind,), value=type(value).__name__)
    if missing == "pass" and needs_numbers(value):
        raise not_together("missing", "learned", verb="prepare")
