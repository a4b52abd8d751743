"""Seconds for a small table: 8,000 rows, 100 of them explained, 8 features, 100 landmarks.

All 254 proper coalitions, learning included, compiled loops warm.  "numerics" are the value
function's own methods in this process on one core; `dshap.explain` adds checks, plan, states and a
cube in memory, in this process and on two workers of one thread.  Beside them what was published of
the maintained fork of RKHS-SHAP (mi-6/rkhs-shap) for as many coalitions, landmarks and explained
rows.

Usage: python -m tests.benchmarks.small_table [--tiny] [--profile] [--json OUT]
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import itertools
import pstats
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap import designs
from dshap.core.blocks import N_ENDS
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.core.types import ValueFunction
from dshap.engine import local_client, shut_down
from dshap.kernels import RBF, Nystrom
from dshap.loops import warm_up
from dshap.models import KernelExpansion, KernelRidge
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational
from tests.benchmarks.peers import machine, median_seconds, peak_mib, write_json

D, EXPLAINED, PENALTY = 8, 100, 1e-4
DESIGN = designs.exact(D)
MASKS = DESIGN.masks[N_ENDS:]
PUBLISHED = {("KernelInterventional", 8_000): 115.0, ("KernelObservational", 4_000): 37.0}
"""(value function, rows) -> seconds of the fork"""
ASKED = {"KernelInterventional": 1.0, "KernelObservational": 3.0, "ConditionalRegression": 3.0}
"""Seconds at most, for 8,000 rows."""
SHOWN = 12
"""Lines of a profile."""


@dataclass(frozen=True)
class Result:
    """One line of the table; seconds, the median of three."""

    value: str
    rows: int
    learning: float
    """Landmarks, sums over all rows, solves."""
    evaluation: float
    explain: float
    """`dshap.explain(store=None)`, everything, in this process."""
    on_workers: float
    """The same on two workers of one thread."""

    @property
    def added(self) -> float:
        """What `dshap.explain` adds to the numerics."""
        return self.explain - self.learning - self.evaluation


def table(n: int) -> tuple[FloatArray, FloatArray]:
    """x (n, D), neighbours correlated, and y (n,)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, D))
    for column in range(1, D):
        x[:, column] = 0.6 * x[:, column - 1] + 0.8 * x[:, column]
    return x, np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4:].sum(
        axis=1
    ) + 0.1 * rng.standard_normal(n)


def interventional(model: KernelExpansion, x: FloatArray) -> ValueFunction:
    return KernelInterventional(model, x)


def observational(model: KernelExpansion, x: FloatArray) -> ValueFunction:
    return KernelObservational(model, x, Nystrom(landmarks=model.landmarks), PENALTY)


def regression(model: KernelExpansion, x: FloatArray) -> ValueFunction:
    return ConditionalRegression(
        model.predict, x, model.kernel, Nystrom(landmarks=model.landmarks), PENALTY
    )


VALUES: dict[str, Callable[[KernelExpansion, FloatArray], ValueFunction]] = {
    "KernelInterventional": interventional,
    "KernelObservational": observational,
    "ConditionalRegression": regression,
}
"""Those with an embedding share the model's landmarks."""


def measured(name: str, model: KernelExpansion, x: FloatArray, client: Any) -> Result:
    """Numerics alone, and the whole of `dshap.explain`, here and on workers."""
    value, rows = VALUES[name](model, x), x[:EXPLAINED]
    learn = functools.partial(learnt, name, model, x)
    with one_blas_thread():
        state = learn()
        learning = median_seconds(learn)
        evaluation = median_seconds(
            lambda: np.einsum("nmk,md->ndk", value.evaluate(state, rows), DESIGN.operator[2:])
        )
    seconds = []
    for own in (None, client):
        explain = functools.partial(explained, name, model, x, own)
        explain()
        seconds.append(median_seconds(explain))
    return Result(name, len(x), learning, evaluation, *seconds)


def learnt(name: str, model: KernelExpansion, x: FloatArray) -> object:
    """All that no explained row changes, anew."""
    value = VALUES[name](model, x)
    return value.prepare(MASKS, value.moments(MASKS, x))


def explained(name: str, model: KernelExpansion, x: FloatArray, client: Any = None) -> object:
    """The same by `dshap.explain` into memory, in this process where there is no client."""
    return dshap.explain(
        VALUES[name](model, x), x[:EXPLAINED], design=DESIGN, progress=False, client=client
    )


def profile(name: str, model: KernelExpansion, x: FloatArray) -> None:
    """Where `dshap.explain` spends its time, functions by their own time."""
    with cProfile.Profile() as profiler:
        explained(name, model, x)
    print(f"\n{name}, {len(x):,} rows:")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(SHOWN)


def show(results: list[Result]) -> None:
    """A table beside what was published."""
    heads = (
        ("rows", 22),
        ("learning", 11),
        ("evaluation", 12),
        ("explain adds", 14),
        ("dshap.explain", 15),
        ("2 workers", 11),
    )
    print(
        "\n"
        + " " * 11
        + "".join(f"{head:>{width}}" for head, width in heads)
        + f"{'asked':>8}{'published':>11}"
    )
    for own in results:
        asked = f"{ASKED[own.value]:.0f} s" if own.rows == 8_000 else ""
        published = PUBLISHED.get((own.value, own.rows))
        faster = (
            ""
            if published is None
            else f"{published:.0f} s, {published / own.explain:,.0f} times as long"
        )
        print(
            f"{own.value:<24}{own.rows:>9,}{own.learning:>9.3f} s{own.evaluation:>10.4f} "
            f"s{own.added:>12.3f} s"
            f"{own.explain:>13.3f} s{own.on_workers:>9.3f} s{asked:>8}   {faster}"
        )


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="1,000 rows and 30 landmarks")
    parser.add_argument(
        "--profile", action="store_true", help="where dshap.explain spends its time"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    sizes, landmarks = ((1_000,), 30) if given.tiny else ((8_000, 4_000), 100)
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    warm_up()
    x, y = table(sizes[0])
    model = KernelRidge(RBF(), Nystrom(landmarks), penalty=1e-6).fit(x, y).expansion_
    assert isinstance(model, KernelExpansion)
    client = local_client(2, "2GiB", set_as_default=False)
    try:
        results = [
            measured(name, model, x[:n], client) for n, name in itertools.product(sizes, VALUES)
        ]
    finally:
        shut_down(client)
    show(results)
    if given.profile:
        for name in VALUES:
            profile(name, model, x)
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    write_json(given.json, {"results": [{**asdict(own), "added": own.added} for own in results]})


if __name__ == "__main__":
    main()
