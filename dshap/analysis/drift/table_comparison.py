"""Comparing the rows of two tables by the witness function of a kernel: `dshap.mmd_drift`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.drift.drift_record import ColumnDrift, ComparedTable, Drift, DriftingRow
from dshap.core.printing import one_line
from dshap.core.records import FloatArray
from dshap.discrepancy.attribution import Discrepancy, discrepancy
from dshap.discrepancy.margins import margin
from dshap.discrepancy.samples import TwoSamples, compared_rows
from dshap.kernels.unbound import Kernel

NAMED_ROWS = 30
"""The fewest rows of a table in which a column of different values is assumed to name rows."""
SHARED_NAMES = 0.02
"""The largest share of the shorter table's names that both tables have, where a column is warned of."""


def drift_between(
    tables: tuple[ComparedTable, ComparedTable],
    samples: TwoSamples,
    positions: NDArray[np.int64],
    key_of: Callable[[int], Mapping[str, str]],
    *,
    kernel: Kernel | None,
    absent: Literal["pooled", "omitted"],
    n_permutations: int,
    n_rows: int,
    seed: int,
) -> Drift:
    """Compute the drift between the rows of two samples, and attribute it to columns.

    Parameters
    ----------
    tables : the old and the new table, from which the rows come
    samples : the rows
    positions : (m + n,): the positions of the rows in their tables, the old ones first
    key_of : position among the rows of both samples, the old ones first -> key by key column
    kernel, absent, n_permutations, n_rows, seed : as in `dshap.mmd_drift`
    """
    compared = compared_rows(samples, kernel, absent, seed)
    found = discrepancy(compared, n_permutations, seed)
    # one for each column and, last, one for all columns together
    *_, std_error = found.std_errors.tolist()
    *_, expected = found.null.expected.tolist()
    *_, p_value = found.null.p_values.tolist()
    return Drift(
        old=tables[0],
        new=tables[1],
        mmd2=found.mmd2,
        std_error=std_error,
        expected=expected,
        p_value=p_value,
        n_permutations=n_permutations,
        cell_rows=found.cell_rows,
        absent=absent,
        kernel=compared.described(),
        columns=_column_drifts(found, samples),
        rows=_drifting_rows(found, key_of, n_rows),
        warnings=_name_warnings(samples),
        names=samples.names,
        positions=positions,
        witness=found.sums.witness,
        attributions=found.sums.attributions,
    )


def _name_warnings(samples: TwoSamples) -> tuple[str, ...]:
    """A line for each column that seems to identify rows, such as an id."""
    # such a column alone makes all rows of the new table differ from the old ones
    columns = zip(samples.names, samples.old.T, samples.new.T, strict=True)
    named = [one_line(name) for name, old, new in columns if _names_rows(old, new)]
    return tuple(
        f"warning: column {name!r} has a different value in each row, and the tables share hardly "
        "any of its values: if it identifies rows, give it as the key (--key on the command line)"
        for name in named
    )


def _names_rows(old: FloatArray, new: FloatArray) -> bool:
    """Whether whole numbers, or categories, are all different and hardly shared."""
    fewest = min(len(old), len(new))
    if fewest < NAMED_ROWS:
        return False
    both = np.concatenate([old, new])
    if (both != np.floor(both)).any():
        return False
    n_names = len(np.unique(old)) + len(np.unique(new))
    if n_names < len(both):  # a value is repeated
        return False
    n_shared = n_names - len(np.unique(both))
    return n_shared <= SHARED_NAMES * fewest


def _column_drifts(found: Discrepancy, samples: TwoSamples) -> tuple[ColumnDrift, ...]:
    """The part of each column, the largest first."""
    of_columns = [_column_drift(found, samples, j) for j in range(len(samples.names))]
    of_columns.sort(key=lambda each: each.attribution, reverse=True)
    return tuple(of_columns)


def _column_drift(found: Discrepancy, samples: TwoSamples, j: int) -> ColumnDrift:
    """The part of column j."""
    null = found.null
    is_categorical = bool(samples.is_categorical[j])
    by_itself = margin(samples.old[:, j], samples.new[:, j], is_categorical)
    return ColumnDrift(
        column=samples.names[j],
        attribution=float(found.attributions[j]),
        std_error=float(found.std_errors[j]),
        expected=float(null.expected[j]),
        p_value=float(null.p_values[j]),
        adjusted=float(null.adjusted[j]),
        marginal_p_value=by_itself.p_value,
        psi=by_itself.psi,
    )


def _drifting_rows(
    found: Discrepancy, key_of: Callable[[int], Mapping[str, str]], n_shown: int
) -> tuple[DriftingRow, ...]:
    """The rows that carry most of MMD²."""
    order = np.argsort(-found.carried, kind="stable")
    shown = order[:n_shown].tolist()
    return tuple(_drifting_row(found, row, key_of(row)) for row in shown)


def _drifting_row(found: Discrepancy, row: int, key: Mapping[str, str]) -> DriftingRow:
    side = "new"
    if row < found.rows.n_old:
        side = "old"
    witness = float(found.sums.witness[row])
    attributions = found.sums.attributions[row]
    most = int(np.argmax(attributions * np.sign(witness)))
    return DriftingRow(
        table=side,
        key=key,
        carried=float(found.carried[row]),
        witness=witness,
        column=found.rows.names[most],
        attribution=float(attributions[most]),
    )
