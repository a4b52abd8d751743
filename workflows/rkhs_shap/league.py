"""A kernel logistic model of League of Legends with 38 players: length-scales beside mean
|attribution|.

python -m workflows.rkhs_shap.league --data FOLDER --out FOLDER [--tiny]

Interventional values are the closed form by quadrature, without coalitions; observational ones take
`COALITIONS` of the 2^38 coalitions by kriging.
"""

from __future__ import annotations

from collections.abc import Sequence

from workflows.rkhs_shap.common import options, written
from workflows.rkhs_shap.data import league, made_up
from workflows.rkhs_shap.explained import explanation, importance_picture, ranks

LANDMARKS, ROWS, COALITIONS = 200, 500, 1_024
TINY_LANDMARKS, TINY_ROWS = 30, 20
COLUMNS = {f"column {j}": "number" for j in range(8)}
"""Of the tiny form."""


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, explain some of the test games, and write what came out."""
    given = options(__doc__, argv, needs_data=True)
    table = made_up("league", COLUMNS) if given.tiny else league(given.data)
    landmarks, n_rows = (TINY_LANDMARKS, TINY_ROWS) if given.tiny else (LANDMARKS, ROWS)
    design = {} if given.tiny else {"design": "kriging", "max_coalitions": COALITIONS}
    found = explanation(table, landmarks, n_rows, design)
    importance = found.importance()
    content = {
        **found.scores(),
        "landmarks": landmarks,
        "explained_rows": len(found.rows),
        "coalitions": COALITIONS,
        "columns": importance.round(4).to_dict("index"),
        "rank_correlation": ranks(importance),
    }
    written(given, "league", content)
    title = f"League of Legends after 10 minutes, {len(found.rows)} test games"
    importance_picture(importance, title, given.out / "league_columns.png")


if __name__ == "__main__":
    main()
