"""Designs of graphs: coalitions and seconds to build, and errors beside the bounds of the paper's
two theorems.

Lists: of a chain of 400 players (words of a text) and of a grid of 32 × 32 (pixels), how many
coalitions are evaluated, what the paper's counts say, how long the list takes, and how long a block
of as many coalitions as a tile has.

Bounds: a chain of seven columns of ±1 whose neighbours attract each other, and a class whose
log-odds are sums of columns and of products of neighbours.  The value of S is E[log P(Y | x_S) |
x], all probabilities by enumeration.  ε is the largest absolute mutual information of conditions
(8) of theorem 1, and of (8) and (10) of theorem 2, with the whole neighbourhood as S; "error" is
the mean over players of E|estimate − Shapley value|, "worst" that of one player.

Usage: python -m tests.benchmarks.graphs [--players 400] [--side 32] [--orders 1 2 3] [--couplings
0.1 0.4 1.0]
       [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dshap import designs
from dshap.core.records import FloatArray
from dshap.core.types import Design
from tests.benchmarks.peers import write_json

TILE = 8_192
"""Coalitions of a black box's tile, at most."""


@dataclass(frozen=True)
class Built:
    """One list."""

    design: str
    graph: str
    order: int
    coalitions: int
    """Evaluated: the two ends, which are the model's own predictions, apart."""
    formula: str
    seconds: float
    block_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.design:<28}{self.graph:<14}{self.order:>5}{self.coalitions:>12,}  "
            f"{self.formula:<34}"
            f"{self.seconds:>9.3f}{self.block_seconds:>9.3f}"
        )


def of_chain(d: int, k: int) -> Iterator[tuple[str, Callable[[], Design], str]]:
    """Name, maker and the counts of the paper, of a chain; neighbourhoods end where the chain does,
    so that "paper" and "boundary" have fewer."""
    line = designs.chain(d)
    yield (
        "local",
        lambda: designs.local(line, k),
        f"(d−2k+1)·4^k = {(d - 2 * k + 1) * 4**k:,}, ∅ counted",
    )
    yield (
        "connected, paper",
        lambda: designs.connected(line, k),
        f"(k+1)²d = {(k + 1) ** 2 * d:,}, ends apart",
    )
    yield (
        "connected, boundary",
        lambda: designs.connected(line, k, coefficients="boundary"),
        f"(2k+1)d = {(2 * k + 1) * d:,}, ends apart",
    )
    yield (
        "connected_regression",
        lambda: designs.connected_regression(line, k),
        f"kd = {k * d:,}, ends apart",
    )


def built(name: str, graph: str, order: int, make: Callable[[], Design], formula: str) -> Built:
    start = time.perf_counter()
    design = make()
    ends, d, m = (
        (np.zeros((1, 1)), np.ones((1, 1))),
        design.info.n_players,
        design.info.n_coalitions,
    )
    design.finish(np.zeros((1, d, 1)), *ends)  # of a regression: the solution
    middle = time.perf_counter()
    design.block(0, min(m, TILE))
    return Built(name, graph, order, m - 2, formula, middle - start, time.perf_counter() - middle)


def lists(d: int, side: int, orders: list[int]) -> list[Built]:
    """Every design of a chain and of a grid."""
    print(
        f"{'design':<28}{'graph':<14}{'order':>5}{'coalitions':>12}  "
        f"{'of the paper':<34}{'build s':>9}{'block s':>9}"
    )
    found = []
    for k in orders:
        for name, make, formula in of_chain(d, k):
            found.append(built(name, f"chain {d}", k, make, formula))
            print(found[-1], flush=True)
    pixels, name = designs.grid(side, side), f"grid {side} × {side}"
    squares = min(4, side)
    found += [
        built(
            "myerson",
            f"chain {d}",
            0,
            lambda: designs.myerson(designs.chain(d)),
            f"d(d+1)/2 = {d * (d + 1) // 2:,}",
        ),
        built(
            "connected_regression",
            name,
            squares,
            lambda: designs.connected_regression(pixels, squares),
            "squares",
        ),
        built("local", name, 1, lambda: designs.local(pixels, 1), "2^4 to 2^5 a pixel"),
        built(
            "connected, boundary",
            name,
            1,
            lambda: designs.connected(pixels, 1, coefficients="boundary"),
            "",
        ),
    ]
    print(*found[-4:], sep="\n", flush=True)
    return found


class ChainModel:
    """P(x, y) (2,) · (d + 1) of d columns of ±1 in a chain and a class, and all that follows by
    sums."""

    def __init__(self, coupling: float, d: int = 7, seed: int = 0, only: int | None = None) -> None:
        """`only`: the one column that the class has to do with."""
        self.d = d
        rng = np.random.default_rng(seed)
        single, pair = rng.normal(size=d), rng.normal(size=d - 1)
        if only is not None:
            single, pair = 2.0 * (np.arange(d) == only), 0.0 * pair
        x = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
        both = x[:, 1:] * x[:, :-1]
        p = np.exp(coupling * both.sum(axis=1))
        one = 1 / (1 + np.exp(-(x @ single + both @ pair) / 2))
        joint = np.stack([p * (1 - one), p * one], axis=1)
        self.joint = (joint / joint.sum()).reshape((2,) * (d + 1))
        """(2, …, 2): columns, then the class."""

    def marginal(self, axes: tuple[int, ...]) -> FloatArray:
        """P of these axes, broadcast over the others as axes of one; the class is axis d."""
        return self.joint.sum(
            axis=tuple(i for i in range(self.d + 1) if i not in axes), keepdims=True
        )

    def information(self, i: int, others: tuple[int, ...], given: tuple[int, ...]) -> float:
        """I_a(X_i; X_V | X_U) = E|log P(x_i, x_V | x_U)/(P(x_i | x_U) P(x_V | x_U))|."""
        whole, left, right = ((i, *others, *given), (i, *given), (*others, *given))
        ratio = (
            self.marginal(whole)
            * self.marginal(given)
            / (self.marginal(left) * self.marginal(right))
        )
        return float((self.joint * np.abs(np.log(ratio))).sum())

    def largest(self, i: int, others: list[int], given: tuple[int, ...]) -> float:
        """The largest over V ⊆ others of I_a(X_i; X_V | X_U), with the class given too and not."""
        found = [0.0]
        for size in range(1, len(others) + 1):
            for v in itertools.combinations(others, size):
                found += [self.information(i, v, given), self.information(i, v, (*given, self.d))]
        return max(found)

    def epsilons(self, k: int) -> tuple[FloatArray, FloatArray]:
        """ε of each player (d,) by condition (8), and by (8) and (10), with N_k(i) as S."""
        first, second = np.zeros(self.d), np.zeros(self.d)
        for i in range(self.d):
            near = [j for j in range(self.d) if abs(i - j) <= k]
            beyond, rest = [j for j in range(self.d) if j not in near], [j for j in near if j != i]
            given = [u for n in range(len(rest) + 1) for u in itertools.combinations(rest, n)]
            first[i] = second[i] = max(self.largest(i, beyond, u) for u in given)
            for start, stop in itertools.combinations(range(near[0], near[-1] + 2), 2):
                if start <= i < stop:
                    far = [j for j in range(self.d) if j < start - 1 or j > stop]
                    without = tuple(j for j in range(start, stop) if j != i)
                    second[i] = max(second[i], self.largest(i, far, without))
        return first, second

    def values(self) -> FloatArray:
        """v_x(S) = Σ_y P(y | x) log P(y | x_S) (2^d of S by bits, 2^d of x)."""
        given_x = self.joint / self.marginal(tuple(range(self.d)))
        out = []
        for S in range(2**self.d):
            inside = tuple(i for i in range(self.d) if S >> i & 1)
            of_class = np.log(self.marginal((*inside, self.d)) / self.marginal(inside))
            out.append((given_x * of_class).sum(axis=-1).ravel())
        return np.array(out)

    def errors(self, design: Design) -> FloatArray:
        """E|estimate − Shapley value| of each player (d,)."""
        values, p, bits = (
            self.values(),
            self.marginal(tuple(range(self.d))).ravel(),
            1 << np.arange(self.d),
        )
        both = []
        for each in (design, designs.exact(self.d)):
            block = each.block(0, each.info.n_coalitions)
            both.append(block.score.T @ values[block.masks @ bits])
        error: FloatArray = np.abs(both[0] - both[1]) @ p
        return error


@dataclass(frozen=True)
class Bounded:
    """Errors of one estimate, beside its bound."""

    coupling: float
    order: int
    design: str
    error: float
    worst: float
    """Of a player."""
    bound: float
    """4 ε or 6 ε, mean over players."""
    is_below: bool
    """For every player, its own."""

    def __str__(self) -> str:
        return (
            f"{self.coupling:>8g}{self.order:>6}  "
            f"{self.design:<22}{self.error:>10.5f}{self.worst:>10.5f}"
            f"{self.bound:>10.5f}{'yes' if self.is_below else 'no':>7}"
        )


def bounds(couplings: list[float], orders: list[int], d: int) -> list[Bounded]:
    """L-Shapley beside 4 ε, C-Shapley beside 6 ε, at each strength of the coupling; then of
    independent columns, one of which the class has to do with: ε is 0, and "paper" is not exact."""
    print(
        f"\n{'coupling':>8}{'order':>6}  "
        f"{'estimate':<22}{'error':>10}{'worst':>10}{'bound':>10}{'below':>7}"
    )
    found, line = [], designs.chain(d)
    models = [(coupling, ChainModel(coupling, d)) for coupling in couplings]
    for coupling, model in [*models, (0.0, ChainModel(0.0, d, only=d // 2))]:
        for k in orders:
            first, second = model.epsilons(k)
            for name, design, bound in (
                ("local, 4 ε", designs.local(line, k), 4 * first),
                ("boundary, 6 ε", designs.connected(line, k, coefficients="boundary"), 6 * second),
                ("paper, 6 ε", designs.connected(line, k), 6 * second),
            ):
                error = model.errors(design)
                found.append(
                    Bounded(coupling, k, name, float(error.mean()), float(error.max()), float(bound.mean()),
                            bool((error <= bound + 1e-12).all()))
                )  # fmt: skip
                print(found[-1], flush=True)
    return found


def main(given: argparse.Namespace) -> None:
    d, side, orders = (30, 6, [1, 2]) if given.tiny else (given.players, given.side, given.orders)
    lines = lists(d, side, orders)
    if not given.tiny:
        print(f"slowest list: {max(each.seconds for each in lines):.2f} s")
    rows = bounds(given.couplings, [1] if given.tiny else [1, 2], 5 if given.tiny else 7)
    write_json(
        given.json,
        {"lists": [asdict(each) for each in lines], "bounds": [asdict(each) for each in rows]},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--players", type=int, default=400)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--couplings", type=float, nargs="+", default=[0.1, 0.4, 1.0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds, short chains")
    main(parser.parse_args())
