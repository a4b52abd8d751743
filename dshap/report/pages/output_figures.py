"""The figures of one output that show all rows: swarms of each explanation, and dependences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dshap.analysis.dependences import Dependence, dependences_together
from dshap.analysis.rankings import Ranking, features_of
from dshap.analysis.shades import limits_of
from dshap.analysis.swarms import Swarm, Swarms, swarms_of
from dshap.analysis.view import MAX_SHOWN, View, view_of
from dshap.core.printing import label
from dshap.core.scales import LOG, LOG_ODDS, SCORE
from dshap.cube import open_cube
from dshap.report.pages.directions import direction_words
from dshap.report.pages.figures import SHOWN
from dshap.report.pages.page_rows import MAX_LISTED
from dshap.report.pages.page_texts import NAME, PageTexts
from dshap.report.pages.row_tables import RowTable
from dshap.report.pages.svg_paths import (
    FEW_POINTS,
    Card,
    SwarmFigure,
    dependence_card,
    swarm_figure,
)

MAX_CARDS = MAX_LISTED
"""The most features whose attributions a page shows by their values."""


IN_FACTORS: Mapping[str, str] = {
    LOG_ODDS: "+0.7 doubles the odds, −0.7 halves them",
    SCORE: "+0.7 doubles the odds against each other class, −0.7 halves them",
    LOG: "+0.7 doubles the prediction, −0.7 halves it",
}
"""Scale of logarithms -> what an attribution on it does to the prediction, as e^0.7 = 2.01."""


@dataclass(frozen=True)
class OutputFigures:
    """Swarms of one output, one an explanation, and the dependence of each feature."""

    output: str
    """Empty if there is one output only."""
    explanations: tuple[str, ...]
    swarms: tuple[SwarmFigure, ...]
    cards: tuple[Card, ...]
    directions: Mapping[str, str]
    """Feature -> how its values move the prediction under the first explanation."""
    axis: str
    """The words of the axis of attributions."""

    @property
    def shown(self) -> tuple[Card, ...]:
        """The cards that are always visible."""
        return self.cards[:SHOWN]

    @property
    def folded(self) -> tuple[Card, ...]:
        """The cards that a reader can unfold."""
        return self.cards[SHOWN:]

    @property
    def heads(self) -> list[str]:
        """The headings of the table behind a dependence."""
        words = ("mean", "lower quartile", "upper quartile")
        if len(self.explanations) == 1:
            return ["value", "rows", *words]
        return [
            "value",
            "rows",
            *(f"{word}, {name}" for name in self.explanations for word in words),
        ]


def explained_by(
    table: RowTable, rankings: Mapping[str, Mapping[str, Ranking]], output: str
) -> list[str]:
    """The explanations of the table that have rows of an output."""
    return [
        name
        for name in table.cubes
        if output in rankings.get(name, {}) and rankings[name][output].rows
    ]


def figures_of(
    table: RowTable,
    rankings: Mapping[str, Mapping[str, Ranking]],
    output: str,
    is_one_of_several: bool,
    texts: PageTexts,
) -> OutputFigures:
    """The figures of one output, of every explanation that has it and the rows of the first.

    `rankings` : explanation -> output -> its ranking.
    """
    names = explained_by(table, rankings, output)
    cubes = [open_cube(table.cubes[name].path) for name in names]
    ranked = {name: features_of([rankings[name][output]]) for name in names}
    columns = [each for each in ranked[names[0]] if each in table.cubes[names[0]].columns]
    with warnings.catch_warnings():
        # the top of the page names the missing rows
        warnings.filterwarnings("ignore", ".* rows of the cube are pending")
        found = dependences_together(cubes, columns[:MAX_CARDS], output)
        axis = view_of(cubes[0], output).words("attribution")
        scale = str(cubes[0]["attribution"].attrs.get("scale"))
        if scale in IN_FACTORS:
            axis = f"{axis}; {IN_FACTORS[scale]}"
        swarms = []
        for name, cube, known in zip(names, cubes, found, strict=True):
            heading = label(name) * (len(names) > 1)
            shown = _swarms(view_of(cube, output), ranked[name], known)
            swarms.append(swarm_figure(heading, shown, texts))
    return OutputFigures(
        label(output) * is_one_of_several,
        tuple(label(name, NAME) for name in names),
        tuple(swarms),
        tuple(dependence_card(each, texts) for each in zip(*found, strict=True)),
        {each.feature: direction_words(each, texts) for each in found[0]},
        axis,
    )


def _swarms(view: View, ranked: Sequence[str], given: Sequence[Dependence]) -> Swarms:
    """The swarms, from the histograms of dependences if these have them: one pass fewer."""
    shown = ranked[:MAX_SHOWN]
    known = {each.feature: each for each in given}
    if view.rows < FEW_POINTS or not set(shown) <= set(known):
        return swarms_of(view.cube, output=view.output)
    chosen = [known[name] for name in shown]
    return Swarms(
        tuple(Swarm(each.feature, each.histogram, each.bins, None) for each in chosen),
        len(ranked) - len(shown),
        view.rows,
        limits_of([each.histogram for each in chosen]),
        view.output_name,
        view.words("attribution"),
    )
