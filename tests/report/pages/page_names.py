"""Names of features for tests: those of the table, without a dictionary of columns."""

from __future__ import annotations

from collections.abc import Sequence

from dshap.analysis.column_texts import ColumnTexts
from dshap.core.column_dictionary import ColumnDictionary
from dshap.report.pages.page_texts import PageTexts


def plain_texts(features: Sequence[str], **entries) -> PageTexts:
    """The words for these features; `entries` are those of the dictionary of columns."""
    dictionary = ColumnDictionary.of(entries)
    names = tuple(dictionary.label_of(name) for name in features)
    return PageTexts(ColumnTexts(dictionary), tuple(features), names)
