"""What a run found out about its own accuracy, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshap.cube import feature_ranking, read_notes

__all__ = ["accuracy", "accuracy_lines"]


def accuracy(cubes: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """explanation -> `residual` of each output over the blocks that are finished, and `mse_v` where it was measured."""
    found = {}
    for name, path in cubes.items():
        notes = read_notes(path)
        residual = feature_ranking(path)["residual"].values
        found[name] = {"residual": residual[~np.isnan(residual)].tolist()} | (
            {"mse_v": notes["mse_v"]} if "mse_v" in notes else {}
        )
    return found


def accuracy_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each explanation the additivity residual, MSE_v, and MSE_v by the number of players present."""
    lines = []
    for name, own in found.items():
        if own["residual"]:
            lines.append(f"{name}: |Σφ + base value − prediction| at most {max(own['residual']):.2g}")
        quality = own.get("mse_v")
        if quality is None:
            continue
        shares = ", ".join(
            f"{mse:.6g}" + (f" ({share:.2%} of the variance)" if share is not None else "")
            for mse, share in zip(quality["mse"], quality["share_of_variance"], strict=True)
        )
        lines.append(f"{name}: MSE_v {shares}, {quality['rows']:,} rows, {quality['coalitions']:,} coalitions")
        sizes = [
            f"{size}: {', '.join(f'{own:.4g}' for own in each)}"
            for size, each in enumerate(quality["by_size"], start=1)
            if None not in each
        ]
        lines.append(f"{name}: MSE_v by players present  {'  '.join(sizes)}")
    return lines
