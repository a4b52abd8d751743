"""The reasons of one row as a sentence: what the model predicts, what led to it, what spoke against it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_texts import ColumnTexts, is_missing, texts_of
from dshap.analysis.column_values import columns_of
from dshap.analysis.measures import scale_of_cube, units_of_cube
from dshap.analysis.numbers_as_text import number
from dshap.core.errors import InputError, unknown_name
from dshap.core.records import FloatArray
from dshap.core.scales import LOG_ODDS, MARGIN, PROBABILITY, SCORE
from dshap.core.wordings import SENTENCES, Wording
from dshap.cube.arrays import RUN
from dshap.cube.blocks import CubeArrays, classes_in, joined_columns
from dshap.cube.datasets import as_cube, names_along, row_position
from dshap.cube.described import wording_in, wording_of_note
from dshap.cube.metadata import known_facts
from dshap.cube.notes import read_notes

CLASS_SCALES = frozenset((PROBABILITY, LOG_ODDS, SCORE, MARGIN))
"""The scales of outputs that are classes: a sentence states the decision, not the number."""
UNNAMED = "output"
"""The name of the output of a function that names none."""
FLAG_KEYS = ({"true", "false"}, {"0", "1"})
"""The values of a column whose texts are complete by themselves, such as "a guarantor"."""
NO_REASON = 1e-12
"""An attribution up to this part of the row's largest number is 0 but for rounding: sums over all
coalitions leave 1e-15 of the prediction for a column that the model ignores."""


@dataclass(frozen=True)
class RowNumbers:
    """The numbers of one row for one output."""

    attributions: FloatArray
    """(d,)"""
    prediction: float
    base_value: float
    values: Mapping[str, Any]
    """Column -> its value, of the columns that are known."""
    is_predicted: bool | None = None
    """Whether the output is the class that is predicted; None if its own prediction decides."""


@dataclass(frozen=True, eq=False)
class SentenceWriter:
    """The writer of sentences about the rows of one cube."""

    texts: ColumnTexts
    wording: Wording
    features: Sequence[str]
    scale: str = ""
    units: str = "1"
    player_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group of columns -> its columns."""

    @property
    def is_of_classes(self) -> bool:
        """Whether the outputs are classes, so that a sentence states a decision."""
        return self.scale in CLASS_SCALES

    @cached_property
    def threshold(self) -> float:
        """The prediction from which a single class counts as predicted."""
        if self.wording.threshold is not None:
            return self.wording.threshold
        if self.scale == PROBABILITY:
            return 0.5
        return 0.0

    def sentence(self, row: RowNumbers, output: str) -> str:
        """The sentence about one row and output; empty if the row has no attributions.

        It names the features with the largest |attribution|, at most `wording.k`: first those that
        led to the outcome, then those that spoke against it.
        """
        if not np.isfinite(row.attributions).all():
            return ""
        is_outcome = self._is_outcome(row)
        fields = self._head_fields(row, output, is_outcome)
        head = fields["outcome"]
        if not self.is_of_classes:
            head = self.wording.filled("estimate", fields)
        direction = 2.0 * is_outcome - 1.0
        return _capitalised(self._whole(row, head, fields, direction))

    def _whole(
        self, row: RowNumbers, head: str, fields: Mapping[str, str], direction: float
    ) -> str:
        phi = _without_rounding(row)
        order = np.argsort(-np.abs(phi), kind="stable")[: self.wording.k]
        chosen = [int(j) for j in order if phi[j]]
        if not chosen:
            return self.wording.filled("no_reason", {**fields, "head": head})
        decimals = _decimals(phi[chosen[0]])
        parts = {j: self._reason_fields(row, j, phi[j], decimals) for j in chosen}
        reasons = [self._reason(row, j, parts[j]) for j in chosen if phi[j] * direction > 0]
        others = [
            {**parts[j], "subject": self._subject(row, j, parts[j])}
            for j in chosen
            if phi[j] * direction < 0
        ]
        said = head
        if reasons:
            named = {**fields, "head": head, "reasons": self.wording.listed(reasons)}
            said = self.wording.filled("because", named)
        if others:
            against = self._against(others, fields, ("raised", "lowered")[direction > 0])
            said = self.wording.filled("but", {**fields, "sentence": said, "reasons": against})
        return said

    def _against(
        self, others: Sequence[Mapping[str, str]], fields: Mapping[str, str], template: str
    ) -> str:
        """The features that spoke against the outcome, all of them in one direction."""
        if len(others) == 1:
            return self.wording.filled(template, others[0])
        parts = [self.wording.filled("together", each) for each in others]
        named = {**fields, "reasons": self.wording.listed(parts)}
        return self.wording.filled(f"{template}_together", named)

    def phrase(self, row: RowNumbers, place: int, decimals: int) -> str:
        """The words about one feature of a row: "a guarantor lowered it (−0.23)"."""
        phi = float(row.attributions[place])
        fields = self._reason_fields(row, place, phi, decimals)
        named = {**fields, "subject": self._subject(row, place, fields)}
        return _capitalised(self.wording.filled(("lowered", "raised")[phi > 0], named))

    def _is_outcome(self, row: RowNumbers) -> bool:
        """Whether a class is predicted; of a number, whether it is above the base value."""
        if not self.is_of_classes:
            return row.prediction >= row.base_value
        if row.is_predicted is not None:
            return row.is_predicted
        return row.prediction >= self.threshold

    def _head_fields(self, row: RowNumbers, output: str, is_outcome: bool) -> dict[str, str]:
        entry = self.texts.entry(output)
        name = self.texts.label_of(output)
        if output == UNNAMED and not entry.label:
            name = self.wording.words["unnamed"]
        fields = {
            "output": name,
            "prediction": self._output_text(output, row.prediction),
            "base_value": self._output_text(output, row.base_value),
        }
        outcome = entry.values.get(str(is_outcome).lower(), "")
        if not outcome and is_outcome:
            outcome = name
        elif not outcome:
            inside = self.wording.inside(name)
            outcome = self.wording.filled("not_outcome", {**fields, "outcome": inside})
        return {**fields, "outcome": outcome}

    def _output_text(self, output: str, value: float) -> str:
        """A prediction as text, with its unit: that of the output's entry, else that of the cube."""
        text = self.wording.number(self.texts.value_text(output, value))
        unit = self.texts.unit_of(output)
        if not unit and self.units != "1" and not self.is_of_classes:
            unit = self.units
        return f"{text} {unit}".strip()

    def _reason_fields(
        self, row: RowNumbers, place: int, phi: float, decimals: int
    ) -> dict[str, str]:
        feature = self.features[place]
        words = self._words_of(feature)
        return {
            **words,
            "value": self._value(row, feature, words["name"]),
            "attribution": self.wording.number(number(phi, decimals, sign=True)),
        }

    @cached_property
    def _known_words(self) -> dict[str, Mapping[str, str]]:
        """Feature -> its words, of those that were named before."""
        return {}

    def _words_of(self, feature: str) -> Mapping[str, str]:
        """The words for a feature that are the same in every row."""
        if feature not in self._known_words:
            entry = self.texts.entry(feature)
            label = self.texts.label_of(feature)
            name = label
            inside = label
            if entry.label:  # a name of a table is no word of the language
                name = self.wording.inside(label)
                inside = self.wording.with_article(name)
            self._known_words[feature] = {
                "label": label,
                "name": name,
                "feature": inside,
                "a": self.wording.indefinite(name),
                "unit": self.texts.unit_of(feature),
                "description": entry.description,
            }
        return self._known_words[feature]

    def _value(self, row: RowNumbers, feature: str, name: str) -> str:
        """The value of a feature as text; of a group, the values of its columns."""
        columns = self.player_columns.get(feature, (feature,))
        known = [column for column in columns if column in row.values]
        if len(known) < len(columns):
            return ""
        if len(columns) == 1:
            return self._value_text(columns[0], row.values[columns[0]], name)
        return ", ".join(
            f"{self.texts.label_of(column)} {self._value_text(column, row.values[column], '')}"
            for column in columns
        )

    def _value_text(self, column: str, value: Any, name: str) -> str:
        """The value of one column.

        A flag with a label is "a guarantor" or "no guarantor", another "owner: yes".
        """
        if is_missing(value):
            return self.texts.value_text(column, value)
        entry = self.texts.entry(column)
        kind = np.asarray(value).dtype.kind
        text = self.texts.value_text(column, value, with_unit=True)
        if self.texts.has_text(column, value):
            return text
        flag = self.texts.flag_of(column, value)
        if flag is not None:
            return self._flag_text(flag, name, is_named=bool(entry.label))
        if kind in "iuf" and not self.texts.is_year(column):
            plain = self.texts.value_text(column, value)
            return f"{self.wording.number(plain)}{text[len(plain) :]}"
        return text

    def _flag_text(self, value: bool, name: str, *, is_named: bool) -> str:
        answer = self.wording.words[("no", "yes")[value]]
        if not name:
            return answer
        template = "answer"
        if is_named:
            template = ("absent", "present")[value]
        fields = {"name": name, "label": name, "feature": name, "value": answer, "unit": ""}
        fields |= {"attribution": "", "description": "", "a": self.wording.indefinite(name)}
        return self.wording.filled(template, fields)

    def _is_missing(self, row: RowNumbers, feature: str) -> bool:
        """Whether the value of a feature of one column is missing."""
        return feature in row.values and is_missing(row.values[feature])

    def _flag_template(self, row: RowNumbers, feature: str) -> str:
        """The template for a value whose text needs no feature beside it; empty for another value.

        Such texts are "a guarantor" and "owner: yes".
        """
        if feature not in row.values:
            return ""
        value = row.values[feature]
        entry = self.texts.entry(feature)
        if self.texts.has_text(feature, value):
            return "flag" * (set(entry.values) in FLAG_KEYS)
        if self.texts.flag_of(feature, value) is None:
            return ""
        if entry.label:
            return "flag"
        return "answered"

    def _reason(self, row: RowNumbers, place: int, fields: Mapping[str, str]) -> str:
        """A feature that led to the outcome."""
        feature = self.features[place]
        if self._is_missing(row, feature):
            return self.wording.filled("missing", fields)
        if template := self._flag_template(row, feature):
            return self.wording.filled(template, fields)
        if fields["value"]:
            return self.wording.filled("reason", fields)
        return self.wording.filled("bare", fields)

    def _subject(self, row: RowNumbers, place: int, fields: Mapping[str, str]) -> str:
        """The words for a feature and its value as the subject of a sentence."""
        feature = self.features[place]
        if self._is_missing(row, feature):
            return self.wording.filled("subject_missing", fields)
        if self._flag_template(row, feature):
            return fields["value"]
        if fields["value"]:
            return self.wording.filled("subject", fields)
        return fields["feature"]


def sentences(
    cube: Any,
    key: Any,
    *,
    language: str | None = None,
    templates: Mapping[str, Any] | None = None,
    k: int | None = None,
    rows: Any = None,
    output: str | None = None,
) -> list[str]:
    """Explain the prediction of the model for a row, in a sentence for each decision.

    A sentence names the features with the largest |attribution|: first those that led to the
    outcome, then those that spoke against it, each with its value and its attribution.  Of several
    classes there is one sentence, about the class that is predicted; of several numbers there is one
    each.

    Parameters
    ----------
    cube : xarray.Dataset or path of a store
    key : the key of the row; a tuple for several key columns, a position in a cube without a key
    language : "en" or "de"; None: that of the job's [sentences], else "en"
    templates : mapping, optional
        Template or word -> its text, in place of the language's, as in [sentences] of a job file
    k : int, optional
        The most features that are named; None: that of [sentences], else 3
    rows : data frame, table, or array (n, columns), optional
        The columns of the rows of the cube; None: those that it was stored with.  Without values a
        sentence names the features alone.
    output : str, optional
        The output to write about; None: the predicted class, or all numbers

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        No row has this key, the row has no attributions, an unknown language or output, or a template
        that names an unknown field.

    Examples
    --------
    >>> import pandas as pd, dshap
    >>> X = pd.DataFrame({"ratio": [0.1, 0.2, 0.81], "guarantor": [False, True, True]})
    >>> def declined(rows):
    ...     return 0.2 + 0.8 * rows["ratio"] - 0.1 * rows["guarantor"]
    >>> cube = dshap.explain(
    ...     dshap.values.Marginal(declined, X, scale="probability"),
    ...     X,
    ...     columns={
    ...         "ratio": {"label": "Debt-to-income ratio"},
    ...         "guarantor": {"label": "Guarantor"},
    ...         "output": {"values": {"true": "Declined", "false": "Accepted"}},
    ...     },
    ... )
    >>> print(*cube.dshap.sentences(2))
    Declined mainly because the debt-to-income ratio is 0.81 (+0.35); a guarantor lowered it (−0.03)
    """
    cube = as_cube(cube)
    position = row_position(cube, key)
    asked = dict(templates or {})
    if language is not None:
        asked["language"] = language
    if k is not None:
        asked["k"] = k
    wording = wording_in(cube.attrs)
    if asked:
        wording = Wording.of({**wording.to_dict(), **asked}, SENTENCES)
    writer = writer_of(cube, wording, rows)
    row = cube.isel(instance=position).load()
    phi = np.asarray(row["attribution"].values, np.float64)
    if np.isnan(phi).any():
        raise InputError(f"row {key} has no attribution: it was skipped, failed, or is pending")
    columns = columns_of(cube, rows)
    where = slice(position, position + 1)
    values = {name: columns[name](where)[0] for name in columns}
    predictions = np.asarray(row["prediction"].values, np.float64)
    bases = np.broadcast_to(np.asarray(row["base_value"].values, np.float64), predictions.shape)
    names = _output_names(cube, row)
    chosen = predicted_outputs(writer, predictions, bool(_classes(cube)))
    return [
        writer.sentence(
            RowNumbers(phi[:, j], float(predictions[j]), float(bases[j]), values, chosen[j]),
            names[j],
        )
        for j in _asked_outputs(names, chosen, output)
    ]


def writer_of(cube: Any, wording: Wording, rows: Any = None) -> SentenceWriter:
    """The writer of sentences about the rows of a cube, which is a Dataset."""
    fingerprint = _fingerprint(cube)
    return SentenceWriter(
        texts_of(cube, rows),
        wording,
        names_along(cube, "feature"),
        scale_of_cube(cube),
        units_of_cube(cube),
        joined_columns(fingerprint),
    )


def writer_of_store(arrays: CubeArrays) -> SentenceWriter:
    """The writer of sentences about the rows of a stored cube, in the wording that it stores."""
    facts = known_facts(arrays.path / "attribution").attributes
    return SentenceWriter(
        texts_of(arrays.path),
        wording_of_note(read_notes(arrays.path).get(SENTENCES)),
        arrays.features,
        arrays.scale,
        str(facts.get("units", "1")),
        arrays.player_columns,
    )


def sentences_of_rows(
    writer: SentenceWriter,
    phi: FloatArray,
    predictions: FloatArray,
    bases: FloatArray,
    columns: Mapping[str, NDArray[Any]],
    outputs: Sequence[str],
    classes: Sequence[str | None] | None = None,
) -> NDArray[Any]:
    """The sentences (n, k) about rows, one for each output; None if a row has no attributions.

    Parameters
    ----------
    writer : the writer of the cube
    phi : (n, d, k) attributions
    predictions, bases : (n, k)
    columns : column -> its values (n,), of those that are known
    outputs : (k,) names of the outputs
    classes : (n,), optional
        The class that each row is explained for, which is then the only output
    """
    n_rows, _, n_outputs = phi.shape
    found = np.full((n_rows, n_outputs), None, object)
    for i in range(n_rows):
        values = {name: each[i] for name, each in columns.items()}
        chosen = predicted_outputs(writer, predictions[i], classes is not None)
        for j in range(n_outputs):
            numbers = (phi[i, :, j], float(predictions[i, j]), float(bases[i, j]))
            name = outputs[j]
            if classes is not None:
                name = str(classes[i])
            row = RowNumbers(*numbers, values, chosen[j])
            found[i, j] = writer.sentence(row, name) or None
    return found


def predicted_outputs(
    writer: SentenceWriter, predictions: FloatArray, is_chosen: bool
) -> list[bool | None]:
    """Whether each output is the predicted class; None if its own prediction decides.

    `is_chosen`: the only output is the class that is explained for the row.
    """
    if not writer.is_of_classes:
        return [None] * len(predictions)
    if is_chosen:
        return [True] * len(predictions)
    if len(predictions) == 1 or np.isnan(predictions).any():
        return [None] * len(predictions)
    largest = int(np.argmax(predictions))
    return [j == largest for j in range(len(predictions))]


def _asked_outputs(
    names: Sequence[str], chosen: Sequence[bool | None], output: str | None
) -> list[int]:
    """The positions of the outputs to write about."""
    if output is not None:
        if output not in names:
            raise InputError(unknown_name("output", str(output), names))
        return [names.index(output)]
    return [j for j, is_predicted in enumerate(chosen) if is_predicted is not False]


def _output_names(cube: Any, row: Any) -> list[str]:
    """The outputs of a row; of one that is explained for its class, this class."""
    classes = _classes(cube)
    if classes and "explained_class" in row:
        return [classes[int(row["explained_class"])]]
    return names_along(cube, "output")


def _classes(cube: Any) -> tuple[str, ...]:
    if "explained_class" not in cube:
        return ()
    return classes_in(_fingerprint(cube))


def _fingerprint(cube: Any) -> Mapping[str, Any]:
    """The fingerprint of the run that made a cube; empty if the Dataset has lost it."""
    try:
        found: Mapping[str, Any] = json.loads(cube.attrs[RUN])["fingerprint"]
    except (KeyError, TypeError, ValueError):
        return {}
    return found


def _without_rounding(row: RowNumbers) -> FloatArray:
    """Attributions (d,) with 0 for values that differ from 0 by rounding."""
    phi = row.attributions
    largest = max(abs(row.prediction), abs(row.base_value), float(np.abs(phi).max(initial=0.0)))
    return np.where(np.abs(phi) <= NO_REASON * largest, 0.0, phi)


def decimals_of_row(attributions: FloatArray) -> int:
    """The decimals with which the largest of the attributions (d,) of a row has two digits."""
    return _decimals(float(np.nanmax(np.abs(attributions))) or 1.0)


def _decimals(largest: float) -> int:
    """The decimals with which the largest attribution has two digits."""
    return min(12, max(0, 1 - math.floor(math.log10(abs(largest)))))


def _capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
