"""The card of a model."""

from __future__ import annotations

import json
from datetime import date

import pytest

from dshap.core.errors import InputError
from dshap.core.model_card import CARD, CARD_FIELDS, card_in, checked_card


def test_fields_are_texts_in_the_order_of_a_card():
    given = {
        "owner": ["Ann", "Ümit"],
        "review": date(2027, 1, 1),
        "version": 3,
        "purpose": " Risk ",
    }
    card = checked_card(given)
    assert card == {"purpose": "Risk", "owner": "Ann, Ümit", "version": "3", "review": "2027-01-01"}
    assert list(card) == [name for name in CARD_FIELDS if name in card]
    assert card_in({CARD: json.dumps(card, sort_keys=True)}) == card
    assert (
        checked_card(None)
        == {}
        == card_in({})
        == card_in({CARD: "no JSON"})
        == card_in({CARD: "3"})
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"purpos": "x"}, r"card unknown field 'purpos'; did you mean 'purpose'\?"),
        ({"purpose": {"a": 1}}, "card purpose = .*: give a text, a number, a date"),
        ({"purpose": True}, "card purpose = True: give a text"),
        (3, "card = 3: give a mapping of fields"),
    ],
)
def test_a_bad_card_is_one_clear_line(given, message):
    with pytest.raises(InputError, match=message):
        checked_card(given)
