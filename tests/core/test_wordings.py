"""The wording of sentences: every language has every template, and templates are checked."""

from __future__ import annotations

import string

import pytest

from dshap.core.errors import InputError
from dshap.core.wordings import LANGUAGES, TEMPLATE_FIELDS, WORDS, Wording


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_template_and_word(language):
    words = LANGUAGES[language]
    assert words.keys() == TEMPLATE_FIELDS.keys() | WORDS.keys()
    for name, allowed in TEMPLATE_FIELDS.items():
        named = [
            each for _, each, _, _ in string.Formatter().parse(words[name]) if each is not None
        ]
        assert set(named) <= set(allowed), name
    assert Wording.of({"language": language, **words}) == Wording.of({"language": language})


def test_a_wording_comes_back_from_plain_values():
    given = {
        "language": "de",
        "k": 2,
        "threshold": 0.2,
        "reason": "{label} war {value}",
        "yes": "Ja",
    }
    wording = Wording.of(given)
    assert wording.to_dict() == given
    assert Wording.of(wording.to_dict()) == wording == Wording.of(wording)
    assert Wording.of(None).to_dict() == {} == Wording.of({}).to_dict()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"reason": "{lable}"},
            r"reason: unknown field 'lable'; did you mean 'label'\? Allowed: attr",
        ),
        ({"because": "{reason}"}, "because: unknown field 'reason'; did you mean 'reasons'"),
        ({"reason": "{label.__class__}"}, "unknown field 'label.__class__'"),
        ({"reason": "{}"}, "unknown field ''"),
        ({"reason": "{label"}, "reason = '{label': .*; name a field in braces, like {label}"),
        ({"reason": "{label:>9}"}, "{label:>9} has a format, and fields are texts"),
        ({"reason": 3}, "reason = 3: give a text"),
        ({"yes": True}, "yes = True: give a text"),
        ({"reson": "x"}, "unknown key 'reson'; did you mean 'reason'"),
        ({"language": "fr"}, "unknown language 'fr'. Allowed: de, en"),
        ({"language": ["de"]}, "unknown language"),
        ({"k": 0}, "k = 0: give a whole number of at least 1"),
        ({"k": 1.5}, "k = 1.5: give a whole number"),
        ({"threshold": "x"}, "threshold = 'x': give a number"),
        ("de", "sentences = 'de': give a mapping"),
    ],
)
def test_a_bad_wording_is_one_clear_line(given, message):
    with pytest.raises(InputError, match=message) as caught:
        Wording.of(given)
    assert "\n" not in str(caught.value)


def test_numbers_by_language():
    english = Wording.of({})
    german = Wording.of({"language": "de"})
    assert english.number("-1,234.5") == "−1,234.5"
    assert german.number("-1,234.5") == "−1.234,5"
    assert german.number("81%") == "81\N{NO-BREAK SPACE}%"


def test_lists_and_articles():
    english = Wording.of({})
    assert english.listed([]) == ""
    assert english.listed(["a"]) == "a"
    assert english.listed(["a", "b", "c"]) == "a, b and c"
    assert Wording.of({"language": "de"}).listed(["a", "b"]) == "a und b"
    assert [english.inside(name) for name in ("Debt", "GDP", "x", "")] == ["debt", "GDP", "x", ""]
    assert Wording.of({"language": "de"}).inside("Alter") == "Alter"
    assert english.with_article("age") == "the age"
    assert english.with_article("the age") == "the age"
    assert [english.indefinite(name) for name in ("owner", "guarantor")] == ["an", "a"]
