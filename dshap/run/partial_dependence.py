"""Partial dependence of prepared trees: predictions of the mean and of some rows, by one column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.records import FloatArray, Record
from dshap.run.learned_method import SAMPLE
from dshap.run.prepared_states import Prepared


@dataclass(frozen=True)
class DependenceCurves:
    """Predictions by the values of one column, minus the base value, as attributions are."""

    mean: FloatArray
    """(v,): the partial dependence, the mean over the background."""
    of_rows: FloatArray
    """(b, v): the predictions of at most 200 background rows (individual conditional expectations)."""


def curves_of(
    prepared: Prepared, feature: str, values: FloatArray, output: str
) -> DependenceCurves:
    """The curves of one column.

    Parameters
    ----------
    prepared : Prepared
        Of `Trees`.
    feature : str
        A column that is a player on its own.
    values : (v,)
        Of the column; positions in the list of categories for one of categories.
    output : str
        Name of the output.

    Raises
    ------
    InputError
        Another value function, feature or output.
    """
    if not isinstance(prepared, Prepared):
        raise InputError(
            f"partial_dependence is {shown(prepared)}: give dshap.prepare(Trees(model, background), "
            "...)"
        )
    value = prepared.value
    players = value.players
    model = value.model
    for kind, name, known in (
        ("feature", feature, players.names),
        ("output", output, model.output_names),
    ):
        if name not in known:
            raise InputError(f"partial_dependence: {unknown_name(kind, name, known)}")
    player = players.names.index(feature)
    columns = np.flatnonzero(players.members[player])
    if len(columns) > 1:
        raise InputError(
            f"partial_dependence: {feature!r} is a group of {len(columns)} columns: prepare Trees "
            "with this column as a player of its own"
        )
    column = int(columns[0])
    k = model.output_names.index(output)
    attributor = prepared.attributor()
    rows = np.zeros((len(values), model.n_columns))
    rows[:, column] = values
    background = prepared.states.get(SAMPLE, Record)["x"]
    mixed = np.repeat(background, len(values), axis=0)
    mixed[:, column] = np.tile(values, len(background))
    means, base = attributor.dependence(rows, player)
    return DependenceCurves(
        means[:, k] - base[k],
        model(mixed)[:, k].reshape(len(background), len(values)) - base[k],
    )
