"""Folded values of `KernelObservational`: multiplications saved, error on other rows, and seconds.

A kernel ridge of 256 landmarks for each table, and embeddings of the same landmarks, learned from
40,000 rows of the `SpreadOrder` (or all) for 62 proper coalitions.  "multiplications" is those of a
row without a fold over those with it, "seconds" the same of the processor seconds of a value, the
median of three.  "stated" is the largest error of a coalition, in % of a standard deviation of the
predictions, on the 2,048 rows that folds were checked on; "other rows" that on 4,000 rows that
neither choice nor check has seen, "largest" the largest difference of a value on these, and
"attribution" the root mean square error of attributions.

Usage: python -m tests.benchmarks.folding --data FOLDER [--tables lifts air] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dshap import designs
from dshap.attributors.state_notes import fold_error
from dshap.core.blocks import N_ENDS
from dshap.core.records import FloatArray, State
from dshap.core.spread import SpreadOrder
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational
from dshap.values.forms import CHECK_ROWS
from tests.benchmarks.enough import MADE_UP, TABLES, Sizes, table_of
from tests.benchmarks.peers import write_json

FITTED_ROWS = 15_000
OTHER_ROWS = 4_000
TIMED_ROWS = 1_024


@dataclass(frozen=True)
class Result:
    """One table."""

    table: str
    coalitions: int
    folded: int
    landmarks: float
    """The mean number of landmarks of a coalition that is folded."""
    of: int
    multiplications: float
    seconds: float
    """Without folds, over that with them."""
    stated: float
    other_rows: float
    largest: float
    attribution: float
    """Errors in standard deviations of the predictions."""

    def __str__(self) -> str:
        return (
            f"{self.table:12} {self.folded:4} of {self.coalitions:4} {self.landmarks:6.0f} of "
            f"{self.of:4} {self.multiplications:10.2f} {self.seconds:8.2f} {self.stated:9.4%} "
            f"{self.other_rows:10.4%} {self.largest:8.3%} {self.attribution:11.4%}"
        )


HEADER = (
    f"{'table':12} {'folded':>12} {'landmarks':>14} {'multiplic.':>10} {'seconds':>8} {'stated':>9} "
    f"{'other rows':>10} {'largest':>8} {'attribution':>11}"
)


def multiplications(state: State) -> float:
    """The multiplications of a row: a rectangle for each coalition, without squares less a triangle."""
    size, width = state["size"].astype(float), state["width"].astype(float)
    triangles = np.where(state["squares"] > 0, 0.0, width**2 / 2.0)
    return float((size * width - triangles).sum())


def seconds(value: Callable[[], FloatArray]) -> float:
    """Processor seconds of a call, the median of three."""
    times = []
    for _ in range(3):
        started = time.process_time()
        value()
        times.append(time.process_time() - started)
    return float(np.median(times))


def result(name: str, x: FloatArray, y: FloatArray, n_landmarks: int, n_rows: int) -> Result:
    """Measure one table."""
    d = x.shape[1]
    rng = np.random.default_rng(3)
    order = rng.permutation(len(x))
    others, rest = x[order[:OTHER_ROWS]], order[OTHER_ROWS:]
    fitted = rest[:FITTED_ROWS]
    model = KernelRidge(RBF("validate"), Nystrom(n_landmarks), penalty="validate", holdout=0.1)
    model.fit(x[fitted], y[fitted])
    rows = x[np.sort(rest)]
    learned = rows[SpreadOrder(len(rows)).positions(0, min(n_rows, len(rows)))]
    landmarks = Nystrom(landmarks=model.expansion_.landmarks)
    value = KernelObservational(model, learned, landmarks, "validate")
    checked = value.chosen(value.choose(learned[:CHECK_ROWS]))
    design = designs.kernelshap(d, 64)
    block = design.block(N_ENDS, design.info.n_coalitions)
    masks = block.masks
    moments = value.moments(masks, learned)
    whole, folded = value.prepare(masks, moments), checked.prepare(masks, moments)
    deviation = float(model.predict(others).std())
    gap = checked.evaluate(folded, others) - value.evaluate(whole, others)
    gap /= deviation  # (n, m, 1)
    no_ends = np.zeros((len(others), 1))
    phi = design.finish(np.einsum("nmk,md->ndk", gap, block.score), no_ends, no_ends)
    timed = others[:TIMED_ROWS]
    note = fold_error({name: folded[name] for name in ("fold_error", "size")})
    return Result(
        name,
        len(masks),
        note.get("folded", 0),
        note.get("landmarks", 0.0),
        n_landmarks,
        multiplications(whole) / multiplications(folded),
        seconds(lambda: value.evaluate(whole, timed))
        / seconds(lambda: checked.evaluate(folded, timed)),
        note.get("largest", 0.0),
        float(np.sqrt(np.square(gap).mean(axis=0)).max()),
        float(np.abs(gap).max()),
        float(np.sqrt(np.square(phi).mean())),
    )


def main(given: argparse.Namespace) -> None:
    tables, n_landmarks, sizes = given.tables, given.landmarks, Sizes()
    if given.tiny:
        tables, n_landmarks, sizes = ["heavy tails"], 40, Sizes(made_rows=40_000)
    elif given.data is None:
        raise SystemExit("give --data FOLDER, where the tables are, or --tiny")
    results: list[Result] = []
    print(HEADER)
    for name in tables:
        x, y = table_of(name, given.data, None, sizes)
        results.append(result(name, x, y, n_landmarks, given.rows))
        print(results[-1], flush=True)
        write_json(given.json, {"results": [asdict(each) for each in results]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*TABLES, *MADE_UP]
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=["lifts", "air"], choices=names)
    parser.add_argument("--landmarks", type=int, default=256)
    parser.add_argument("--rows", type=int, default=40_000, help="rows that values learn from")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    main(parser.parse_args())
