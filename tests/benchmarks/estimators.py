"""Mean squared error of estimated Shapley values at equal numbers of evaluations: dshap's designs,
shapiq, LightSHAP.

Games of boosted trees on four tables, v_S(x) the mean prediction over background rows with the
columns of S from x, and the ten of `tests.benchmarks.model_games`: trees, networks, machines, text,
an image, votes.  Truth is every coalition or another program (for 38 players of trees shap's
interventional TreeSHAP of the same model and background).  A budget is a number of distinct
coalitions, the empty and the full one counted.  dshap's designs are shared by all instances, so a
seed is one design; peers draw anew for each instance.  LightSHAP, which stops by a tolerance, gets
as many iterations as come to the budget.  Programs that are not installed (`pip install -e
'.[bench]'`) are left out by name.

Usage: python -m tests.benchmarks.estimators [--data FOLDER] [--tables california adult bike lol]
[--budgets 4 16 64]
       [--coalitions 256 2048] [--seeds 100] [--peer-seeds 10] [--instances 50] [--compared 10]
       [--only OddSHAP MSR] [--without ProxySPEX] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from dshap import designs
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design
from tests.benchmarks.games import estimated, settled
from tests.benchmarks.model_games import MAX_TABLE, MODELS, ModelGames, RowGames, by_tree_shap
from tests.benchmarks.peers import write_json

BUDGETS = (4, 16, 64)
"""Coalitions a player, where nothing else is asked."""
FITTED_ROWS = 8_000
PILOT_SHARE = 16
"""As in a plan: kriging's decay is chosen from one row in so many."""
EVERY_PEER_SECONDS = 0.2
"""A peer that takes longer than this for a run gets a tenth of the seeds, and at least one."""


@dataclass(frozen=True)
class Table:
    """Where a table lies and what is fitted on it."""

    file: str
    target: str
    left_out: tuple[str, ...]
    is_class: bool
    n_background: int
    output: str
    """predict, predict_proba or decision_function."""
    depth: int = 5


TABLES: Mapping[str, Table] = {
    "california": Table("california_housing", "MedHouseVal", (), False, 20, "predict"),
    "adult": Table("adult", "income_gt_50k", ("split", "education", "fnlwgt"), True, 20, "predict_proba", 4),
    "bike": Table(
        "bike_hour", "count", ("instant", "dteday", "casual", "registered"), False, 20, "predict", 6
    ),
    "lol": Table("lol_diamond_10min", "blueWins", ("gameId",), True, 5, "decision_function", 4),
}  # fmt: skip


def games_of(name: str, folder: Path, n: int) -> ModelGames:
    """A model fitted on a table, n of its other rows and a background."""
    if name in MODELS:
        return MODELS[name](folder, n)
    table = TABLES[name]
    frame = pd.read_parquet(folder / f"{table.file}.parquet").drop(columns=list(table.left_out))
    y = frame.pop(table.target).to_numpy()
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype("category").cat.codes
    return fitted(name, frame.to_numpy(float), y, table, n)


def made_up_games(name: str, n: int) -> ModelGames:
    """The same of made-up rows, for the tiny form."""
    x = np.random.default_rng(0).normal(size=(600, 6 if name != "lol" else 18))
    y = np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * (x[:, 3] > 0) + x[:, 4]
    return fitted(name, x, y > y.mean() if TABLES[name].is_class else y, TABLES[name], n)


def fitted(name: str, x: FloatArray, y: np.ndarray, table: Table, n: int) -> ModelGames:
    order = np.random.default_rng(0).permutation(len(x))
    options = {"n_estimators": 150, "max_depth": table.depth, "random_state": 0}
    kind = GradientBoostingClassifier if table.is_class else GradientBoostingRegressor
    chosen = order[:FITTED_ROWS][: len(x) // 2]
    model = kind(**options).fit(x[chosen], y[chosen])
    call = getattr(model, table.output)

    def predict(rows: FloatArray) -> FloatArray:
        values = np.asarray(call(rows), dtype=float)
        return values[:, -1] if values.ndim == 2 else values

    background = x[order[-table.n_background :]]
    phi = by_tree_shap(model) if x.shape[1] > MAX_TABLE else None
    return RowGames(
        name, x[order[-table.n_background - n : -table.n_background]], background, predict, phi
    )


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    table: str
    n_players: int
    budget: int
    program: str
    is_peer: bool
    error: float
    """Mean over instances, players and seeds of the squared error."""
    runs: int
    evaluations: float
    """Distinct coalitions, mean over the runs."""
    seconds: float
    """Of one run, without the model's."""


OWN: Mapping[str, Callable[[int, int, int], Design]] = {
    "dshap kriging (auto)": lambda d, m, seed: designs.kriging(d, m, seed=seed, n_replicates=0),
    "dshap kernelshap leverage": lambda d, m, seed: designs.kernelshap(
        d, m, seed=seed, n_replicates=0
    ),
    "dshap kernelshap kernel": lambda d, m, seed: designs.kernelshap(
        d, m, sampling="kernel", seed=seed, n_replicates=0
    ),
    "dshap permutation": lambda d, m, seed: designs.permutation(
        d, max(2, (m - 2) // (2 * (d - 1)) * 2), seed=seed, n_replicates=0
    ),
}


class Pilot:
    """Values of the rows that a plan's pilot takes, and the seconds that they take."""

    def __init__(self, games: ModelGames) -> None:
        self.games, self.seconds = games, 0.0

    def values(self, masks: BoolArray, n_coalitions: int) -> FloatArray:
        start, n = time.perf_counter(), self.games.n_instances
        rows = min(n, 16, max(n // PILOT_SHARE, min(n, 3)) * (n_coalitions // len(masks)))
        chosen = np.linspace(0, n - 1, rows).round().astype(int)
        values = np.array([self.games.values(i, masks) for i in chosen])
        self.seconds += time.perf_counter() - start
        return values


def own_results(games: ModelGames, truth: FloatArray, budget: int, seeds: int) -> list[Result]:
    """The designs of dshap, each shared by all instances; errors of the first ones, whose truth (n,
    d) is given."""
    d, n, out = games.n_players, len(truth), []
    for name, make in OWN.items():
        errors, seconds, sizes = [], 0.0, []
        for seed in range(seeds):
            design = make(d, budget, seed)
            pilot, most = Pilot(games), design.n_coalitions
            start = time.perf_counter()
            design = settled(
                design, lambda masks, pilot=pilot, most=most: pilot.values(masks, most)
            )
            seconds -= pilot.seconds
            masks = design.masks
            seconds += time.perf_counter() - start
            values = np.array([games.values(i, masks) for i in range(n)])
            start = time.perf_counter()
            phi, _ = estimated(design, values)
            seconds += time.perf_counter() - start
            errors.append(np.square(phi - truth).mean())
            sizes.append(design.n_coalitions)
        out.append(
            Result(games.name, d, budget, name, False, float(np.mean(errors)), n * seeds, float(np.mean(sizes)),
                   seconds / seeds / n)
        )  # fmt: skip
    return out


Peer = Callable[[Callable[[BoolArray], FloatArray], int, int, int], FloatArray]
"""(game: masks (m, d) -> v (m,), d, budget, seed) -> phi (d,)"""


def shapiq_peers() -> dict[str, Peer]:
    """shapiq's approximators of Shapley values."""
    try:
        import shapiq.approximator as approximators
    except ImportError:
        print("shapiq: left out, it is not installed")
        return {}

    def peer(kind: str, **options: Any) -> Peer:
        def run(
            game: Callable[[BoolArray], FloatArray], d: int, budget: int, seed: int
        ) -> FloatArray:
            kinds = getattr(approximators, kind, None)
            if kinds is None:
                raise ImportError(f"this version of shapiq has no {kind}")
            made = kinds(n=d, random_state=seed, **options)
            return np.asarray(made.approximate(budget, game).get_n_order_values(1))

        return run

    paired = {"pairing_trick": True}
    return {
        "shapiq KernelSHAP": peer("KernelSHAP"),
        "shapiq KernelSHAP, paired": peer("KernelSHAP", **paired),
        "shapiq kADDSHAP 2, paired": peer("kADDSHAP", max_order=2, **paired),
        "shapiq kADDSHAP 3, paired": peer("kADDSHAP", max_order=3, **paired),
        "shapiq SVARM, paired": peer("SVARM", **paired),
        "shapiq UnbiasedKernelSHAP, paired": peer("UnbiasedKernelSHAP", **paired),
        "shapiq PermutationSamplingSV": peer("PermutationSamplingSV"),
        "shapiq StratifiedSamplingSV": peer("StratifiedSamplingSV"),
        "shapiq OwenSamplingSV": peer("OwenSamplingSV", n_anchor_points=10),
        "shapiq ProxySPEX": peer("ProxySPEX", index="SV", max_order=1),
        "shapiq RegressionMSR": peer("RegressionMSR", index="SV"),
        "shapiq OddSHAP": peer("OddSHAP"),
    }


def lightshap_peers() -> dict[str, Peer]:
    """LightSHAP's estimators; a game is the model of a row of ones with a background of zeros."""
    try:
        import lightshap
    except ImportError:
        print("LightSHAP: left out, it is not installed")
        return {}
    iterations: dict[tuple[str, str, int, int], int] = {}

    def peer(method: str, how: str) -> Peer:
        def once(
            game: Callable[[BoolArray], FloatArray], d: int, most: int, seed: int
        ) -> FloatArray:
            options = {
                "method": method,
                "how": how,
                "max_iter": most,
                "tol": 0.0,
                "random_state": seed,
            }
            found = lightshap.explain_any(
                lambda x: game(np.asarray(x) > 0.5),
                np.ones((1, d)),
                bg_X=np.zeros((1, d)),
                verbose=False,
                **options,
            )
            return np.asarray(found.shap_values).ravel()

        def run(
            game: Callable[[BoolArray], FloatArray], d: int, budget: int, seed: int
        ) -> FloatArray:
            key = (method, how, d, budget)
            if key not in iterations:
                iterations[key] = iterations_within(
                    lambda counted, most: once(counted, d, most, seed), game, budget
                )
            if not iterations[key]:
                raise ValueError("one iteration takes more than the budget")
            return once(game, d, iterations[key], seed)

        return run

    return {
        "LightSHAP kernel, sampling": peer("kernel", "sampling"),
        "LightSHAP kernel, hybrid 1": peer("kernel", "h1"),
        "LightSHAP kernel, hybrid 2": peer("kernel", "h2"),
        "LightSHAP permutation": peer("permutation", "sampling"),
    }


def iterations_within(
    run: Callable[[Any, int], Any], game: Callable[[BoolArray], FloatArray], budget: int
) -> int:
    """The most iterations that evaluate at most 2 % more distinct coalitions than the budget; 0:
    not even one."""
    low, high = 0, 1

    def fits(most: int) -> bool:
        counted = Counted(game)
        run(counted, most)
        return len(counted.seen) <= 1.02 * budget

    while high < 4 * budget and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Counted:
    """A game that remembers what it was asked for."""

    def __init__(self, game: Callable[[BoolArray], FloatArray]) -> None:
        self.game, self.seen, self.seconds = game, set[bytes](), 0.0

    def __call__(self, masks: BoolArray) -> FloatArray:
        start = time.perf_counter()
        masks = np.atleast_2d(masks).astype(bool)
        self.seen.update(row.tobytes() for row in np.packbits(masks, axis=1))
        values = self.game(masks)
        self.seconds += time.perf_counter() - start
        return values


def peer_results(
    games: ModelGames, truth: FloatArray, budget: int, seeds: int, taken: Callable[[str], bool]
) -> list[Result]:
    """Every peer that is installed and taken by its name, instance by instance."""
    d, out = games.n_players, []
    for name, peer in {**shapiq_peers(), **lightshap_peers()}.items():
        if not taken(name):
            continue
        errors, seconds, sizes, left = [], [], [], seeds
        try:
            for seed in range(seeds):
                if seed >= left:
                    break
                for i in range(len(truth)):
                    game = Counted(lambda masks, i=i: games.values(i, masks))
                    start = time.perf_counter()
                    phi = peer(game, d, budget, seed)
                    seconds.append(time.perf_counter() - start - game.seconds)
                    errors.append(np.square(phi - truth[i]).mean())
                    sizes.append(len(game.seen))
                if np.median(seconds) > EVERY_PEER_SECONDS:
                    left = max(1, seeds // 10)
        except Exception as error:
            print(f"{name} with {budget} coalitions of {d}: {type(error).__name__}: {error}")
            continue
        out.append(
            Result(games.name, d, budget, name, True, float(np.mean(errors)), len(errors), float(np.mean(sizes)),
                   float(np.mean(seconds)))
        )  # fmt: skip
    return out


def show(results: list[Result]) -> None:
    """A table, the least error first; the ratio is to the best peer."""
    best = min((own.error for own in results if own.is_peer), default=np.nan)
    first = results[0]
    print(f"\n{first.table}: {first.n_players} players, {first.budget} coalitions")
    print(
        f"{'':<38}{'mean squared error':>20}{'× best peer':>13}{'coalitions':>12}{'runs':>8}{'s/run':>9}"
    )
    for own in sorted(results, key=lambda each: each.error):
        print(
            f"{own.program:<38}{own.error:>20.3e}{own.error / best:>13.3g}{own.evaluations:>12,.0f}{own.runs:>8,}"
            f"{own.seconds:>9.4f}",
            flush=True,
        )


def main(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    n, seeds, peer_seeds = (
        (4, 2, 1) if given.tiny else (given.instances, given.seeds, given.peer_seeds)
    )
    every = []

    def taken(name: str) -> bool:
        only = not given.only or any(word in name for word in given.only)
        return only and not any(word in name for word in given.without)

    for name in given.tables:
        games = made_up_games(name, n) if given.tiny else games_of(name, given.data, n)
        d, truth = games.n_players, games.truth(min(n, given.compared or n))
        budgets = given.coalitions or [multiple * d for multiple in given.budgets]
        for budget in budgets[:2] if given.tiny else budgets:
            if budget >= 2**d:
                print(f"\n{name}: {budget} are all coalitions of {d} players, and exact")
                continue
            results = own_results(games, truth, budget, seeds) + peer_results(
                games, truth, budget, peer_seeds, taken
            )
            show(results)
            every += results
            write_json(given.json, {"results": [asdict(own) for own in every]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the Parquet files")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=[*TABLES, *MODELS])
    parser.add_argument(
        "--budgets", nargs="+", type=int, default=BUDGETS, help="coalitions a player"
    )
    parser.add_argument(
        "--coalitions", nargs="+", type=int, help="coalitions, instead of --budgets"
    )
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--compared", type=int, help="the first so many of them are compared; all")
    parser.add_argument("--seeds", type=int, default=100, help="of dshap's designs")
    parser.add_argument(
        "--peer-seeds", type=int, default=10, help="of the peers, which run instance by instance"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="peers of this name")
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="WORD", help="leave out peers of this name"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--tiny", action="store_true", help="seconds instead of an hour, made-up tables"
    )
    main(parser.parse_args())
