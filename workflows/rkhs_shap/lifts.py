"""1.8 million lifts: length-scales beside mean |attribution|, where the paper has as many games of
League of Legends.

python -m workflows.rkhs_shap.lifts --data FOLDER --out FOLDER [--tiny]

A kernel ridge of the deadlift is fitted on all rows, and all of them are the background of
interventional values.  Conditional embeddings are learned from some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dshap
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.sources import SyntheticTable
from workflows.rkhs_shap.common import SEED, options, written
from workflows.rkhs_shap.explained import importance_of, importance_picture, ranks

COLUMNS = [
    "sex_male",
    "equipment",
    "bodyweight_kg",
    "year",
    "month",
    "meet_entrants",
    "squat_kg",
    "bench_kg",
]
TARGET = "deadlift_kg"
LANDMARKS, EMBEDDED, LEARNED, EXPLAINED = 500, 200, 50_000, 5_000
"""Landmarks of the model and of the embeddings; rows that these are learned from, and that are
explained."""
TINY = (40, 30, 400, 50)
TINY_ROWS = 2_000


def table_of(folder: Path | None) -> pd.DataFrame:
    """Columns and target as numbers; made up where there is no folder."""
    if folder is not None:
        return pd.read_parquet(folder / "powerlifting.parquet", columns=[*COLUMNS, TARGET]).astype(
            float
        )
    block = SyntheticTable("powerlifting", TINY_ROWS, features=COLUMNS).read(
        0, TINY_ROWS, target=True
    )
    return pd.DataFrame(block.x, columns=COLUMNS).assign(**{TARGET: block.targets.ravel()})


def attributions(value: Any, rows: pd.DataFrame) -> np.ndarray:
    """(n, columns) of all coalitions."""
    return dshap.explain(value, rows, design="exact", progress=False).attribution.to_numpy()[
        :, :, 0
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Fit on all rows, explain some, and write what came out."""
    given = options(__doc__, argv, needs_data=True)
    table = table_of(None if given.tiny else given.data)
    landmarks, embedded, learned, explained = (
        TINY if given.tiny else (LANDMARKS, EMBEDDED, LEARNED, EXPLAINED)
    )
    ridge = KernelRidge(RBF("validate"), Nystrom(landmarks), penalty="validate", holdout=0.1)
    x = table[COLUMNS]
    model = ridge.fit(x, table[TARGET])
    rows, some = x.sample(explained, random_state=SEED), x.sample(learned, random_state=SEED + 1)
    values = {
        "interventional": dshap.values.KernelInterventional(model, x),
        "observational": dshap.values.KernelObservational(model, some, Nystrom(embedded)),
    }
    importance = importance_of(
        model, x.std(), {kind: attributions(value, rows) for kind, value in values.items()}
    )
    content = {
        "rows": len(table),
        "held_out_r2": round(float(model.r2_[0]), 4),
        "landmarks": landmarks,
        "rows_of_the_embeddings": learned,
        "explained_rows": explained,
        "columns": importance.round(4).to_dict("index"),
        "rank_correlation": ranks(importance),
    }
    written(given, "lifts", content)
    title = f"Deadlifts of {len(table):,} results, {explained:,} of them explained"
    importance_picture(importance, title, given.out / "lifts_columns.png", "kg")


if __name__ == "__main__":
    main()
