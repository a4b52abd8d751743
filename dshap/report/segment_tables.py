"""Tables of mean |attribution| by segments of the rows, as lines of text and as content for JSON."""

from __future__ import annotations

from dataclasses import dataclass

from dshap.analysis.column_texts import NO_TEXTS, ColumnTexts, texts_of
from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.segment_names import column_of_segment
from dshap.analysis.segments import Segments, segments_of
from dshap.core.annotations import CubesLike
from dshap.core.printing import label
from dshap.core.records import JSON
from dshap.cube import open_cube
from dshap.cube.datasets import names_along
from dshap.cube.given_cubes import given_cubes

MOST_FEATURES = 5
MOST_SEGMENTS = 12
"""The most columns and lines of a table; the others are counted in a line below it."""


@dataclass(frozen=True)
class SegmentTable:
    """The attributions of one explanation, for one output, by the segments of one column.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame({"rooms": [1.0, 3.0, 4.0, 8.0], "city": [0.0, 0.0, 1.0, 1.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = f"{folder}/cube"
    ...     cube = dshap.explain(value, rows, store=store, keep_rows=True, progress=False)
    ...     (table,) = dshap.report.segment_tables({"prices": store}, "city")
    >>> type(table).__name__, table.explanation, sorted(table.content())
    ('SegmentTable', 'prices', ['0', '1'])
    """

    explanation: str
    output: str
    """The name of the output; empty if there is one."""
    segments: Segments
    texts: ColumnTexts = NO_TEXTS
    """The dictionary of columns: their labels, and the words for their values."""

    def lines(self) -> list[str]:
        """Mean |φ| of the leading features in each segment, as a table."""
        found = self.segments
        shown = range(min(MOST_SEGMENTS, len(found.names)))
        features = found.features[:MOST_FEATURES]
        decimals = decimals_of(found.magnitude[:, : len(features)].ravel().tolist())
        heads = ["rows", *(self.texts.label_of(feature, 24) for feature in features)]
        cells = [
            [
                f"{found.counts[s]:,}",
                *(number(v, decimals) for v in found.magnitude[s, : len(features)]),
            ]
            for s in shown
        ]
        column = column_of_segment(found.column, found.features)
        names = [label(self.texts.named(column, found.names[s]), 32) for s in shown]
        first = max(map(len, ["segment", *names]))
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        where = ", ".join(filter(None, [self.explanation, self.output]))
        return [
            f"mean |φ| by {self._column_words(column)} ({label(where)})",
            *(
                f"{name:<{first}}  "
                + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
                for name, row in zip(["segment", *names], [heads, *cells], strict=True)
            ),
            *self._left_out(),
        ]

    def _column_words(self, column: str) -> str:
        """The label of the column, with the number of bins if the segments are bins."""
        return self.texts.label_of(column) + label(self.segments.column.removeprefix(column))

    def _left_out(self) -> list[str]:
        """A line about segments and features that the table leaves out."""
        said = self.segments.left_out(MOST_SEGMENTS, MOST_FEATURES)
        if not said:
            return []
        return [f"{said}: dshap.report.heatmap shows them, --json lists them"]

    def content(self) -> dict[str, JSON]:
        """Segment -> its rows, and the mean |φ|, its half width and the mean φ of each feature."""
        found = self.segments
        return {
            ranking.label: {
                "rows": ranking.rows,
                "mean_magnitude": dict(ranking.magnitude),
                "mean_magnitude_half_width": dict(
                    zip(found.features, found.half_width[s].tolist(), strict=True)
                ),
                "mean": dict(ranking.mean),
            }
            for s, ranking in enumerate(found.rankings())
        }


def segment_tables(cubes: CubesLike, segment: str) -> list[SegmentTable]:
    """Compare the importance of features between segments of the rows, such as different plans.

    Parameters
    ----------
    cubes : mapping of names to cubes; or xarray.Dataset, str or Path
        The explanations, as opened cubes or paths; or one opened cube, or the path of a store.
    segment : str
        A column with at most 200 values, such as "plan"; or "age:5" for 5 bins of about equally
        many rows.

    Returns
    -------
    list of SegmentTable
        One table for each explanation and output.

    Raises
    ------
    InputError
        The reasons of `segments_of`.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame({"rooms": [1.0, 3.0, 4.0, 8.0], "city": [0.0, 0.0, 1.0, 1.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = f"{folder}/cube"
    ...     cube = dshap.explain(value, rows, store=store, keep_rows=True, progress=False)
    ...     (table,) = dshap.report.segment_tables({"prices": store}, "city")
    >>> for line in table.lines():
    ...     print(line)
    mean |φ| by city (prices)
    segment  rows  rooms  city
    0           2  100.0   0.5
    1           2  100.0   0.5
    """
    tables = []
    for name, path in given_cubes(cubes).items():
        cube = open_cube(path)
        texts = texts_of(cube)
        outputs = names_along(cube, "output")
        for place, output in enumerate(outputs):
            said = output * (len(outputs) > 1)
            tables.append(SegmentTable(name, said, segments_of(cube, segment, output=place), texts))
    return tables
