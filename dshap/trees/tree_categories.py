"""The categories that an XGBoost booster stores, read from its JSON and checked.

The JSON of a booster contains all names of a column as one run of bytes, with the offset of each.
XGBoost 3.2 and 3.3 count characters in place of bytes: with "Köln" among the names, the last bytes
of the run are lost and offsets fall inside of names.  Such a list is refused there.  XGBoost 3.4
stores it whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from dshap.core.errors import InputError

STORED = '"cats":{'
"""The text before the categories in the JSON of a booster; the last such text counts."""
WHOLE_FROM = (3, 4)
"""The version of XGBoost from which names with letters beyond ASCII are stored whole."""
CHECKED_ROWS = 4_096
"""The most rows in one call of the check; it bounds memory for long lists."""


def kept_categories(booster: Any) -> dict[int, tuple[Any, ...]]:
    """Column -> the categories that a booster stores, from XGBoost 3.1 on.

    Raises
    ------
    InputError
        The names are cut, or the booster predicts otherwise for them than for their codes.
    """
    text = bytes(booster.save_raw("json")).decode()
    start = text.rfind(STORED)
    if start < 0:
        return {}
    stored, _ = json.JSONDecoder().raw_decode(text, start + len(STORED) - 1)
    kept = {j: unpacked(encoded) for j, encoded in enumerate(stored["enc"]) if encoded["values"]}
    marked = {j for j, kind in enumerate(booster.feature_types) if kind == "c"}
    # a column of codes without names has no values that a data frame could hold
    if kept and marked <= kept.keys():
        _check(booster, kept)
    return kept


def unpacked(encoded: Mapping[str, Any]) -> tuple[Any, ...]:
    """The categories of one column: whole numbers, or text as bytes with offsets."""
    if "offsets" not in encoded:
        return tuple(encoded["values"])
    content = np.array(encoded["values"]).astype(np.uint8).tobytes()
    if not content.isascii() and _cuts_names():
        raise _unread(
            "XGBoost before 3.4 cuts names with letters such as ö: fit it again with a later "
            "version"
        )
    return tuple(content[i:j].decode() for i, j in pairwise(encoded["offsets"]))


def _cuts_names() -> bool:
    """Whether the installed XGBoost counts characters in place of bytes."""
    import xgboost

    return tuple(map(int, xgboost.__version__.split(".")[:2])) < WHOLE_FROM


def _check(booster: Any, kept: Mapping[int, tuple[Any, ...]]) -> None:
    """Raise InputError unless each category predicts as its code."""
    import xgboost

    for codes, frame in _rows(booster, kept):
        by_code = xgboost.DMatrix(
            codes,
            feature_names=booster.feature_names,
            feature_types=booster.feature_types,
            enable_categorical=True,
            nthread=1,
        )
        try:
            by_name = xgboost.DMatrix(frame, enable_categorical=True, nthread=1)
            is_alike = np.array_equal(
                booster.predict(by_code, output_margin=True),
                booster.predict(by_name, output_margin=True),
            )
        except (ValueError, TypeError) as error:
            raise _unread(next(iter(str(error).splitlines()), "")) from error
        if not is_alike:
            raise _unread("they predict otherwise than their codes")


def _rows(
    booster: Any, kept: Mapping[int, tuple[Any, ...]]
) -> Iterator[tuple[np.ndarray[Any, Any], Any]]:
    """Rows with every category, as codes and as a data frame; other columns are random."""
    import pandas as pd

    names = booster.feature_names
    n_rows = max(map(len, kept.values()))
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, CHECKED_ROWS):
        at = np.arange(start, min(start + CHECKED_ROWS, n_rows))
        codes = rng.normal(size=(len(at), len(names)))
        columns: dict[str, Any] = {name: codes[:, j] for j, name in enumerate(names)}
        for j, listed in kept.items():
            codes[:, j] = at % len(listed)
            columns[names[j]] = pd.Categorical.from_codes(at % len(listed), list(listed))
        yield codes, pd.DataFrame(columns)


def _unread(reason: str) -> InputError:
    """The error for categories that do not correspond to their codes."""
    return InputError(
        f"the categories of this XGBoost model cannot be read ({reason}): give categories as "
        "numbers, or use Marginal(model.predict, background)"
    )
