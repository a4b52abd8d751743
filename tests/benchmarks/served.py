"""Games of one kind explained with the pilot of another: nights whose rows change.

Games with known Shapley values (`tests.benchmarks.games`).  The pilot of `kriging` chooses by 16
games of one kind; then other games, of that kind and of all others, are explained with its choices,
with and without the check whether they serve each game.  Beside them kernelshap, and kriging whose
pilot saw the very games ("one run").  An error is the root mean square over games and players, over
that of φ; "covered" is the share of intervals φ ± 2.09 std_error that hold the truth.  Milliseconds
are those of the attributions of a game once its values are there.

Usage: python -m tests.benchmarks.served [--players 16 24] [--coalitions 1024] [--kinds votes ...]
       [--tiny] [--json OUT]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dshap import designs
from dshap.core.blocks import jackknife_errors
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.designs.kriging import KrigingDesign
from tests.benchmarks.games import Games, estimated, games_of, settled
from tests.benchmarks.peers import write_json

SHOWN = ("additive and pairs", "order 3", "products over 15", "votes", "heavy tails", "network")
N_PILOT = 16
N_GAMES = 32
T_QUANTILE = 2.09
LEAST = 1e-4
"""An error up to this part of φ counts as this in a ratio."""
HEADER = (
    f"{'d':>4}  {'pilot of':<20}{'games':<20}{'not served':>11}{'checked':>10}{'unchecked':>11}"
    f"{'one run':>10}{'kernelshap':>12}{'/one run':>10}{'/kernelshap':>12}{'covered':>9}{'ms':>7}"
)


@dataclass(frozen=True)
class Line:
    """Games of one kind with the pilot of another."""

    players: int
    coalitions: int
    pilot: str
    games: str
    not_served: float
    """The share of games that the pilot does not serve."""
    checked: float
    unchecked: float
    one_run: float
    kernelshap: float
    covered: float
    milliseconds: float

    @property
    def to_one_run(self) -> float:
        return max(self.checked, LEAST) / max(self.one_run, LEAST)

    @property
    def to_kernelshap(self) -> float:
        return max(self.checked, LEAST) / max(self.kernelshap, LEAST)

    def __str__(self) -> str:
        return (
            f"{self.players:>4}  {self.pilot:<20}{self.games:<20}{self.not_served:>11.0%}"
            f"{self.checked:>10.5f}{self.unchecked:>11.5f}{self.one_run:>10.5f}"
            f"{self.kernelshap:>12.5f}{self.to_one_run:>10.2f}{self.to_kernelshap:>12.2f}"
            f"{self.covered:>9.2f}{self.milliseconds:>7.1f}"
        )


def tuned_by(design: KrigingDesign, games: Games, chosen: slice) -> KrigingDesign:
    """The design with the choices of a pilot that sees some of these games."""
    found = settled(design, lambda masks: games.values(masks)[chosen])
    assert isinstance(found, KrigingDesign)
    return found


def error(phi: FloatArray, truth: FloatArray) -> float:
    """The root mean square error over that of the truth."""
    return float(np.sqrt(np.square(phi - truth).mean() / np.square(truth).mean()))


def lines_of(d: int, m: int, kinds: Sequence[str], n: int) -> Iterator[Line]:
    """Every kind with the pilot of every other."""
    games = {kind: games_of(kind, d, N_PILOT + n, 1) for kind in kinds}
    later = slice(N_PILOT, None)
    truth = {kind: each.shapley[later] for kind, each in games.items()}
    linear = designs.kernelshap(d, m, seed=1)
    fresh = designs.kriging(d, m, seed=1)
    of_kernelshap = {}
    of_one_run = {}
    for kind, each in games.items():
        values = each.values(linear.block(0, m).masks)[later]
        of_kernelshap[kind] = error(estimated(linear, values)[0], truth[kind])
        one = tuned_by(fresh, each, later)
        values = each.values(one.block(0, m).masks)[later]
        of_one_run[kind] = error(estimated(one, values)[0], truth[kind])
    for pilot in kinds:
        design = tuned_by(fresh.checking(), games[pilot], slice(N_PILOT))
        masks = design.block(0, m).masks
        unchecked = replace(design, checks_games=False)
        for kind in kinds:
            values = games[kind].values(masks)[later]
            started = time.perf_counter()
            phi, replicates, is_served = design.of_checked_values(values[:, :, None])
            seconds = time.perf_counter() - started
            far = np.abs(phi[..., 0] - truth[kind])
            near = T_QUANTILE * jackknife_errors(phi, replicates)[..., 0]
            yield Line(
                d,
                m,
                pilot,
                kind,
                1 - float(is_served.mean()),
                error(phi[..., 0], truth[kind]),
                error(estimated(unchecked, values)[0], truth[kind]),
                of_one_run[kind],
                of_kernelshap[kind],
                float((far <= near + LEAST * np.abs(truth[kind]).max()).mean()),
                1e3 * seconds / n,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="kinds of games with the pilots of others")
    parser.add_argument("--players", type=int, nargs="+", default=[16, 24])
    parser.add_argument("--coalitions", type=int, default=1_024)
    parser.add_argument("--kinds", nargs="+", default=SHOWN)
    parser.add_argument("--games", type=int, default=N_GAMES)
    parser.add_argument("--tiny", action="store_true", help="three kinds of 8 players")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.tiny:
        given.players, given.coalitions, given.games = [8], 96, 4
        given.kinds = SHOWN[1:4]
    print(HEADER)
    found = []
    with one_blas_thread():
        for d in given.players:
            for line in lines_of(d, given.coalitions, given.kinds, given.games):
                print(line, flush=True)
                found.append(line)
    others = [line for line in found if line.pilot != line.games]
    print(
        f"largest ratios to one run {max(each.to_one_run for each in others):.2f}, to kernelshap "
        f"{max(each.to_kernelshap for each in others):.2f}"
    )
    write_json(given.json, {"lines": [asdict(each) for each in found]})


if __name__ == "__main__":
    main()
