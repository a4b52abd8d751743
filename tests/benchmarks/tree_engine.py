"""The engine of `Trees` beside the libraries' own TreeSHAP, shap and woodelf: seconds of one core.

Rows of 20 normal columns with interactions of every order, 100 trees.  Each side is called in turn,
three times, and its median of processor seconds a row is printed, with the ratio and the largest
difference of a value, relative to the largest.  Tables are made beforehand, and their seconds are
printed apart; a peer gets the fewer rows that the last column names, as its time grows evenly.

Rows of `woodelf-explainer` appear where it is installed, and count the seconds of everything:
counting the background, tables, and rows.

Usage: python -m tests.benchmarks.tree_engine [--tiny] [--only NAME ...] [--json OUT]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dshap.trees.exact import Division, ExactTrees
from dshap.values import Trees
from tests.benchmarks.peers import machine, write_json

D = 20
REPEATS = 3


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    fitted: int
    trees: int
    rows: int
    peer_rows: int
    both: int
    """Rows and background rows beside woodelf."""


FULL = Size(20_000, 100, 16_384, 400, 160_000)
TINY = Size(500, 4, 200, 50, 200)


@dataclass(frozen=True)
class Result:
    """One line: seconds of one core for a row, or of all where a line says so."""

    name: str
    peer: str
    ours: float
    theirs: float
    prepared: float
    """Seconds of the tables, made once."""
    difference: float
    asked: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def table(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, D)).astype(np.float32).astype(float)
    y = np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3] + 0.3 * x[:, 4:10].sum(axis=1)
    return x, y + 0.3 * rng.normal(size=n)


def xgboost_model(size: Size) -> Any:
    import xgboost

    x, y = table(size.fitted)
    return xgboost.train(
        {"max_depth": 6, "eta": 0.1, "nthread": 1}, xgboost.DMatrix(x, y), size.trees
    )


def lightgbm_model(size: Size, leaves: int) -> Any:
    import lightgbm

    x, y = table(size.fitted)
    given = {"num_leaves": leaves, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    return lightgbm.train(given, lightgbm.Dataset(x, y), size.trees)


def of_xgboost(size: Size) -> Iterator[Result]:
    import xgboost

    model = xgboost_model(size)
    peer = f"XGBoost {xgboost.__version__}"

    def theirs(rows: Any, **what: bool) -> Any:
        return model.predict(xgboost.DMatrix(rows, nthread=1), **what)

    yield beside(
        "xgboost",
        peer,
        model,
        size,
        lambda rows: theirs(rows, pred_contribs=True)[:, :-1],
        asked=60.0 if xgboost.__version__ < "3.3" else 20.0,
    )

    def of_pairs(rows: Any) -> Any:
        i, j = np.triu_indices(D, 1)
        return 2 * theirs(rows, pred_interactions=True)[:, i, j]

    yield beside("xgboost pairs", peer, model, size, of_pairs, asked=10.0, pairs=True)


def of_lightgbm(size: Size) -> Iterator[Result]:
    import lightgbm

    for leaves, asked in ((31, 15.0), (255, 3.0)):
        model = lightgbm_model(size, leaves)

        def theirs(rows: Any, model: Any = model) -> Any:
            return model.predict(rows, pred_contrib=True, num_threads=1)[:, :-1]

        name = f"lightgbm, {leaves} leaves"
        yield beside(name, f"LightGBM {lightgbm.__version__}", model, size, theirs, asked=asked)


def of_forest(size: Size) -> Iterator[Result]:
    import shap
    from sklearn.ensemble import RandomForestRegressor

    x, y = table(size.fitted)
    model = RandomForestRegressor(size.trees, random_state=0).fit(x, y)
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    few = Size(size.fitted, size.trees, min(200, size.rows), 10, 0)
    yield beside(
        "forest of any depth",
        f"shap {shap.__version__}",
        model,
        few,
        lambda rows: explainer.shap_values(rows, check_additivity=False),
        asked=5.0,
    )


def of_one_row(size: Size) -> Iterator[Result]:
    """One row at a time, beside 0.2 ms; other rows in between, so that caches are not kept warm."""
    exact = exact_of(xgboost_model(size))[0]
    x, _ = table(size.rows)
    exact.values(x[:1])
    taken = []
    for i in range(min(2_000, len(x))):
        start = time.perf_counter()
        exact.values(x[i : i + 1])
        taken.append(time.perf_counter() - start)
    yield Result("one row", "0.2 ms", median(taken), 2e-4, 0.0, 0.0, 1.0)


def of_woodelf(size: Size) -> Iterator[Result]:
    try:
        import pandas as pd
        from woodelf import WoodelfExplainer
    except ImportError:
        print("woodelf-explainer is not installed: without its lines")
        return
    import xgboost

    x, y = table(size.fitted)
    names = [f"f{j}" for j in range(D)]
    model = xgboost.XGBRegressor(
        n_estimators=size.trees, max_depth=6, learning_rate=0.1, n_jobs=1
    ).fit(pd.DataFrame(x, columns=names), y)
    rows = pd.DataFrame(table(2 * size.both)[0].astype(np.float32), columns=names)
    background, rows = rows[: size.both], rows[size.both :]
    i, j = np.triu_indices(D, 1)
    for name, n, asked in (("woodelf", size.both, 1 / 0.3), ("woodelf pairs", size.both // 4, 2.0)):
        pairs = name == "woodelf pairs"

        def theirs(pairs: bool = pairs, n: int = n) -> Any:
            explainer = WoodelfExplainer(model, background[:n])
            if pairs:
                found = np.asarray(explainer.shap_interaction_values(rows[:n]))
                return found[:, i, j] * 2
            return np.asarray(explainer.shap_values(rows[:n]))

        def ours(pairs: bool = pairs, n: int = n) -> Any:
            trees = Trees(model).model.trees
            division = Division.of(trees, np.arange(D), is_counted=True)
            counted = division.counted(background[:n].to_numpy(float), np.ones(n, np.int64))
            exact = ExactTrees.of(trees, np.arange(D), counted, pairs=pairs)
            return exact.values(rows[:n].to_numpy(float))[..., 0]

        found, wanted = ours(), theirs()
        seconds = [(timed(ours), timed(theirs)) for _ in range(REPEATS)]
        yield Result(
            f"{name}, {n:,} × {n:,}, all of it",
            "woodelf-explainer",
            median(own for own, _ in seconds),
            median(other for _, other in seconds),
            0.0,
            float(np.abs(found - wanted).max() / np.abs(wanted).max()),
            asked,
        )


def exact_of(model: Any, *, pairs: bool = False) -> tuple[ExactTrees, float]:
    trees = Trees(model).model.trees
    ExactTrees.of(trees, np.arange(D), pairs=pairs)  # compiled
    start = time.process_time()
    exact = ExactTrees.of(trees, np.arange(D), pairs=pairs)
    return exact, time.process_time() - start


def timed(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def beside(
    name: str,
    peer: str,
    model: Any,
    size: Size,
    theirs: Callable[[Any], Any],
    *,
    asked: float,
    pairs: bool = False,
) -> Result:
    """Both sides in turn, and the median of each, for a row."""
    exact, prepared = exact_of(model, pairs=pairs)
    x, _ = table(size.rows)
    few = x[: size.peer_rows]
    found, wanted = exact.values(few)[..., 0], theirs(few)
    seconds = [
        (timed(lambda: exact.values(x)) / len(x), timed(lambda: theirs(few)) / len(few))
        for _ in range(REPEATS)
    ]
    return Result(
        name,
        peer,
        median(own for own, _ in seconds),
        median(other for _, other in seconds),
        prepared,
        float(np.abs(found - wanted).max() / np.abs(wanted).max()),
        asked,
    )


CASES = {
    "xgboost": of_xgboost,
    "lightgbm": of_lightgbm,
    "forest": of_forest,
    "one_row": of_one_row,
    "woodelf": of_woodelf,
}


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="4 trees and 200 rows")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    size = TINY if given.tiny else FULL
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    heads = (f"{'':<36}{'':<20}{'dshap':>12}{'peer':>12}{'ratio':>8}{'asked':>8}",)
    print(*heads, f"{'tables':>10}{'differs':>10}")
    results = []
    for case in given.only:
        for each in CASES[case](size):
            results.append(each)
            seconds = f"{1e6 * each.ours:>9,.1f} µs{1e6 * each.theirs:>9,.1f} µs"
            print(
                f"{each.name:<36}{each.peer:<20}{seconds}{each.ratio:>8.1f}{each.asked:>8.1f}"
                f"{each.prepared:>8.2f} s{each.difference:>10.1e}",
                flush=True,
            )
    write_json(given.json, {"results": [{**asdict(own), "ratio": own.ratio} for own in results]})


if __name__ == "__main__":
    main()
