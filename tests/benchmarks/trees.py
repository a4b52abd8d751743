"""`Trees` beside the library's own contributions: LightGBM and XGBoost, with categories and
without.

A table of 12 columns, four of them pandas categories where there are any; 100 boosted trees.  The
library is given the frame and all threads of the process, as a user calls it; dshap is given the
same frame, checks it, plans and returns a cube in memory, `Trees(model)` counted.  Calls are taken
in turn, and the least seconds count, by the clock and, where others share the machine, of the
process: at 1,000 rows the fixed cost, asked to be at most 1.5 times the library's and 0.3 s.  The
last column is the largest difference of an attribution, relative to the largest contribution.

Usage: python -m tests.benchmarks.trees [--tiny] [--rows N ...] [--json OUT]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dshap
from dshap.values import Trees
from tests.benchmarks.peers import machine, peak_mib, write_json

N_COLUMNS, N_CATEGORICAL = 12, 4
CATEGORIES = (3, 8, 25, 100)
"""Of the columns that have any."""
FACTOR, FIXED = 1.5, 0.3
"""Asked at 1,000 rows: times the library's seconds, and seconds beside."""


@dataclass(frozen=True)
class Result:
    """One line of the table; seconds."""

    library: str
    has_categories: bool
    rows: int
    by_library: float
    by_dshap: float
    of_trees: float
    """`Trees(model)`, a part of `by_dshap`."""
    of_processor: tuple[float, float]
    """Of all threads: the library's, and dshap's."""
    difference: float

    @property
    def ratio(self) -> float:
        return self.by_dshap / self.by_library


def table(n: int, has_categories: bool) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """A frame of n rows, and y (n,) with interactions of numbers and categories."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(n, N_COLUMNS)), columns=[f"x{j}" for j in range(N_COLUMNS)]
    )
    codes = rng.integers(0, CATEGORIES, (n, N_CATEGORICAL))
    y = (
        frame["x5"] * (codes[:, 0] - 1)
        + np.sin(codes[:, 2]) * frame["x6"] * frame["x7"]
        + np.cos(codes[:, 3])
    )
    for j, many in enumerate(CATEGORIES):
        words = [f"c{code:03d}" for code in rng.permutation(many)]
        frame[f"x{j}"] = (
            pd.Categorical.from_codes(codes[:, j], words)
            if has_categories
            else codes[:, j].astype(float)
        )
    return frame, (y + np.sin(frame["x8"])).to_numpy()


def lightgbm_model(x: Any, y: Any, n_trees: int) -> tuple[Any, Callable[[Any], Any]]:
    import lightgbm

    model = lightgbm.LGBMRegressor(n_estimators=n_trees, verbose=-1).fit(x, y)
    return model, lambda rows: model.predict(rows, pred_contrib=True)


def xgboost_model(x: Any, y: Any, n_trees: int) -> tuple[Any, Callable[[Any], Any]]:
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=5, enable_categorical=True).fit(
        x, y
    )
    booster = model.get_booster()
    return model, lambda rows: booster.predict(
        xgboost.DMatrix(rows, enable_categorical=True), pred_contribs=True
    )


LIBRARIES: Mapping[str, Callable[..., Any]] = {"LightGBM": lightgbm_model, "XGBoost": xgboost_model}


def measured(
    name: str, has_categories: bool, sizes: Mapping[int, int], n_trees: int
) -> list[Result]:
    """One library at every size, which is taken so many times."""
    x, y = table(max(20_000, *sizes), has_categories)
    model, contributions = LIBRARIES[name](x[:20_000], y[:20_000], n_trees)
    results = []
    for n, repeats in sizes.items():
        rows, ways = (
            x[:n],
            (contributions, lambda rows: explained(model, rows), lambda rows: Trees(model)),
        )
        best, found = np.full((len(ways), 2), np.inf), [None] * len(ways)
        for _ in range(repeats):
            for i, way in enumerate(ways):
                start = time.perf_counter(), time.process_time()
                found[i] = way(rows)
                taken = time.perf_counter() - start[0], time.process_time() - start[1]
                best[i] = np.minimum(best[i], taken)
        wanted: Any = found[0]
        difference = np.abs(np.asarray(found[1]) - wanted[:, :-1]).max() / np.abs(wanted).max()
        processor = (float(best[0, 1]), float(best[1, 1]))
        results.append(
            Result(name, has_categories, n, *best[:, 0].tolist(), processor, float(difference))
        )
        show(results[-1])
    return results


def explained(model: Any, rows: Any) -> Any:
    return dshap.explain(Trees(model), rows, progress=False).attribution.values[..., 0]


def show_heads() -> None:
    heads = (("rows", 9), ("library", 12), ("dshap", 12), ("of it Trees()", 15), ("ratio", 8), ("rows/s", 10),
             ("processor", 20), ("asked", 12), ("differs", 10))  # fmt: skip
    print("\n" + " " * 22 + "".join(f"{head:>{width}}" for head, width in heads))


def show(result: Result) -> None:
    asked = f"{FACTOR * result.by_library + FIXED:10.3f} s" if result.rows == 1_000 else ""
    kind = f"{result.library}{', categories' if result.has_categories else ''}"
    processor = "{:.3f}, {:.3f} s".format(*result.of_processor)
    seconds = f"{result.by_library:>10.3f} s{result.by_dshap:>10.3f} s{result.of_trees:>13.3f} s"
    rates = f"{result.ratio:>8.2f}{result.rows / result.by_dshap:>10,.0f}{processor:>20}"
    print(
        f"{kind:<22}{result.rows:>9,}{seconds}{rates}{asked:>12}{result.difference:>10.1e}",
        flush=True,
    )


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="100 rows and 10 trees")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    sizes, n_trees = (
        ({100: 1}, 10) if given.tiny else ({n: 7 if n <= 1_000 else 1 for n in given.rows}, 100)
    )
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    show_heads()
    results = [
        own
        for name in LIBRARIES
        for with_some in (False, True)
        for own in measured(name, with_some, sizes, n_trees)
    ]
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    write_json(given.json, {"results": [{**asdict(own), "ratio": own.ratio} for own in results]})


if __name__ == "__main__":
    main()
