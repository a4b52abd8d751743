"""What a person looks at: rankings, one row broken down, a picture, what the stages took."""

from dshap.report.breakdown import Breakdown, breakdown, breakdown_lines
from dshap.report.notes import accuracy, accuracy_lines, stage_table
from dshap.report.ranking import Ranking, ranking_lines, ranking_picture, rankings, require_matplotlib

__all__ = [
    "Breakdown",
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
