"""The wording of sentences about reasons: templates by language, and the form of numbers.

It is no part of a fingerprint: no number of a cube depends on it.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dshap.core.errors import InputError, shown, unknown_name

SENTENCES = "sentences"
"""The name of the wording: a table of a job file, and an attribute of a cube."""
HEAD_FIELDS = ("outcome", "output", "prediction", "base_value")
REASON_FIELDS = ("label", "feature", "name", "value", "attribution", "unit", "description")
TEMPLATE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "estimate": HEAD_FIELDS,
    "not_outcome": HEAD_FIELDS,
    "because": ("head", "reasons", *HEAD_FIELDS),
    "but": ("sentence", "reasons", *HEAD_FIELDS),
    "no_reason": ("head", *HEAD_FIELDS),
    "reason": REASON_FIELDS,
    "missing": REASON_FIELDS,
    "flag": REASON_FIELDS,
    "answered": REASON_FIELDS,
    "bare": REASON_FIELDS,
    "raised": ("subject", *REASON_FIELDS),
    "lowered": ("subject", *REASON_FIELDS),
    "raised_together": ("reasons", *HEAD_FIELDS),
    "lowered_together": ("reasons", *HEAD_FIELDS),
    "together": ("subject", *REASON_FIELDS),
    "subject": REASON_FIELDS,
    "subject_missing": REASON_FIELDS,
    "present": ("a", *REASON_FIELDS),
    "absent": ("a", *REASON_FIELDS),
    "answer": REASON_FIELDS,
}
"""Template -> the fields that it may name."""
WORDS: Mapping[str, str] = {
    "yes": "the word for a flag that is set",
    "no": "the word for a flag that is not set",
    "and": "the word before the last of several reasons, with its blanks",
    "unnamed": "the word for an output without a name",
    "decimal_mark": "the mark before the decimals of a number",
    "thousands_mark": "the mark between thousands",
    "percent": "the percent sign, with a blank before it where the language has one",
}
"""Word of a language -> what it is."""
ENGLISH: Mapping[str, str] = {
    "estimate": "{output}: {prediction}",
    "not_outcome": "Not {outcome}",
    "because": "{head} mainly because {reasons}",
    "but": "{sentence}; {reasons}",
    "no_reason": "{head}; no feature changed it",
    "reason": "{feature} is {value} ({attribution})",
    "missing": "{feature} is missing ({attribution})",
    "flag": "there is {value} ({attribution})",
    "answered": "{value} ({attribution})",
    "bare": "{feature} plays a part ({attribution})",
    "raised": "{subject} raised it ({attribution})",
    "lowered": "{subject} lowered it ({attribution})",
    "raised_together": "{reasons} raised it",
    "lowered_together": "{reasons} lowered it",
    "together": "{subject} ({attribution})",
    "subject": "{feature} of {value}",
    "subject_missing": "the missing {name}",
    "present": "{a} {name}",
    "absent": "no {name}",
    "answer": "{name}: {value}",
    "yes": "yes",
    "no": "no",
    "and": " and ",
    "unnamed": "Prediction",
    "decimal_mark": ".",
    "thousands_mark": ",",
    "percent": "%",
}
GERMAN: Mapping[str, str] = {
    "estimate": "{output}: {prediction}",
    "not_outcome": "Nicht {outcome}",
    "because": "{head}, vor allem wegen: {reasons}",
    "but": "{sentence}; {reasons}",
    "no_reason": "{head}; kein Merkmal hat daran etwas geändert",
    "reason": "{feature} {value} ({attribution})",
    "missing": "{feature} fehlt ({attribution})",
    "flag": "{value} ({attribution})",
    "answered": "{value} ({attribution})",
    "bare": "{feature} ({attribution})",
    "raised": "{subject} wirkte erhöhend ({attribution})",
    "lowered": "{subject} wirkte senkend ({attribution})",
    "raised_together": "{reasons} wirkten erhöhend",
    "lowered_together": "{reasons} wirkten senkend",
    "together": "{subject} ({attribution})",
    "subject": "{feature} {value}",
    "subject_missing": "fehlende Angabe {name}",
    "present": "{name}: ja",
    "absent": "{name}: nein",
    "answer": "{name}: {value}",
    "yes": "ja",
    "no": "nein",
    "and": " und ",
    "unnamed": "Vorhersage",
    "decimal_mark": ",",
    "thousands_mark": ".",
    "percent": "\N{NO-BREAK SPACE}%",
}
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "de": GERMAN}
"""Language -> its templates and words."""
ARTICLES = ("the ", "a ", "an ")
VOWELS = frozenset("aeiou")
DEFAULT_K = 3
"""The number of features that a sentence names."""


@dataclass(frozen=True)
class Wording:
    """The language, the templates and the choices of the sentences about reasons."""

    language: str = "en"
    words: Mapping[str, str] = field(default_factory=lambda: ENGLISH)
    """Template or word -> its text, of all that there are."""
    k: int = DEFAULT_K
    """The most features that a sentence names: those with the largest |attribution|."""
    threshold: float | None = None
    """The prediction from which a class counts as predicted; None: 0.5 of a probability, else 0."""

    @classmethod
    def of(cls, given: Any, place: str = SENTENCES) -> Wording:
        """The wording in a mapping: `language`, `k`, `threshold`, and templates and words by name.

        Messages begin with `place`.

        Raises
        ------
        InputError
            An unknown language or key, a template that names an unknown field, or a value of
            another type.
        """
        match given:
            case None:
                return cls()
            case Wording():
                return given
            case {**options}:
                return _wording(options, place)
        raise InputError(f'{place} = {shown(given)}: give a mapping, like {{"language": "de"}}')

    def to_dict(self) -> dict[str, Any]:
        """Plain values of all that differs from the language's own, for `Wording.of`."""
        own = LANGUAGES[self.language]
        found: dict[str, Any] = {
            name: text for name, text in self.words.items() if text != own[name]
        }
        if self.language != "en":
            found["language"] = self.language
        if self.k != DEFAULT_K:
            found["k"] = self.k
        if self.threshold is not None:
            found["threshold"] = self.threshold
        return found

    def with_k(self, k: int) -> Wording:
        """Give the wording another number of features."""
        return replace(self, k=k)

    def filled(self, template: str, fields: Mapping[str, str]) -> str:
        """A template with its fields filled in."""
        return self.words[template].format_map(fields)

    def number(self, text: str) -> str:
        """A number as text in the form of the language: a real minus sign, its marks."""
        marks = {
            ",": self.words["thousands_mark"],
            ".": self.words["decimal_mark"],
            "-": "\N{MINUS SIGN}",
            "%": self.words["percent"],
        }
        return "".join(marks.get(each, each) for each in text)

    def listed(self, parts: list[str]) -> str:
        """Several parts of a sentence with commas, and a word before the last."""
        if len(parts) < 2:
            return "".join(parts)
        return f"{', '.join(parts[:-1])}{self.words['and']}{parts[-1]}"

    def inside(self, label: str) -> str:
        """A label as a sentence has it after its first word: without a capital in English."""
        # an abbreviation such as "GDP" keeps its capital
        if self.language == "en" and label[1:2].islower():
            return f"{label[:1].lower()}{label[1:]}"
        return label

    def with_article(self, name: str) -> str:
        """A name with the article of the language before it; German has no article for all nouns."""
        if self.language == "en" and not name.lower().startswith(ARTICLES):
            return f"the {name}"
        return name

    def indefinite(self, name: str) -> str:
        """The indefinite article before a name."""
        if name[:1].lower() in VOWELS:
            return "an"
        return "a"


def _wording(options: Mapping[Any, Any], place: str) -> Wording:
    """The wording in a mapping of options."""
    choices = ("language", "k", "threshold")
    known = [*choices, *ENGLISH]
    for name in options:
        if name not in known:
            raise InputError(f"{place} {unknown_name('key', str(name), known)}")
    language = str(options.get("language", "en"))
    if language not in LANGUAGES:
        raise InputError(f"{place} {unknown_name('language', language, LANGUAGES)}")
    own = {name: text for name, text in options.items() if name not in choices}
    for name, text in own.items():
        _check_text(name, text, place)
    words = {**LANGUAGES[language], **own}
    k = _number(options.get("k", DEFAULT_K), f"{place} k", "a whole number of at least 1")
    if k != int(k) or k < 1:
        raise InputError(f"{place} k = {shown(k)}: give a whole number of at least 1")
    threshold = options.get("threshold")
    if threshold is not None:
        threshold = float(_number(threshold, f"{place} threshold", "a number"))
    return Wording(language, words, int(k), threshold)


def _number(given: Any, place: str, asked: str) -> float:
    match given:
        case bool():
            pass
        case int() | float():
            return given
    raise InputError(f"{place} = {shown(given)}: give {asked}")


def _check_text(name: str, text: Any, place: str) -> None:
    """Raise if a template is no text, cannot be filled in, or names a field that there is not."""
    match text:
        case str():
            pass
        case _:
            raise InputError(f"{place} {name} = {shown(text)}: give a text")
    if name not in TEMPLATE_FIELDS:
        return
    allowed = TEMPLATE_FIELDS[name]
    try:
        parts = [*string.Formatter().parse(text)]
    except ValueError as error:
        raise InputError(
            f"{place} {name} = {text!r}: {error}; name a field in braces, like {{{allowed[0]}}}, and "
            "write a brace itself twice"
        ) from None
    for _, each, form, _ in parts:
        if each is not None and each not in allowed:
            raise InputError(f"{place} {name}: {unknown_name('field', each, allowed)}")
        if form:
            raise InputError(
                f"{place} {name} = {text!r}: {{{each}:{form}}} has a format, and fields are texts: "
                "give the format of a column in the dictionary of columns"
            )
