from dshap.analysis import segments as segments  # the place of `segments_of` before
from dshap.analysis.accuracy import ErrorSizes, accuracy, error_sizes
from dshap.analysis.difference.cube_comparison import Shift, diff, largest_shift
from dshap.analysis.difference.difference_record import (
    METRICS,
    ChangedRow,
    Difference,
    FeatureDifference,
    OutputDifference,
    SideRows,
    refuse_unknown_metrics,
)
from dshap.analysis.drift.drift_record import (
    ColumnDrift,
    ComparedTable,
    Drift,
    DriftingRow,
    checked_level,
    seen_line,
)
from dshap.analysis.rankings import Ranking, rankings
from dshap.analysis.segment_names import column_of_segment
from dshap.analysis.segments import Segments, segments_of
from dshap.analysis.single_rows import breakdown
from dshap.report.attribution_lines import breakdown_lines, ranking_lines
from dshap.report.notes import accuracy_lines, stage_table
from dshap.report.pages import difference_page, drift_page, page, require_jinja
from dshap.report.picture_files import require_matplotlib
from dshap.report.pictures.bars import bar
from dshap.report.pictures.compare import compare
from dshap.report.pictures.densities import beeswarm
from dshap.report.pictures.dependence import dependence
from dshap.report.pictures.drift import drift_bars
from dshap.report.pictures.force import force
from dshap.report.pictures.heatmaps import heatmap
from dshap.report.pictures.interaction_triangle import interactions
from dshap.report.pictures.over_runs import over_runs
from dshap.report.pictures.ranking_picture import ranking_picture
from dshap.report.pictures.waterfall import waterfall
from dshap.report.pictures.words_and_pixels import (
    Heat,
    Sentence,
    heat_map,
    heat_picture,
    sentence,
    sentence_picture,
)
from dshap.report.segment_tables import SegmentTable, segment_tables
from dshap.report.store_progress import Summary, progress_summary
from dshap.report.store_summaries import damage_summary, importance_summary
from dshap.run.table_drift import mmd_drift

__all__ = [
    "METRICS",
    "ChangedRow",
    "ColumnDrift",
    "ComparedTable",
    "Difference",
    "Drift",
    "DriftingRow",
    "ErrorSizes",
    "FeatureDifference",
    "Heat",
    "OutputDifference",
    "Ranking",
    "SegmentTable",
    "Segments",
    "Sentence",
    "Shift",
    "SideRows",
    "Summary",
    "accuracy",
    "accuracy_lines",
    "bar",
    "beeswarm",
    "breakdown",
    "breakdown_lines",
    "checked_level",
    "column_of_segment",
    "compare",
    "damage_summary",
    "dependence",
    "force",
    "diff",
    "difference_page",
    "drift_bars",
    "drift_page",
    "error_sizes",
    "heat_map",
    "heat_picture",
    "heatmap",
    "importance_summary",
    "interactions",
    "over_runs",
    "largest_shift",
    "mmd_drift",
    "page",
    "progress_summary",
    "ranking_lines",
    "ranking_picture",
    "rankings",
    "refuse_unknown_metrics",
    "require_jinja",
    "require_matplotlib",
    "seen_line",
    "segment_tables",
    "segments_of",
    "sentence",
    "sentence_picture",
    "stage_table",
    "waterfall",
]
