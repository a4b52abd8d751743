"""Export what `recompute.py` needs from a run of kernel values: arrays only, in one plain .npz.

python tests/oracles/export.py STORE EXPLANATION ROWS.parquet OUT.npz
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from dshap import designs
from dshap.core.blocks import Status
from dshap.core.records import Record, State
from dshap.cube import open_cube, read_job, read_run, states_of
from dshap.models import KernelExpansion
from dshap.tables import open_source

__all__ = ["export_cube", "export_job"]


def export_cube(
    out: Path,
    cube: Path,
    model: KernelExpansion,
    rows: np.ndarray,
    data: np.ndarray,
    target_std: Any,
    *,
    landmarks: np.ndarray | None = None,
    n_rows: int = 5,
    seed: int = 0,
) -> Path:
    """Write `out` from a finished cube.

    Parameters
    ----------
    rows, data : (n, columns), (N, columns)
        What was explained, and what the values are learnt from: without skipped rows there.
    target_std : (k,)
        Unit of the differences.
    landmarks : (q, columns), optional
        Where they were given; else those that the run chose are read from its states.
    """
    dataset, run = open_cube(cube), (read_run(cube) or {})["fingerprint"]
    value, given = run["value"], run["design"]
    is_player = np.array([str(name) in value["players"] for name in dataset.feature.values])
    # no players, since they never vary
    if float(abs(dataset.attribution[:, ~is_player]).sum()) > 0.0:
        raise SystemExit(f"{cube}: an attribution of a constant column is not 0")
    dataset = dataset.isel(feature=is_player)
    explained = np.flatnonzero(dataset.status.values == Status.OK)
    chosen = np.sort(
        np.random.default_rng(seed).choice(explained, min(n_rows, len(explained)), replace=False)
    )
    design = _design(given)
    arrays = {
        "kind": np.array(value["value"]),
        "rows": rows[chosen],
        "attribution": dataset.attribution.isel(instance=chosen).values,
        "prediction": dataset.prediction.isel(instance=chosen).values,
        "base_value": dataset.base_value.values,
        "data": data,
        "family": np.array(model.kernel.families),
        "parameter": model.kernel.parameters,
        "landmarks": model.landmarks,
        "weights": model.weights,
        "intercept": model.intercept,
        "masks": design.masks,
        "members": _members(value["players"], dataset.feature.values, rows.shape[1]),
        "budget": np.array(design.n_coalitions),
        "target_std": np.asarray(target_std, dtype=float),
    }
    if value["value"] == "kernel_observational":
        arrays["embedding"] = _landmarks(cube) if landmarks is None else landmarks
        arrays |= {
            "penalty": _penalties(cube, value["penalty"], arrays),
            "rank_tolerance": np.array(value["rank_tolerance"]),
        }
    np.savez(out, **arrays)
    return out


def _design(given: dict[str, Any]) -> Any:
    """The job's own design; the weights are recomputed from its budget, which says nothing of other
    samplings."""
    if given["design"] == "exact":
        return designs.exact(given["n_players"])
    if given["sampling"] != "leverage" or len(given["budgets"]) != 1:
        raise SystemExit(f"only leverage sampling in one stage is recomputed, not {given}")
    return designs.kernelshap(
        given["n_players"], given["budgets"][0], paired=given["paired"], seed=given["seed"]
    )


def _members(columns_of: dict[str, list[int]], players: np.ndarray, n_columns: int) -> np.ndarray:
    """(d, columns) bool: columns of each player, in the order of the cube's features."""
    return np.array([np.isin(np.arange(n_columns), columns_of[str(name)]) for name in players])


def _penalties(cube: Path, given: float | str, arrays: dict[str, Any]) -> np.ndarray:
    """(m,): as given, or of each coalition's columns as the states of the tiles have them, NaN at
    the two ends."""
    if given != "validate":
        return np.full(len(arrays["masks"]), float(given))
    states = states_of(cube)
    tiles = (states.get(name, State) for name in states.names() if name.startswith("moments-"))
    penalty_of = {
        columns.tobytes(): penalty
        for tile in tiles
        for columns, penalty in zip(tile["columns"], tile["penalty"], strict=True)
    }
    columns = (arrays["masks"][:, :, None] & arrays["members"]).any(axis=1)
    return np.array([penalty_of.get(own.tobytes(), np.nan) for own in columns])


def _landmarks(cube: Path) -> np.ndarray:
    states = states_of(cube)
    (name,) = (name for name in states.names() if name.startswith("landmarks-"))
    return np.asarray(states.get(name, State)["anchors"])


def export_job(
    out: Path, store: Path, explanation: str, parquet: Path, *, n_rows: int = 5, seed: int = 0
) -> Path:
    """The same from the store of a job that fitted its own kernel model and learns from the whole
    table."""
    fingerprint = (read_job(store) or {})["fingerprint"]
    reader = open_source(parquet, features=fingerprint["features"], target=fingerprint["target"])
    block = reader.read(0, reader.n_rows, target=True)
    states = states_of(store)
    (name,) = (name for name in states.names() if name.startswith("model-"))
    model = KernelExpansion.from_record(states.get(name, Record))
    target = block.target.reshape(len(block.x), -1)
    std = np.nanstd(target, axis=0)
    good = block.x[block.is_ok]
    return export_cube(
        out, store / explanation, model, block.x, good, std, n_rows=n_rows, seed=seed
    )


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    export_job(Path(sys.argv[4]), Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
