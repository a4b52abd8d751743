"""What a person looks at: rankings, one row broken down, a picture, what the stages took."""

from dshap.report.attributions import (
    Ranking,
    breakdown,
    breakdown_lines,
    ranking_lines,
    ranking_picture,
    rankings,
    require_matplotlib,
)
from dshap.report.notes import accuracy, accuracy_lines, stage_table

__all__ = [
    "Ranking",
    "accuracy",
    "accuracy_lines",
    "breakdown",
    "breakdown_lines",
    "ranking_lines",
    "ranking_picture",
    "rankings",
    "require_matplotlib",
    "stage_table",
]
