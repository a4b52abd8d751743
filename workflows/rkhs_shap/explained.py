"""A kernel logistic model of a table, its attributions of both kinds, and what they say beside its
length-scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import spearmanr

import dshap
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelLogistic, KernelModel
from workflows.rkhs_shap.common import COLOURS, panels, saved
from workflows.rkhs_shap.data import Table

__all__ = [
    "Explanation",
    "explanation",
    "importance_of",
    "importance_picture",
    "ranks",
    "row_picture",
]

INVERSE = "inverse length-scale"
KINDS = ("interventional", "observational")


@dataclass(frozen=True)
class Explanation:
    """Of the log-odds of a model, on rows that it was not fitted to."""

    table: Table
    model: KernelLogistic
    rows: pd.DataFrame
    """(n, columns): that are explained."""
    target: Any
    """(n,)"""
    cubes: Mapping[str, xr.Dataset]
    """Kind -> attribution cube."""

    def phi(self, kind: str) -> Any:
        """(n, columns)"""
        return self.cubes[kind].attribution.to_numpy()[:, :, 0]

    @property
    def log_odds(self) -> Any:
        """(n,): the prediction of each row."""
        return self.cubes["interventional"].prediction.to_numpy()[:, 0]

    def one(self, row: int) -> dict[str, Any]:
        """A row, its log-odds and its attributions of both kinds."""
        phi = {
            kind: dict(zip(self.rows, self.phi(kind)[row].round(3).tolist(), strict=True))
            for kind in self.cubes
        }
        return {
            "row": self.rows.iloc[row].to_dict(),
            "log_odds": round(float(self.log_odds[row]), 3),
            **phi,
        }

    def importance(self) -> pd.DataFrame:
        """See `importance_of`."""
        train, _ = self.table.part(True)
        return importance_of(self.model, train.std(), {kind: self.phi(kind) for kind in KINDS})

    def scores(self) -> dict[str, float]:
        """How good the model is."""
        parts = {"train": self.table.part(True), "test": self.table.part(False)}
        found = {
            f"{name}_accuracy": float((self.model.predict(x) == y).mean())
            for name, (x, y) in parts.items()
        }
        share = float(parts["test"][1].mean())
        return {name: round(each, 4) for name, each in found.items()} | {
            "test_share_of_ones": round(share, 4)
        }


def explanation(
    table: Table, landmarks: int, n_rows: int, design: Mapping[str, Any]
) -> Explanation:
    """The model fitted on the training rows, length-scales and penalty chosen there, explained on n
    of the others."""
    x, y = table.part(True)
    rows, target = (each[:n_rows] for each in table.part(False))
    model = KernelLogistic(RBF("validate"), Nystrom(landmarks), penalty="validate").fit(x, y)
    values = {
        "interventional": (dshap.values.KernelInterventional(model, x), {}),
        "observational": (dshap.values.KernelObservational(model, x, Nystrom(landmarks)), design),
    }
    cubes = {
        kind: dshap.explain(value, rows, progress=False, **more)
        for kind, (value, more) in values.items()
    }
    return Explanation(table, model, rows, target, cubes)


def importance_of(model: KernelModel, spread: pd.Series, phi: Mapping[str, Any]) -> pd.DataFrame:
    """Column -> inverse length-scale, in units of the column's standard deviation, and mean
    |attribution|."""
    kernel = model.expansion_.kernel
    assert kernel is not None
    found = pd.DataFrame({INVERSE: spread.to_numpy() / kernel.parameters}, index=spread.index)
    return found.assign(**{kind: abs(each).mean(axis=0) for kind, each in phi.items()})


def ranks(importance: pd.DataFrame) -> dict[str, float]:
    """Rank correlations of the columns by inverse length-scale with those by mean |attribution|,
    and of the latter."""
    pairs = [(INVERSE, kind) for kind in KINDS] + [KINDS]
    return {
        f"{a}, {b}": round(float(spearmanr(importance[a], importance[b])[0]), 3) for a, b in pairs
    }


def importance_picture(
    found: pd.DataFrame, title: str, path: Path, units: str = "log-odds"
) -> None:
    """Bars: inverse length-scales beside mean |attribution| of both kinds."""
    found = found.sort_values("interventional")
    height = 1.6 + 0.22 * len(found)
    figure, (left, right) = panels(2, title, width=4.8, height=max(height, 3.4), sharey=True)
    place = np.arange(len(found))
    left.barh(place, found[INVERSE], color=COLOURS[4], height=0.7)
    left.set_yticks(place, found.index, fontsize=8)
    left.set_ylim(-0.7, len(found) - 0.3)
    left.set_title("standard deviation / length-scale", loc="left", fontsize=10)
    for shift, kind, colour in zip((0.2, -0.2), KINDS, COLOURS, strict=False):
        right.barh(place + shift, found[kind], height=0.38, color=colour, label=kind)
    right.set_title(f"mean |attribution|, {units}", loc="left", fontsize=10)
    left.yaxis.grid(False)
    right.yaxis.grid(False)
    right.legend(frameon=False, loc="lower right", fontsize=9)
    saved(figure, path)


def row_picture(found: Explanation, row: int, title: str, path: Path) -> None:
    """One row: from the base value to the log-odds, the strongest columns last, a panel a kind."""
    figure, all_axes = panels(
        2, title, width=5.0, height=1.8 + 0.3 * found.rows.shape[1], sharey=True
    )
    order = np.argsort(abs(found.phi("interventional")[row]))
    names = [f"{name} = {found.rows.iloc[row][name]:g}" for name in found.rows.columns[order]]
    for axes, kind in zip(all_axes, KINDS, strict=True):
        cube, phi = found.cubes[kind], found.phi(kind)[row][order]
        base, end = float(cube.base_value.to_numpy().ravel()[0]), float(found.log_odds[row])
        start = base + np.concatenate([[0.0], np.cumsum(phi)[:-1]])
        axes.barh(
            range(len(phi)),
            phi,
            left=start,
            color=np.where(phi > 0, COLOURS[1], COLOURS[0]),
            height=0.65,
        )
        for place, (left, width) in enumerate(zip(start, phi, strict=True)):
            axes.annotate(f"{width:+.2f}", (max(left, left + width), place), (3, 0), textcoords="offset points",
                          va="center", fontsize=8)  # fmt: skip
        axes.axvline(base, color="#888888", linewidth=0.8, linestyle=":")
        axes.axvline(end, color="#444444", linewidth=0.8)
        axes.use_sticky_edges = False
        axes.margins(x=0.1)
        axes.yaxis.grid(False)
        axes.set_title(
            f"{kind}: base value {base:.2f}, log-odds {end:.2f}", loc="left", fontsize=10
        )
        axes.set_xlabel("log-odds")
    all_axes[0].set_yticks(range(len(names)), names, fontsize=9)
    saved(figure, path)
