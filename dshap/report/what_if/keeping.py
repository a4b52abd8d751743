"""The record of a what-if, stored next to the states of a cube, from which a page reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dshap.attributors.method import Method
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.records import Record, State
from dshap.cube.reference_copy import states_of
from dshap.report.what_if.kinds import kind_of_method
from dshap.report.what_if.model_record import LearnedParts, NoWhatIf, player_of_columns
from dshap.run.explanation import Explanation
from dshap.run.session import Session

WHAT_IF = "what-if"
"""The name of the record among the states."""
FORMAT = 1
"""The version of the record."""


def keep_what_if(explanation: Explanation, session: Session) -> str:
    """Store the model of a finished explanation, for the what-if of its page.

    Returns
    -------
    str
        The reason if the model is not computed on a page, which is stored too; else empty.
    """
    content = _content_of(explanation, session)
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    explanation.keep_state(WHAT_IF, Record({"content": np.frombuffer(text, np.uint8)}))
    return str(content.get("why_not", ""))


def stored_what_if(cube: Place) -> dict[str, Any] | None:
    """The record of a cube: a model, or the reason why there is none; None if none was stored.

    Raises
    ------
    DamagedError
        The record differs from its written content.
    """
    states = states_of(cube)
    if not states.has(WHAT_IF):
        return None
    content = json.loads(states.get(WHAT_IF, Record)["content"].tobytes())
    if content.get("format") != FORMAT:
        return {"why_not": "another version of dshap stored the model: explain again with what_if"}
    return dict(content)


def has_what_if(cube: Place) -> bool:
    """Whether a cube has a record of this version."""
    content = stored_what_if(cube)
    return content is not None and content.get("format") == FORMAT


def what_if_lines(cubes: Mapping[str, Place]) -> list[str]:
    """A line for each explanation whose model is not on the page, with the reason."""
    found = {name: stored_what_if(place) for name, place in cubes.items()}
    return [
        f"no what-if of {label(name)}: {reason}"
        for name, content in found.items()
        if (reason := reason_of_none(content))
    ]


def reason_of_none(content: Mapping[str, Any] | None) -> str:
    """The reason why a record contains no model; empty if it contains one."""
    if content is None:
        return "its model was not stored"
    return str(content.get("why_not", ""))


def why_no_what_if(method: Method, n_data: int) -> str:
    """The reason why a method is not computed on a page, as far as a plan knows it; else empty.

    `n_data` is the number of rows that it learns from.
    """
    try:
        kind_of_method(method, n_data)
    except NoWhatIf as reason:
        return str(reason)
    return ""


def _content_of(explanation: Explanation, session: Session) -> dict[str, Any]:
    try:
        method = explanation.work.method
        kind = kind_of_method(method, explanation.plan.data_rows)
        learned = _learned_parts(explanation, session)
        arrays = kind.arrays_of(learned)
    except NoWhatIf as reason:
        return {"format": FORMAT, "why_not": str(reason)}
    value = learned.value
    model = value.model
    player = player_of_columns(value)
    return {
        "format": FORMAT,
        "kind": kind.name,
        "columns": list(model.column_names),
        "categories": {name: np.array(kept).tolist() for name, kept in model.categories.items()},
        "players": list(value.players.names),
        "player": player,
        "reads": [place for place in kind.reads(value) if player[place] >= 0],
        "facts": kind.facts_of(value),
        "arrays": arrays,
    }


def _learned_parts(explanation: Explanation, session: Session) -> LearnedParts:
    """The value function with its states, from the attributor of the explanation."""
    attributor: Any = explanation.attributor(session)
    data = explanation.work.states.data
    # a closed form has its value function in `form`, a method with coalitions in `game`
    form = getattr(attributor, "form", None)
    if form is not None:
        return LearnedParts(form.value, attributor.base_value(), (attributor.state(),), data)
    game = attributor.game
    states = tuple(game.store.get(name, State) for name in game.names)
    return LearnedParts(game.value, game.base_value(), states, data)
