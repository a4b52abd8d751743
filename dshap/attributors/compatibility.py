"""The one table of combinations: options against the methods that explain rows.

A cell contains the sentence of the error; an absent cell is a combination that works.  The table
gives the error messages, and the section "What goes with what" in docs/designs.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from dshap.core.errors import InputError

OTHER = "or explain Marginal(predict, background), which takes any design"

ASKS: Mapping[str, str] = {
    "design": '`design="exact"`',
    "kriging": '`design="kriging"`',
    "tol": "`tol`",
    "interactions": "`interactions`",
    "codes": "`codes`",
    "undo_codes": "`undo_codes`",
    "stochastic": "`stochastic`",
    "quality": "`quality`, `mse_v`",
    "prepare": "`prepare`",
    "missing": '`missing="pass"`',
    "keep_rows": "`keep_rows`",
    "coalition_groups": "`coalition_groups=2`",
}
"""An option, or a function that a user calls -> its heading in the table of the docs."""

KINDS: Mapping[str, str] = {
    "exact": "design `exact`",
    "kriging": "design `kriging`",
    "kernelshap": "design `kernelshap`",
    "permutation": "design `permutation`",
    "graph": "a design on a graph",
    "own": "a design of your own",
    "black box": "`Marginal`, its background in memory",
    "streamed": "`Marginal`, its background a table",
    "learned": "a value function that learns from data",
    "quadrature": "the closed form of `KernelInterventional`",
    "closed form": "the closed form `LinearGaussian`",
    "trees": "the closed form `Trees`",
    "attributor": "an attributor of your own",
    "texts": "`Tokens`",
    "prepared": "prepared states",
}
"""Kind of method, design, or value function -> its name in the table of the docs."""

_NO_DESIGN = (
    f"{{value}} is a closed form, which uses no coalitions: leave design at 'auto', {OTHER}"
)
_GIVEN_NO_DESIGN = "{value} is an attributor and takes no design: leave design at 'auto'"
_OTHER_DESIGN = (
    "the states in {path} were prepared for {n_coalitions} coalitions of {n_players} players by "
    'another design: leave design at "auto", or prepare them for this one'
)
_NO_LIST = (
    "{ask} belongs to designs that list coalitions, and {value} is a closed form, which is "
    f"exact without coalitions: leave {{ask}} out, {OTHER}"
)
_GIVEN_NO_LIST = (
    "{ask} belongs to designs that list coalitions, and {value} is an attributor: leave {ask} out, "
    f"{OTHER}"
)
_NO_ROUNDS = (
    "tol grows a design until its standard errors are small, and the design is {called}: give "
    "design='kriging' or 'kernelshap'"
)
_NO_PAIRS = (
    "interactions need design='exact' or 'kriging', and the design is {called}: give one "
    "of these, kriging with max_coalitions of {enough} or more"
)
_NO_VALUES = (
    "undo_codes needs the value of one more coalition for each code, and {value} computes "
    f"attributions without coalitions: leave undo_codes out, {OTHER}"
)
_NOISE = (
    "stochastic=True is for Marginal, with a link that does not need the predicted class "
    "(LogOdds('name') names one): not for this {value}"
)
_NO_MEAN = (
    "MSE_v is a mean over coalitions, and {kind} has none: give design='exact', or one of "
    "dshap.designs.kernelshap; or leave quality out"
)
_NO_STATES = "{value} {why}: there is nothing to prepare; give it to dshap.explain"
_LEARNS_NUMBERS = (
    'missing = "pass" is for black boxes: {verb} a kernel model with "refuse" or "skip"'
)


def _of_texts(ask: str, why: str) -> str:
    return f"{ask} {why}: leave {ask} out for {{value}}"


TABLE: Mapping[str, Mapping[str, str]] = {
    "design": {
        "closed form": _NO_DESIGN,
        "trees": _NO_DESIGN,
        "attributor": _GIVEN_NO_DESIGN,
        "prepared": _OTHER_DESIGN,
    },
    "kriging": {
        "closed form": _NO_DESIGN,
        "trees": _NO_DESIGN,
        "attributor": _GIVEN_NO_DESIGN,
        "texts": "kriging chooses from a pilot of rows that have the same players, and each text "
        "has different ones: give design='kernelshap' or 'permutation', or one of dshap.designs",
        "prepared": _OTHER_DESIGN,
    },
    "tol": {
        "permutation": _NO_ROUNDS,
        "graph": _NO_ROUNDS,
        "own": _NO_ROUNDS,
        "quadrature": _NO_ROUNDS,
        "closed form": _NO_LIST,
        "trees": _NO_LIST,
        "attributor": _GIVEN_NO_LIST,
        "texts": _of_texts(
            "tol", "lets one list of coalitions grow, and texts have a list for each length"
        ),
        "prepared": "the states in {path} were prepared for one list of coalitions, and tol adds "
        "coalitions to it: leave tol out, or explain the value function without dshap.prepare",
    },
    "interactions": {
        "kernelshap": _NO_PAIRS,
        "permutation": _NO_PAIRS,
        "graph": _NO_PAIRS,
        "own": _NO_PAIRS,
        "quadrature": _NO_PAIRS,
        "closed form": _NO_LIST,
        "attributor": _GIVEN_NO_LIST,
        "texts": _of_texts(
            "interactions", "are of pairs of players, and each text has different players"
        ),
    },
    "codes": {
        "texts": _of_texts("codes", "group players, and each text has different players"),
    },
    "undo_codes": {
        "attributor": _NO_VALUES,
        "texts": _of_texts("undo_codes", "takes players away, and each text has different players"),
        "prepared": "the states in {path} were prepared for a list of coalitions, and undo_codes "
        "needs one more for each code: leave undo_codes out, or explain the value function "
        "without dshap.prepare",
    },
    "stochastic": {
        **dict.fromkeys(("learned", "quadrature", "closed form", "trees", "attributor"), _NOISE),
        "texts": _of_texts("stochastic", "is for Marginal"),
        "prepared": "the states in {path} contain one prediction for each row, and stochastic=True "
        "needs several: explain the value function without dshap.prepare",
    },
    "quality": {
        "graph": "MSE_v is a mean over the coalitions of each size, and this design lists only "
        "coalitions of neighbours: give design='exact', or one of dshap.designs.kernelshap; or leave "
        "quality out",
        "streamed": "MSE_v would read the whole background from its table again for every row: give a "
        "background in memory, or leave quality out",
        **dict.fromkeys(
            ("quadrature", "closed form", "trees"), _NO_MEAN.replace("{kind}", "a closed form")
        ),
        "attributor": _NO_MEAN.replace("{kind}", "an attributor"),
        "texts": "MSE_v is a mean over one list of coalitions, and texts have a list for each "
        "length: leave quality out",
    },
    "prepare": {
        "streamed": _NO_STATES.replace("{why}", "reads its data for every row that is explained"),
        "attributor": _NO_STATES.replace("{why}", "is an attributor"),
        "texts": _NO_STATES.replace("{why}", "learns from no rows"),
    },
    "missing": {
        **dict.fromkeys(("learned", "quadrature", "closed form"), _LEARNS_NUMBERS),
        "texts": _of_texts("missing", "is about missing values, and a text has none"),
    },
    "keep_rows": {
        "texts": _of_texts("keep_rows", "keeps columns, and the cube of texts has their tokens"),
    },
    "coalition_groups": {
        "texts": _of_texts(
            "coalition_groups",
            "cuts one list of coalitions, and texts have a list for each length",
        ),
    },
}
"""An entry of `ASKS` -> kind -> the sentence that refuses it, with the names of facts in braces."""


UNASKED = frozenset(
    [
        *((ask, kind) for ask in ("design", "kriging") for kind in list(KINDS)[:6]),
        ("prepare", "prepared"),
    ]
)
"""(what is asked for, kind) that no call can ask together, such as two designs."""


def refuse(ask: str, kinds: Iterable[str], **facts: Any) -> None:
    """Raise the InputError of the table if one of these kinds does not go with what is asked."""
    for kind in kinds:
        if kind in TABLE[ask]:
            raise not_together(ask, kind, **facts)


def not_together(ask: str, kind: str, **facts: Any) -> InputError:
    """The error of the table for this kind; a KeyError if they go together by the table."""
    return InputError(TABLE[ask][kind].format(ask=ask, **facts))


def printed() -> str:
    """The table as docs/designs.md shows it: a number in a cell refers to a sentence below."""
    numbers: dict[str, int] = {}
    lines = [f"| | {' | '.join(ASKS.values())} |", f"|---{'|---' * len(ASKS)}|"]
    for kind, title in KINDS.items():
        cells = [_cell(ask, kind, numbers) for ask in ASKS]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    notes = [f"{number}. {sentence}" for sentence, number in numbers.items()]
    return "\n".join([*lines, "", *notes])


def _cell(ask: str, kind: str, numbers: dict[str, int]) -> str:
    """The text of a cell: "yes", or the number of the sentence, whose facts are dots."""
    if (ask, kind) in UNASKED:
        return ""
    sentence = TABLE[ask].get(kind)
    if sentence is None:
        return "yes"
    said = sentence.format_map(defaultdict(lambda: "…", ask=ask, verb="explain"))
    return f"no ({numbers.setdefault(said, len(numbers) + 1)})"
