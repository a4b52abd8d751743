"""Describe in words how the run in a store differs from the requested run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from dshap.attributors.states import probe_name
from dshap.core.capabilities import tried_predictions
from dshap.core.errors import StoreMismatchError
from dshap.core.places import Place
from dshap.core.processors import processor
from dshap.core.records import FloatArray, Record, digest_of
from dshap.cube import holds_run, is_finished, read_run, refuse_altered, states_of
from dshap.cube.creation import is_free
from dshap.run.probes import Probes
from dshap.run.row_difference import RowsOfStore
from dshap.run.session import Session
from dshap.run.versions import Writer
from dshap.tables import Inputs

SHOWN = 4
"""The most differences that a message names."""
ROWS = frozenset(("rows.digest", "rows.n"))
DATA = frozenset(("data.digest", "data.n"))
OF_ROWS = frozenset(("probe",))
"""Entries of a fingerprint that follow from the rows that are explained."""
OF_DATA = frozenset(("value.background", "value.data", "value.weights", "value.predictions"))
"""Entries of a fingerprint that follow from the background or data of the value function."""
PREDICTED = frozenset(("probe", "value.predictions"))
"""Entries that identify a black box: its predictions for the first rows, and for its background."""
KINDS: Mapping[str, str] = {"design.design": "design", "value.value": "value function"}
"""Entries that name a kind of thing -> the word for it in messages; for another kind all its other
entries differ too."""
FOLLOWING: Mapping[str, tuple[str, ...]] = {
    "design.design": ("design.",),
    "value.value": ("value.", "data."),
    "players": ("design.n_players", "value.players."),
    "features": ("design.n_players", "value.players.", "players"),
}
"""An entry -> prefixes of the entries that follow from it."""
OTHER_ROWS = "as before, with different values or in a different order"


def same_run(
    path: Place,
    run: Mapping[str, Any],
    predictions: FloatArray | None,
    inputs: Inputs,
    session: Session,
) -> Mapping[str, Any]:
    """The fingerprint with which a run continues, see `as_stored`; `run` if nothing is stored yet.

    `predictions` (n, k) are those for the first rows; None for a stochastic model.

    Raises
    ------
    StoreMismatchError
        The store at `path` contains a different run, or no cube.
    """
    refuse_altered(path)
    stored = read_run(path)
    if stored is None:
        # its metadata are lost and will be rebuilt
        if holds_run(path, digest_of(run)) or is_free(path):
            return run
        raise StoreMismatchError(
            f"{path} exists and is not an attribution cube: choose another store"
        )
    if session.options.stochastic:
        value = None
    else:
        value = inputs.value
    model = _model_then_and_now(path, stored, predictions, inputs)
    rows = RowsOfStore(path, inputs.rows, session, value)
    found = as_stored(path, stored, run, rows, is_over=is_finished(path), model=model)
    if model is not None and _changed(found, run) & PREDICTED:
        session.progress.say(model.said_of_rounding)
    return found


def as_stored(
    path: Place,
    stored: Mapping[str, Any],
    run: Mapping[str, Any],
    rows: RowsOfStore,
    *,
    is_over: bool,
    model: ModelThenAndNow | None = None,
) -> Mapping[str, Any]:
    """The fingerprint with which a run continues in the store at `path`.

    It is `run`, with two exceptions.  It is the fingerprint of the store if only predictions
    differ, by rounding, or if a version of dshap with different numerics has finished the store.

    Parameters
    ----------
    stored : mapping
        The record in the store, with its `fingerprint`, and the `version` of dshap that wrote it.
    run : mapping
        The fingerprint of the requested run.
    rows : RowsOfStore
        Compares the rows.
    is_over : bool
        Whether the store is finished: it then stays valid under a version with other numerics.
    model : ModelThenAndNow, optional
        Checks whether the predictions differ by rounding.

    Raises
    ------
    StoreMismatchError
        The fingerprints differ, or the store was begun by a version with other numerics.
    """
    before: Mapping[str, Any] = stored.get("fingerprint", {})
    writer = Writer.of(stored, before)
    if writer.is_other and not is_over:
        raise unfinished_elsewhere(path, writer)
    by = writer if writer.is_other else None
    _refuse_difference(path, before, run, rows, model, by)
    return before if by is not None or _changed(before, run) else run


def unfinished_elsewhere(path: Place, writer: Writer) -> StoreMismatchError:
    """The error about a store that a version with other numerics has not finished."""
    return StoreMismatchError(
        f"{path} was begun by {writer} and is not finished, and this is {Writer.here()}; "
        f"{writer.changes}.  One cube contains numbers of one version: {writer.remedy}, or choose "
        "another store, or remove it"
    )


@dataclass(frozen=True)
class ModelThenAndNow:
    """The comparison of the stored predictions of a run with the present ones."""

    gap: float
    """The largest difference of two predictions of a row, for the output that is nearest to its
    bound or above."""
    bound: float
    """The difference that rounding explains."""
    processor_then: str
    processor_now: str

    @property
    def is_same(self) -> bool:
        """Whether rounding explains all differences."""
        return self.gap <= self.bound

    @property
    def said_of_rounding(self) -> str:
        """The line on a run that goes on with predictions that differ by rounding."""
        return (
            f"the model predicts the same but for rounding: {self.gap:.2g} more or less than at the "
            f"beginning of the run, where rounding explains {self.bound:.2g}; {self._where}"
        )

    @property
    def said_of_change(self) -> str:
        """The size of a difference that rounding does not explain, for an error message."""
        said = f"by {self.gap:.2g}, where rounding explains {self.bound:.2g}"
        if self.processor_then == self.processor_now:
            return said
        return f"{said}; {self._where}"

    @property
    def _where(self) -> str:
        """The processors then and now."""
        if self.processor_then == self.processor_now:
            return f"on the same processor ({self.processor_now}), by another library"
        then = self.processor_then or "not known"
        return f"another processor (then {then}; now {self.processor_now})"


def _model_then_and_now(
    path: Place,
    stored: Mapping[str, Any],
    predictions: FloatArray | None,
    inputs: Inputs,
) -> ModelThenAndNow | None:
    """Compare with the stored predictions; None if there are none, or of other rows."""
    states = states_of(path)
    name = probe_name(stored.get("digest", ""))
    if predictions is None or states.damage(name):
        return None
    then = Probes.of(states.get(name, Record))
    now = Probes(predictions, tried_predictions(inputs.value.model), then.noise)
    gap, bound = then.difference(now)
    return ModelThenAndNow(gap, bound, stored.get("processor", ""), processor())


def _refuse_difference(
    path: Place,
    stored: Mapping[str, Any],
    run: Mapping[str, Any],
    rows: RowsOfStore,
    model: ModelThenAndNow | None,
    by: Writer | None,
) -> None:
    """Raise a `StoreMismatchError` that names the differences of two fingerprints, if any.

    Predictions that differ by rounding, as `model` finds, are no difference.  `by` is the dshap
    that wrote the store, where its numerics are not those of this process.
    """
    was = _flat(stored)
    now = _flat(json.loads(json.dumps(run)))
    changed = _changed(stored, run)
    if model is not None and model.is_same:
        changed = changed - PREDICTED
    if by is not None:
        changed = changed - {"numerics", *(by.unknown_entries - was.keys())}
    if not changed:
        return
    said = _said(was, now, changed, rows, model)
    if len(said) > SHOWN:
        more = f" and {len(said) - SHOWN} more differences"
    else:
        more = ""
    version = ""
    if by is not None:
        version = f", which {by} finished (this is {Writer.here()})"
    raise StoreMismatchError(
        f"{path} contains a different run{version}: {'; '.join(said[:SHOWN])}{more}; choose "
        "another store, or remove it"
    )


def _changed(stored: Mapping[str, Any], run: Mapping[str, Any]) -> Set[str]:
    """The entries of two fingerprints that differ."""
    was = _flat(stored)
    now = _flat(json.loads(json.dumps(run)))
    return set(names_that_differ(was, now))


def names_that_differ(
    was: Mapping[str, Any], now: Mapping[str, Any], but: Set[str] = frozenset()
) -> list[str]:
    """The names of plain values that were others, or are new or gone, without some names."""
    names = (was.keys() | now.keys()) - but
    return sorted(name for name in names if was.get(name) != now.get(name))


def _said(
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    changed: Set[str],
    rows: RowsOfStore,
    model: ModelThenAndNow | None,
) -> list[str]:
    """Describe each difference in a few words.

    Entries that only follow from another difference are left out.
    """
    changed = changed - _following(changed)
    has_other_columns = any(name.startswith(("keys", "features")) for name in changed)
    said = []
    if changed & ROWS and not has_other_columns:
        said.append(f"rows: {rows.said(was.get('rows.n'), now.get('rows.n'))}")
    if changed & DATA and not (has_other_columns or _is_table_of_rows(was, now)):
        said.append(data_said(_name_of_data(was, now), was.get("data.n"), now.get("data.n")))
    follows = ROWS | DATA
    follows |= OF_ROWS if changed & ROWS else frozenset()
    follows |= OF_DATA if changed & DATA else frozenset()
    if changed & PREDICTED - follows:
        how_far = "" if model is None else f" ({model.said_of_change})"
        said.append(f"the model predicts different values than before for the same rows{how_far}")
    others = sorted(changed - follows - PREDICTED)
    return said + [_leaf(name, was.get(name, "absent"), now.get(name, "absent")) for name in others]


def _following(changed: Set[str]) -> set[str]:
    """The entries that only follow from others that changed."""
    causes = changed & FOLLOWING.keys()
    return {
        name
        for name in changed
        for cause in causes
        if name.startswith(FOLLOWING[cause]) and name != cause
    }


def _is_table_of_rows(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the value function learned, then and now, from the rows that are explained."""
    return all(run.get("data.digest") == run.get("rows.digest") for run in (was, now))


def _name_of_data(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The word for the rows that a value function is made with."""
    if any(run.get("value.background") for run in (was, now)):
        return "background"
    return "background or data"


def data_said(name: str, was: int | None, now: int | None) -> str:
    """Describe how many rows of this name there were, and how many there are."""
    if was == now:
        return f"{name}: {now:,} rows {OTHER_ROWS}"
    before, after = (f"{count:,} rows" if count is not None else "none" for count in (was, now))
    return f"{name}: {before} before, {after.removesuffix(' rows')} now"


def _leaf(name: str, was: Any, now: Any) -> str:
    """Describe a change of one entry; if only digests are known, just that it differs."""
    name = KINDS.get(name, name.removeprefix("options."))
    if _is_digest(was) or _is_digest(now):
        return f"{name} is not the one that the store was made with"
    return f"{name} was {was}, now {now}"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16,}", value) is not None


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to names with dots, such as value.penalty -> 0.001."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {
        name: leaf
        for key, part in tree.items()
        for name, leaf in _flat(part, f"{prefix}.{key}".strip(".")).items()
    }
