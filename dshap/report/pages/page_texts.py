"""The names of features, values and outputs on a page; no two features share a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dshap.analysis.column_texts import ColumnTexts, texts_of
from dshap.analysis.numbers_as_text import MINUS
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.scales import class_in
from dshap.report.labels import labels_of

NAME = 40
"""The most characters of a name in a figure, which wraps it."""
PATH = 120
"""The most characters of the path or the name of a table."""
SIGN = re.compile(r"^-(?=[\d.])")
"""The sign of a number that is a whole text."""


@dataclass(frozen=True)
class PageTexts:
    """Names, units and formats for the features of a page."""

    columns: ColumnTexts
    features: tuple[str, ...]
    names: tuple[str, ...]
    """The name of each feature, no two alike."""

    @classmethod
    def of(cls, cube: Place, features: Sequence[str]) -> PageTexts:
        """The words for these features, from the dictionary of columns of a cube."""
        return cls.named(texts_of(cube), features)

    @classmethod
    def named(cls, columns: ColumnTexts, features: Sequence[str]) -> PageTexts:
        """The words for these features, in a dictionary of columns."""
        given = {name: columns.dictionary.label_of(name) for name in features}
        found = labels_of(features, NAME, lines=1, given=given)
        return cls(columns, tuple(features), tuple(found))

    def name(self, feature: str) -> str:
        """The name of a feature; a feature that is not on the page keeps its column name."""
        if feature in self.features:
            return self.names[self.features.index(feature)]
        return label(feature, NAME)

    def quoted(self, feature: str) -> str:
        """The name of a feature in a sentence."""
        return f"“{self.name(feature)}”"

    def value(self, feature: str, value: Any, with_unit: bool = True) -> str:
        """A value of a column as people read it; a number that is rounded to 0 has no sign."""
        text = self.columns.value_text(feature, value, with_unit=with_unit)
        if SIGN.match(text) and not re.search("[1-9]", text):
            return text[1:]
        return SIGN.sub(MINUS, text)

    def axis(self, feature: str) -> str:
        """The name of a feature with the unit of its values."""
        unit = self.columns.unit_of(feature)
        return self.name(feature) + f" ({unit})" * bool(unit)

    def has_named_values(self, feature: str) -> bool:
        """Whether the values of a column have names, so that their order has no meaning."""
        return bool(self.columns.entry(feature).values)


def class_of(output: str) -> str:
    """The class of an output such as "log-odds of yes"; the name of an output of no class."""
    return label(class_in(output), NAME)


def row_address(key: Iterable[str]) -> str:
    """The address of a row on a page, such as "#row=1234567"; columns of a key have commas between."""
    return f"#row={','.join(quote(part, safe='') for part in key)}"
