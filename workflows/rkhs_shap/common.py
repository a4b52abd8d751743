"""What the experiments share: options, means over seeds, one JSON with the machine, pictures of one
look."""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.cores import n_cores
from dshap.records import FloatArray
from dshap.report import require_matplotlib

__all__ = ["COLOURS", "SEED", "band", "options", "panels", "saved", "summary", "written"]

SEED = 0
SEEDS, TINY_SEEDS = 10, 2
"""Repetitions of the experiments on synthetic data."""
COLOURS = ("#33658a", "#f26419", "#86bbd8", "#f6ae2d", "#758e4f", "#7d5ba6")
PACKAGES = ("dshap", "numpy", "scipy", "numba", "shap")
DPI = 110
INNERMOST, LINE = re.compile(r"[\[{][^\[\]{}]*[\]}]"), 160
"""Lists and objects of JSON that hold no others; those that fit stand in a line of so many
characters."""


def options(
    about: str | None, argv: Sequence[str] | None, *, needs_data: bool = False
) -> argparse.Namespace:
    """--out, --tiny, and --data or --seeds, as the experiment is on real data or not."""
    require_matplotlib()
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the JSON and the pictures"
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="little data, made up where the experiment is on real ones",
    )
    if needs_data:
        parser.add_argument("--data", type=Path, help="folder that holds the data; not for --tiny")
    else:
        parser.add_argument("--seeds", type=int, help=f"repetitions (default {SEEDS})")
    given = parser.parse_args(argv)
    if needs_data and given.data is None and not given.tiny:
        parser.error("--data is the folder that holds the data; or give --tiny")
    if not needs_data:
        given.seeds = given.seeds or (TINY_SEEDS if given.tiny else SEEDS)
    given.started = time.process_time()
    return given


def summary(values: Iterable[float], digits: int = 4) -> dict[str, float]:
    """Mean and standard deviation over seeds."""
    all_values = np.fromiter(values, dtype=float)
    return {
        "mean": round(float(all_values.mean()), digits),
        "sd": round(float(all_values.std()), digits),
    }


def written(given: argparse.Namespace, name: str, content: Mapping[str, Any]) -> None:
    """NAME.json in the folder: the content, the processor time so far and the machine."""
    given.out.mkdir(parents=True, exist_ok=True)
    spent = round(time.process_time() - given.started, 1)
    whole = {"experiment": name, **content, "processor_seconds": spent, "machine": machine()}
    text = INNERMOST.sub(in_a_line, json.dumps(whole, indent=1, ensure_ascii=False))
    (given.out / f"{name}.json").write_text(text + "\n")
    print(f"{given.out / f'{name}.json'}: {spent:.1f} s of processor time", flush=True)


def in_a_line(found: re.Match[str]) -> str:
    """A list or an object without its line breaks, where that fits."""
    short = re.sub(r"(?<=[\[{]) | (?=[\]}])", "", " ".join(found[0].split()))
    return short if len(short) <= LINE else found[0]


def machine() -> dict[str, str]:
    """What it ran on."""
    versions = {name: version(name) for name in PACKAGES if find_spec(name) is not None}
    return {
        "processor": platform.machine(),
        "cores": str(n_cores()),
        "python": platform.python_version(),
        **versions,
    }


def panels(
    n_panels: int, title: str, width: float = 4.6, height: float = 4.0, rows: int = 1, **shared: Any
) -> tuple[Any, list[Any]]:
    """(figure, axes): so many panels side by side in each row, in one look."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_panels, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    all_axes = list(figure.subplots(rows, n_panels, squeeze=False, **shared).ravel())
    for axes in all_axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, all_axes


def band(
    axes: Any, x: Sequence[Any], of_seeds: FloatArray, colour: Any, label: str, line: str = "o-"
) -> None:
    """A line of means over seeds (seeds, x), with a band of one standard deviation at each side."""
    mean, sd = of_seeds.mean(axis=0), of_seeds.std(axis=0)
    axes.plot(x, mean, line, color=colour, label=label, ms=4)
    axes.fill_between(x, mean - sd, mean + sd, color=colour, alpha=0.2, linewidth=0)


def saved(figure: Any, path: Path) -> None:
    """The figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
    print(path, flush=True)
