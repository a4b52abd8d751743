"""Rows per second of a black box at equal coalitions and background: dshap.Marginal beside
shap.KernelExplainer.

Logistic regression on 12 columns of adult (the cheapest model there is: masking, not predicting, is
the cost to beat) and boosted trees (where predicting is all): 100 background rows, 2,072
coalitions, one core.  shap draws its own coalitions, as many.  Below them the job of alibi's paper:
2,560 rows, two workers (published: 1,728 s on one).

Usage: python -m tests.benchmarks.black_box [--data adult.parquet] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dshap
from dshap import designs
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.engine import local_client, shut_down
from dshap.values import Marginal
from tests.benchmarks.peers import median_seconds, write_json

COALITIONS, BACKGROUND, JOB_ROWS = 2_072, 100, 2_560
LEFT_OUT = ("split", "education", "fnlwgt")


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    model: str
    program: str
    cores: int
    rows: int
    seconds: float
    share_in_predict: float | None = None

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    def __str__(self) -> str:
        share = (
            "" if self.share_in_predict is None else f"{self.share_in_predict:>16.0%} in predict"
        )
        who = f"{self.model:<22}{self.program:<24}{self.cores:>4}"
        return f"{who}{self.rows:>8,}{self.seconds:>10.2f} s{self.rate:>10.3g} rows/s{share}"


class Timed:
    """A predict function that adds up its seconds."""

    def __init__(self, predict: Callable[[FloatArray], Any]) -> None:
        self.predict, self.seconds = predict, 0.0

    def __call__(self, rows: FloatArray) -> Any:
        start = time.perf_counter()
        out = self.predict(rows)
        self.seconds += time.perf_counter() - start
        return out


def table(path: Path | None) -> tuple[FloatArray, np.ndarray]:
    """Columns of adult as numbers, and whether the income is high; made up without a file."""
    if path is None:
        rng = np.random.default_rng(0)
        x = np.column_stack([rng.integers(0, 4, (4_000, 10)), rng.normal(size=(4_000, 2))]).astype(
            float
        )
        return x, x[:, 0] + x[:, 10] > 1.5
    frame = pd.read_parquet(path).drop(columns=list(LEFT_OUT))
    y = frame.pop("income_gt_50k").to_numpy() == 1
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype("category").cat.codes
    return frame.to_numpy(float), y


def compared(
    name: str, predict: Callable[[FloatArray], Any], x: FloatArray, few: int, more: int
) -> list[Result]:
    """dshap's evaluation and shap's, one core each."""
    background, rows = x[-BACKGROUND:], x[:more]
    timed = Timed(predict)
    value = Marginal(timed, background)
    design = designs.kernelshap(x.shape[1], COALITIONS, n_replicates=0)
    options = {"design": design, "progress": False}
    with one_blas_thread():
        dshap.explain(value, rows[:2], **options)
        timed.seconds, start = 0.0, time.perf_counter()
        dshap.explain(value, rows, **options)
        seconds = time.perf_counter() - start
        results = [Result(name, "dshap.explain", 1, more, seconds, timed.seconds / seconds)]
        try:
            import shap
        except ImportError:
            print("shap: left out, it is not installed")
            return results
        explainer = shap.KernelExplainer(predict, background)

        def explained() -> Any:
            return explainer.shap_values(
                rows[:few], nsamples=COALITIONS - 2, l1_reg=False, silent=True
            )

        results.append(Result(name, "shap.KernelExplainer", 1, few, median_seconds(explained)))
    return results


def job(predict: Callable[[FloatArray], Any], x: FloatArray, n: int) -> Result:
    """All rows of the job on two workers, the start of the cluster not counted."""
    client = local_client(2, "2GiB", set_as_default=False)
    try:
        value, design = (
            Marginal(predict, x[-BACKGROUND:]),
            designs.kernelshap(x.shape[1], COALITIONS),
        )
        start = time.perf_counter()
        dshap.explain(value, x[:n], design=design, client=client, progress=False)
        return Result("logistic regression", "dshap, 2 workers", 2, n, time.perf_counter() - start)
    finally:
        shut_down(client)


def main(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    x, y = table(given.data)
    linear = (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)).fit(x, y).predict_proba
    )
    trees = HistGradientBoostingClassifier(random_state=0).fit(x, y).predict_proba
    few, more = (1, 4) if given.tiny else (20, 1_000)
    results = compared("logistic regression", linear, x, few, more)
    results += compared("boosted trees", trees, x, max(1, few // 5), max(2, more // 25))
    results.append(job(linear, x, 100 if given.tiny else JOB_ROWS))
    for own in results:
        print(own)
    for one, peer in zip(results[::2], results[1::2], strict=False):
        if peer.program.startswith("shap"):
            print(f"{one.model}: {one.rate / peer.rate:.1f} times the rows per second of shap")
    write_json(given.json, {"results": [{**asdict(own), "rate": own.rate} for own in results]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="adult.parquet; made-up rows without")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    main(parser.parse_args())
