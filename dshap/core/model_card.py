"""The card of a model: its purpose, its owner, and the uses that it must not have.

It is no part of a fingerprint: no number of a cube depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from dshap.core.errors import InputError, shown, unknown_name

CARD = "card"
"""The name of the card: a table of a job file, an option, and an attribute of a cube."""
CARD_FIELDS: Mapping[str, str] = {
    "purpose": "Purpose",
    "owner": "Owner",
    "contact": "Contact",
    "audience": "Audience",
    "model": "Model",
    "version": "Version",
    "target": "Target",
    "source": "Source of the data",
    "period": "Period of the data",
    "population": "Population",
    "training": "Training",
    "evaluation": "Evaluation",
    "intended_use": "Intended use",
    "out_of_scope": "Out of scope",
    "limitations": "Limitations",
    "risks": "Risks",
    "fairness": "Fairness",
    "oversight": "Human oversight",
    "approved_by": "Approved by",
    "approved_on": "Approved on",
    "review": "Next review",
    "references": "References",
    "license": "License",
}
"""Field of a card -> its heading, in the order in which a card is shown."""
EXAMPLE_OF_CARD = 'card={"purpose": "Renewal risk of policies", "owner": "Pricing team"}'


def checked_card(given: Any, place: str = CARD) -> dict[str, str]:
    """The fields of a card as texts, in the order of `CARD_FIELDS`; None is a card without fields.

    Messages begin with `place`.

    Raises
    ------
    InputError
        No mapping, an unknown field, or a value that is no text, number, date, or list of texts.
    """
    match given:
        case None:
            return {}
        case Mapping():
            for name in given:
                if name not in CARD_FIELDS:
                    raise InputError(f"{place} {unknown_name('field', str(name), CARD_FIELDS)}")
            texts = {name: _text(name, value, place) for name, value in given.items()}
            return {name: texts[name] for name in CARD_FIELDS if texts.get(name)}
    raise InputError(f"{place} = {shown(given)}: give a mapping of fields, like {EXAMPLE_OF_CARD}")


def card_in(attributes: Mapping[str, Any]) -> dict[str, str]:
    """The card in the attributes of a cube; empty if they have none."""
    try:
        return card_of_note(json.loads(attributes[CARD]))
    except (KeyError, TypeError, ValueError):
        return {}


def card_of_note(note: Any) -> dict[str, str]:
    """The card in the note of a cube; empty if there is none that this version reads."""
    try:
        return checked_card(note)
    except InputError:
        return {}


def _text(name: str, value: Any, place: str) -> str:
    match value:
        case bool():
            pass
        case str():
            return value.strip()
        case int() | float() | date():
            return str(value)
        case [*several]:
            return ", ".join(_text(name, each, place) for each in several)
    raise InputError(
        f"{place} {name} = {shown(value)}: give a text, a number, a date, or a list of these"
    )
