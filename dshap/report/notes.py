"""What a run found out about its own accuracy, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshap.cube import feature_ranking, read_notes

__all__ = ["accuracy", "accuracy_lines"]


def accuracy(cubes: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """explanation -> `residual` of each output over the blocks that are finished; `mse_v`, `pilot` where there are."""
    found = {}
    for name, path in cubes.items():
        notes = read_notes(path)
        residual = feature_ranking(path)["residual"].values
        measured = {key: notes[key] for key in ("mse_v", "pilot") if key in notes}
        found[name] = {"residual": residual[~np.isnan(residual)].tolist()} | measured
    return found


def accuracy_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each explanation the additivity residual, what a pilot expected, MSE_v, and MSE_v by the players present."""
    lines = []
    for name, own in found.items():
        if own["residual"]:
            lines.append(f"{name}: |Σφ + base value − prediction| at most {max(own['residual']):.2g}")
        if "forecast_coalitions" in own.get("pilot", {}):
            pilot = own["pilot"]
            reached, wanted = f"{pilot['relative_error']:.3g}", f"{pilot['forecast_coalitions']:,.0f}"
            lines.append(
                f"{name}: pilot's std_error / range {reached} in its first round; expected {wanted} coalitions a row"
            )
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
