"""The comparison: attributions by each method, and what masking the features that it ranks first
does to the log-odds.

The less is left of the log-odds of the predicted class, the better the ranking.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

import dshap
from dshap.core.cores import n_cores
from dshap.report import require_matplotlib
from dshap.values import Players
from workflows.experiments.kept import n_saved

__all__ = [
    "GRAPH",
    "PRESENT",
    "SHARES",
    "Method",
    "Result",
    "Study",
    "changes",
    "compare",
    "log_odds",
    "of_panel",
    "result_of",
    "written",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SHARES = np.array([0, 1, 2, 3, 4, 5, 7.5, 10, 12.5, 15, 17.5, 20, 25, 30, 40]) / 100
"""Of the features that are masked."""
PACKAGES = ("dshap", "torch", "lime", "numpy")
PRESENT = ", others present"
"""How the name of a method ends that leaves the players present which are not looked at."""
COLOURS = (
    "#33658a",
    "#f26419",
    "#758e4f",
    "#7d5ba6",
    "#86bbd8",
    "#f6ae2d",
    "#444444",
    "#c1292e",
    "#2a9d8f",
    "#b5838d",
    "#9a6b2f",
)
GRAPH = ("L-Shapley", "C-Shapley")
"""How the names of methods of neighbours begin."""
PANELS = {"others absent": "", "others present": PRESENT}


@dataclass(frozen=True)
class Study:
    """What is explained, and what takes the place of a masked feature."""

    name: str
    title: str
    classifier: Any
    """`networks.Classifier`, or what has its `logits`, `log_probabilities` and `predicted`, and
    counts evaluations."""
    rows: FloatArray
    """(n, columns)"""
    reference: FloatArray
    """(columns,): the value of an absent column."""
    players: Mapping[str, Sequence[int]] | None = None
    """Of columns that are not single, as `dshap.image_players` gives them."""
    lengths: IntArray | None = None
    """(n,): columns of each row, where rows are texts of different lengths, padded at the end."""

    @property
    def members(self) -> Players:
        """The players of all columns."""
        return Players.of(self.rows.shape[1], None, self.players)


@dataclass(frozen=True)
class Method:
    """A way to attribute: what `dshap.explain` takes, and a design."""

    value: Any
    design: Any = "auto"


@dataclass(frozen=True)
class Result:
    """What one method gave."""

    method: str
    attribution: FloatArray
    """(n, d)"""
    change: FloatArray
    """(n, shares): of the log-odds."""
    evaluations: int
    """That it asked for, for all instances."""
    computed: int
    """Evaluations of the network: those of them that no method before had asked for."""
    seconds: float
    """Of the processor."""
    of_network: float
    """Seconds of them that the network took."""

    def cost(self) -> tuple[int, int, float, float]:
        """Evaluations, those that were computed, seconds of the processor, and those of them that
        the network took."""
        return self.evaluations, self.computed, self.seconds, self.of_network

    def to_dict(self) -> dict[str, Any]:
        """Means over the instances, their standard errors, and the cost."""
        n = len(self.change)
        return {
            "mean": self.change.mean(axis=0).round(4).tolist(),
            "std_error": (self.change.std(axis=0) / np.sqrt(n)).round(4).tolist(),
            "evaluations_an_instance": round(self.evaluations / n, 1),
            "computed_an_instance": round(self.computed / n, 1),
            "processor_seconds": round(self.seconds, 1),
            "computed_a_processor_second": round(self.computed / self.seconds),
            "share_of_time_in_the_network": round(self.of_network / self.seconds, 3),
        }


def log_odds(logits: FloatArray, classes: IntArray) -> FloatArray:
    """(n,): log p_c − log(1 − p_c) of the class c of each row, from logits (n, k)."""
    own = np.take_along_axis(logits, classes[:, None], axis=1)[:, 0]
    others = logits.copy()
    np.put_along_axis(others, classes[:, None], -np.inf, axis=1)
    return np.asarray(own - logsumexp(others, axis=1))


def changes(study: Study, attribution: FloatArray, shares: FloatArray = SHARES) -> FloatArray:
    """(n, shares): log-odds of the predicted class with the top-ranked features masked, less those
    of the whole row.

    Features rank by attribution (n, d), the largest first, NaN last; a share of those that a row
    has is rounded to whole features.
    """
    n, d = attribution.shape
    lengths = np.full(n, d) if study.lengths is None else study.lengths
    rank = np.argsort(np.argsort(-attribution, axis=1, kind="stable"), axis=1)  # (n, d)
    logits, members = study.classifier.logits(study.rows), study.members
    classes = logits.argmax(axis=1)
    before = log_odds(logits, classes)
    out = np.zeros((n, len(shares)))
    for j, share in enumerate(shares):
        kept = members.columns(rank >= np.round(share * lengths)[:, None])
        masked = np.where(kept, study.rows, study.reference)
        out[:, j] = log_odds(study.classifier.logits(masked), classes) - before
    return out


def result_of(study: Study, name: str, method: Method, folder: Path) -> Result:
    """Of one method; its cube goes to the folder, what it took beside it, and both are used where
    they are there."""
    store = folder / f"{name.replace(' ', '_').replace(',', '')}.zarr"
    cost, network, started = store.with_suffix(".json"), study.classifier, time.process_time()
    computed, saved, seconds = network.n_evaluations, n_saved(method.value), network.seconds
    cube = dshap.explain(
        method.value, study.rows, design=method.design, store=store, progress=False
    )
    phi = spread(study, method, cube["attribution"].isel(output=0).to_numpy())
    computed, saved = network.n_evaluations - computed, n_saved(method.value) - saved
    took = computed + saved, computed, time.process_time() - started, network.seconds - seconds
    if not cost.exists():
        cost.write_text(json.dumps(took))
    took = json.loads(cost.read_text())
    print(
        f"{name}: {took[2]:.1f} s of the processor, {100 * took[3] / took[2]:.0f} % of them in the "
        "network",
        flush=True,
    )
    if study.lengths is not None:  # padding ranks last
        phi = np.where(np.arange(phi.shape[1]) < study.lengths[:, None], phi, np.nan)
    return Result(name, phi, changes(study, phi), *took)


def spread(study: Study, method: Method, phi: FloatArray) -> FloatArray:
    """(n, d): what parts of several players were given (n, parts), shared equally among the columns
    of each."""
    if phi.shape[1] == len(study.members):
        return phi
    parts = method.value.players.members.astype(float)  # (parts, columns)
    shares = parts @ study.members.members.T / parts.sum(axis=1, keepdims=True)
    return np.asarray(phi @ shares)


def compare(
    study: Study, methods: Mapping[str, Method], folder: Path, more: Mapping[str, Any]
) -> list[Result]:
    """Explain by every method; cubes, curves, a JSON and a PNG of the curves go to the folder.

    `more` goes into the JSON, such as the accuracy of the network.
    """
    require_matplotlib()
    results = [result_of(study, name, method, folder / "cubes") for name, method in methods.items()]
    written(study, results, folder, more)
    return results


def written(study: Study, results: Sequence[Result], folder: Path, more: Mapping[str, Any]) -> None:
    """The curves as a cube, as JSON with the machine, and as a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    curves(results).to_zarr(folder / f"{study.name}_curves.zarr", mode="w", consolidated=False)
    content = {
        "experiment": study.name,
        "instances": len(study.rows),
        "features": len(study.members),
        **more,
        "machine": machine(),
        "all_methods": cost_of(results),
        "masked_share": SHARES.tolist(),
        "change_in_log_odds": {each.method: each.to_dict() for each in results},
    }
    text = re.sub(
        r"\[[^\[\]]*\]", lambda found: " ".join(found[0].split()), json.dumps(content, indent=1)
    )
    (folder / f"{study.name}.json").write_text(text + "\n")  # a list a line
    picture(study, results, folder / f"{study.name}.png")


def cost_of(results: Sequence[Result]) -> dict[str, float]:
    """Of all methods together."""
    evaluations, computed, seconds, network = (
        sum(parts) for parts in zip(*map(Result.cost, results), strict=True)
    )
    return {
        "evaluations": evaluations,
        "computed": computed,
        "processor_seconds": round(seconds, 1),
        "computed_a_processor_second": round(computed / seconds),
        "share_of_time_in_the_network": round(network / seconds, 3),
    }


def curves(results: Sequence[Result]) -> xr.Dataset:
    """change (explainer, instance, share); a dimension "method" would clash with an option of
    xarray's `sel`."""
    change = np.stack([each.change for each in results])
    names = np.array([each.method for each in results], dtype=np.dtypes.StringDType())
    coordinates = {"explainer": names, "share": SHARES}
    attributes = {"long_name": "change in log-odds of the predicted class"}
    return xr.Dataset(
        {"change": (("explainer", "instance", "share"), change, attributes)}, coords=coordinates
    )


def machine() -> dict[str, str]:
    """What it ran on."""
    versions = {name: version(name) for name in PACKAGES if find_spec(name) is not None}
    return {
        "processor": platform.machine(),
        "cores": str(n_cores()),
        "python": platform.python_version(),
        **versions,
    }


def picture(study: Study, results: Sequence[Result], path: Path) -> None:
    """Mean change against the share that is masked, a panel for each place of others, baselines in
    both.

    Bands are one standard error wide at each side.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {title: of_panel(results, end) for title, end in PANELS.items()}
    figure = Figure(figsize=(6.4 * len(shown), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    both = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for axes, (title, drawn) in zip(both, shown.items(), strict=True):
        draw(axes, drawn)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("% of the features masked, top-ranked first")
    both[0].set_ylabel("change in log-odds of the predicted class")
    figure.legend(
        *both[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=8,
    )
    figure.suptitle(
        f"{study.title}, {len(study.rows):,} test instances", fontsize=11, fontweight="bold"
    )
    figure.savefig(path, dpi=100)


def of_panel(results: Sequence[Result], end: str) -> dict[str, Result]:
    """Name -> result: of L-Shapley and C-Shapley those whose names end so, and all baselines."""
    is_graph = [each.method.startswith(GRAPH) for each in results]
    names = [each.method.removesuffix(PRESENT) for each in results]
    ends = [PRESENT if each.method.endswith(PRESENT) else "" for each in results]
    return {
        name: each
        for each, name, of, own in zip(results, names, is_graph, ends, strict=True)
        if not of or own == end
    }


def draw(axes: Any, results: Mapping[str, Result]) -> None:
    """The curve of each; those of neighbours as lines, baselines broken."""
    for (name, each), colour in zip(results.items(), COLOURS, strict=False):
        mean, error = each.change.mean(axis=0), each.change.std(axis=0) / np.sqrt(len(each.change))
        line = "-" if name.startswith(GRAPH) else "--"
        axes.plot(100 * SHARES, mean, line, color=colour, label=name)
        axes.fill_between(
            100 * SHARES, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0
        )
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
