"""MSE_v of the default penalties beside ten constant ones, and what choosing them costs.

For each table, number of rows and value function: MSE_v on held-out rows over all proper coalitions
with the default (penalty="validate") and with λ = 1e-1 … 1e-10; processor time of learning with the
default and a given one, medians of three, in turn.  One kernel ridge model a table; embeddings have
median length-scales, or those of the model.

Usage: python -m tests.benchmarks.penalties [--tiny] [--data FOLDER] [--tables bike beijing] [--rows
1000 10000]
       [--values regression observational] [--kernel median|model] [--landmarks 256] [--held 2000]
       [--json OUT]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dshap.core.records import BoolArray, FloatArray
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import ConditionalRegression, KernelObservational
from tests.benchmarks.quality import BEIJING, POWERLIFTING, SYNTHETIC, synthetic

CALIFORNIA = ("MedHouseVal", ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude",
              "Longitude"))  # fmt: skip
BIKE = ("count", ("season", "hr", "mnth", "weekday", "workingday", "temp", "hum", "windspeed"))
TABLES = {
    "california": ("california_housing.parquet", CALIFORNIA),
    "bike": ("bike_hour.parquet", BIKE),
    "powerlifting": ("powerlifting.parquet", POWERLIFTING),
    "beijing": ("beijing_air_quality.parquet", BEIJING),
}
"""Name -> file in the folder of data, target and features."""
PENALTIES = tuple(float(f"1e-{power}") for power in range(1, 11))
GIVEN = 1e-4
SPAN = 65_536


@dataclass(frozen=True)
class Sizes:
    """What is large in a full run and small in a tiny one."""

    rows: tuple[int, ...] = (1_000, 10_000, 100_000)
    held: int = 2_000
    model_landmarks: int = 500
    landmarks: int = 256
    model_rows: int = 100_000
    times: int = 3


TINY = Sizes((200, 1_000), 300, 40, 30, 1_000, 1)


class Table(NamedTuple):
    """Rows to learn from and rows held out."""

    name: str
    x: FloatArray
    held: FloatArray
    model: KernelRidge


def proper_masks(d: int) -> BoolArray:
    masks = np.array(list(itertools.product([False, True], repeat=d)))
    return masks[1:-1]


def tables(folder: Path | None, sizes: Sizes, wanted: list[str] | None = None) -> Iterator[Table]:
    """The tables of the folder, all of them or those wanted; the synthetic one where none is
    given."""
    named = {"synthetic": (synthetic(max(sizes.rows) + sizes.held), SYNTHETIC)} if folder is None else {
        name: (pd.read_parquet(folder / TABLES[name][0]), TABLES[name][1]) for name in (wanted or TABLES)
    }  # fmt: skip
    for name, (frame, (target, features)) in named.items():
        complete = frame[[target, *features]].dropna().astype(np.float64)
        complete = complete.iloc[np.random.default_rng(0).permutation(len(complete))]
        x, y = complete[list(features)].to_numpy(), complete[target].to_numpy()
        learning = slice(sizes.held, sizes.held + sizes.model_rows)
        model = KernelRidge(RBF("validate"), Nystrom(sizes.model_landmarks), penalty="validate")
        yield Table(name, x[sizes.held :], x[: sizes.held], model.fit(x[learning], y[learning]))


def value_of(
    kind: str, table: Table, rows: FloatArray, kernel: str, landmarks: int, penalty: float | str
) -> Any:
    """The value function, its landmarks chosen."""
    own, embedding = table.model.expansion_.kernel, Nystrom(landmarks)
    if kind == "regression":
        value: Any = ConditionalRegression(
            table.model.predict,
            rows,
            own if kernel == "model" else RBF("median"),
            embedding,
            penalty,
        )
    else:
        value = KernelObservational(
            table.model,
            rows,
            embedding,
            penalty,
            kernel=None if kernel == "model" else RBF("median"),
        )
    return value.chosen(value.choose(rows[: value.sample_size]))


def sums(value: Any, masks: BoolArray, rows: FloatArray, predictions: FloatArray) -> Any:
    parts = [slice(start, start + SPAN) for start in range(0, len(rows), SPAN)]
    total = value.moments(masks, rows[parts[0]], predictions[parts[0]])
    for part in parts[1:]:
        total = total + value.moments(masks, rows[part], predictions[part])
    return total


def measured(kind: str, table: Table, n: int, kernel: str, sizes: Sizes) -> dict[str, Any]:
    """MSE_v of the default and of each constant penalty, tile by tile of coalitions."""
    rows, masks = table.x[:n], proper_masks(table.x.shape[1])
    predictions = np.asarray(table.model.predict(rows)).reshape(len(rows), -1)
    f = np.asarray(table.model.predict(table.held))
    value = value_of(kind, table, rows, kernel, sizes.landmarks, "validate")
    mse: dict[str, list[float]] = {name: [] for name in ["default", *map(str, PENALTIES)]}
    ridges = []
    for tile in (masks[start : start + 32] for start in range(0, len(masks), 32)):
        value.penalty = "validate"
        total = sums(value, tile, rows, predictions)
        for name in mse:  # the default first, from the same sums
            value.penalty = "validate" if name == "default" else float(name)
            state = value.prepare(tile, total)
            values = value.evaluate(state, table.held)[:, :, 0]  # (held, m)
            mse[name] += np.square(f[:, None] - values).mean(axis=0).tolist()
            if name == "default":
                ridges += (len(rows) * state["penalty"]).tolist()
    means = {name: float(np.mean(own)) for name, own in mse.items()}
    best = min(PENALTIES, key=lambda own: means[str(own)])
    return {"table": table.name, "rows": len(rows), "value": kind, "mse": means, "best": best,
            "variance": float(f.var()), "ridge": np.quantile(ridges, [0.0, 0.5, 1.0]).tolist(),
            "to_best": means["default"] / means[str(best)] - 1.0,
            "to_given": means["default"] / means[str(GIVEN)] - 1.0}  # fmt: skip


def seconds(kind: str, table: Table, n: int, kernel: str, sizes: Sizes) -> float:
    """Processor time of learning 32 coalitions with the default over that with a given penalty,
    medians, in turn."""
    rows, masks = table.x[:n], proper_masks(table.x.shape[1])[::8]
    predictions = np.asarray(table.model.predict(rows)).reshape(len(rows), -1)
    took: dict[Any, list[float]] = {"validate": [], GIVEN: []}
    for _ in range(sizes.times):
        for penalty, own in took.items():
            value = value_of(kind, table, rows, kernel, sizes.landmarks, penalty)
            value.prepare(masks[:1], value.moments(masks[:1], rows[:600]))
            start = time.process_time()
            value.prepare(masks, sums(value, masks, rows, predictions))
            own.append(time.process_time() - start)
    return float(np.median(took["validate"]) / np.median(took[GIVEN]))


def print_line(found: dict[str, Any]) -> None:
    cells = " ".join(f"{found['mse'][str(own)] / found['variance']:8.4f}" for own in PENALTIES)
    low, middle, high = (f"{own:.2g}" for own in found["ridge"])
    default = found["mse"]["default"] / found["variance"]
    print(f"{found['table']:13s}{found['rows']:8,}  {found['value']:14s}{default:8.4f} |{cells}"
          f" | {found['to_best']:+8.2%} {found['to_given']:+8.2%}  {low:>8s} {middle:>8s} "
          f"{high:>8s}"
          f"  {found['time']:6.3f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes on made-up rows: seconds")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with the Parquet files of the four tables"
    )
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES))
    parser.add_argument("--rows", type=int, nargs="+", help="that are learnt from")
    parser.add_argument("--values", nargs="+", choices=("regression", "observational"))
    parser.add_argument("--kernel", choices=("median", "model"), default="median")
    parser.add_argument("--landmarks", type=int)
    parser.add_argument("--model-landmarks", type=int)
    parser.add_argument("--held", type=int)
    parser.add_argument("--times", type=int, help="repetitions of the timing; 0: none")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    sizes = TINY if given.tiny else Sizes()
    asked = {"rows": given.rows and tuple(given.rows), "landmarks": given.landmarks, "held": given.held,
             "times": given.times, "model_landmarks": given.model_landmarks}  # fmt: skip
    sizes = Sizes(
        **{**vars(sizes), **{name: own for name, own in asked.items() if own is not None}}
    )
    print(
        f"MSE_v over the variance of the model; {sizes.landmarks} landmarks, kernel "
        f"{given.kernel}, {sizes.held} rows"
    )
    print(f"{'table':13s}{'rows':>8s}  {'value':14s}{'default':>8s} |" + " ".join(f"{own:8g}" for own in PENALTIES)
          + " |  to best  to 1e-4  least, median, largest λn   time")  # fmt: skip
    out = []
    for table in tables(given.data, sizes, given.tables):
        for n, kind in itertools.product(
            sizes.rows, given.values or ("regression", "observational")
        ):
            if n <= len(table.x):
                found = measured(kind, table, n, given.kernel, sizes)
                found["time"] = (
                    seconds(kind, table, n, given.kernel, sizes) if sizes.times else float("nan")
                )
                print_line(found)
                out.append(found)
    if given.json:
        given.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
