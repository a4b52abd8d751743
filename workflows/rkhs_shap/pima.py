"""A kernel logistic model of diabetes, and why it holds one patient to be diabetic (Figure 1).

python -m workflows.rkhs_shap.pima --data FOLDER --out FOLDER [--tiny]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflows.rkhs_shap.common import options, written
from workflows.rkhs_shap.data import made_up, pima
from workflows.rkhs_shap.explained import (
    Explanation,
    explanation,
    importance_picture,
    ranks,
    row_picture,
)

LANDMARKS, TINY_LANDMARKS = 300, 40
COLUMNS = dict.fromkeys(("glucose", "blood_pressure", "bmi", "age"), "number")
"""Of the tiny form."""


def patient(found: Explanation) -> int:
    """The diabetic test patient whose probability is the median of those that are predicted to be
    diabetic."""
    odds = found.log_odds
    candidates = np.flatnonzero((odds > 0) & (found.target == 1))
    return int(candidates[np.argsort(odds[candidates])[len(candidates) // 2]])


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, explain the test patients, and write what came out."""
    given = options(__doc__, argv, needs_data=True)
    table = made_up("pima", COLUMNS) if given.tiny else pima(given.data)
    landmarks = TINY_LANDMARKS if given.tiny else LANDMARKS
    found = explanation(table, landmarks, len(table.rows), {"design": "exact"})
    importance, row = found.importance(), patient(found)
    content = {
        **found.scores(),
        "landmarks": landmarks,
        "explained_rows": len(found.rows),
        "columns": importance.round(4).to_dict("index"),
        "rank_correlation": ranks(importance),
        "patient": found.one(row),
    }
    written(given, "pima", content)
    row_picture(
        found,
        row,
        "Why the model holds this patient to be diabetic",
        given.out / "pima_patient.png",
    )
    title = f"Pima diabetes, {len(found.rows)} test patients"
    importance_picture(importance, title, given.out / "pima_columns.png")


if __name__ == "__main__":
    main()
