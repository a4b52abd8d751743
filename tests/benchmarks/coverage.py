"""How often φ ± t·std_error holds the true value, over seeds of the design: asked are 92 to 97 % of
a nominal 95 %.

Games are sums of a_T [T ⊆ S] over random coalitions T of every size, so that φ_i = Σ_{T ∋ i}
a_T/|T| is known for any number of players; their interactions are weak, even or strong in the size
of T.  Each instance and player counts apart; "mean" is the mean over the instances, with the error
of the summaries that a cube keeps of its blocks.  Kriging chooses its decay from the instances
themselves.

With `--draws`: where values are means over few draws or background rows
(`tests/benchmarks/sampled_means.py`, whose options it takes).

Usage: python -m tests.benchmarks.coverage [--seeds 1000] [--players 8 12 20 38] [--json OUT]
[--tiny]
       python -m tests.benchmarks.coverage --draws [--seeds 60] [--players 5 14 24] [--json OUT]
[--tiny]
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t

from dshap import designs
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design
from tests.benchmarks import sampled_means
from tests.benchmarks.games import estimated, settled

CASES = ((8, 128), (12, 200), (20, 200), (20, 1_000), (38, 200), (38, 1_000))
"""(players, coalitions)"""
DECAYS = (2.0, 0.5, 0.0, -0.5)
"""An interaction of s players is of size s^-decay; one instance each."""
N_TERMS = 300


@dataclass(frozen=True)
class Games:
    """v_i(S) = Σ_T a_T,i [T ⊆ S] of n instances i."""

    terms: BoolArray
    """(terms, d): the coalitions T."""
    weights: FloatArray
    """(terms, n)"""

    @classmethod
    def of(cls, d: int, seed: int) -> Games:
        rng = np.random.default_rng([seed, d])
        sizes = 1 + rng.integers(d, size=N_TERMS)
        terms = rng.random((N_TERMS, d)).argsort(axis=1) < sizes[:, None]
        scale = sizes[:, None].astype(float) ** -np.array(DECAYS)
        return cls(terms, rng.normal(size=scale.shape) * scale)

    def values(self, masks: BoolArray) -> FloatArray:
        """(m, n)"""
        # no member of T is missing
        is_inside = (~masks).astype(np.float32) @ self.terms.T.astype(np.float32) == 0
        return is_inside @ self.weights

    @property
    def shapley(self) -> FloatArray:
        """(n, d)"""
        return self.weights.T @ (self.terms / self.terms.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Coverage:
    """One line of the table."""

    design: str
    n_players: int
    n_coalitions: int
    seeds: int
    each: float
    """Share of instances, players and seeds whose interval holds the truth."""
    mean: float
    """The same for the mean over instances."""
    by_decay: tuple[float, ...]
    ratio: float
    """Root of the mean std_error² over root of the mean error²."""

    def __str__(self) -> str:
        decays = " ".join(f"{share:.1%}" for share in self.by_decay)
        return (
            f"{self.design:<26}{self.n_players:>4}{self.n_coalitions:>7}{self.each:>9.1%}{self.mean:>9.1%}"
            f"{self.ratio:>8.2f}   {decays}"
        )


def covered(name: str, d: int, n_coalitions: int, seeds: int) -> Coverage:
    """Coverage of the designs of this kind over seeds, each of which has games of its own too."""
    held, of_mean, errors2, variances = [], [], [], []
    for seed in range(seeds):
        design, games = design_of(name, d, n_coalitions, seed), Games.of(d, seed)
        design = settled(design, lambda masks, games=games: games.values(masks).T)
        phi, replicates = estimated(design, games.values(design.masks).T)
        quantile = t.ppf(0.975, design.info.n_replicates - 1)
        error, variance = phi - games.shapley, np.square(replicates - phi).sum(axis=0)
        held.append(np.abs(error) <= quantile * np.sqrt(variance))
        mean_variance = np.square((replicates - phi).mean(axis=1)).sum(axis=0)
        of_mean.append(np.abs(error.mean(axis=0)) <= quantile * np.sqrt(mean_variance))
        errors2.append(np.square(error))
        variances.append(variance)
    ratio = float(np.sqrt(np.mean(variances) / np.mean(errors2)))
    by_decay = tuple(np.mean(held, axis=(0, 2)).tolist())
    return Coverage(
        name, d, n_coalitions, seeds, float(np.mean(held)), float(np.mean(of_mean)), by_decay, ratio
    )


def design_of(name: str, d: int, n_coalitions: int, seed: int) -> Design:
    """ "permutation", "kriging", or "kernelshap" with its sampling and whether it is paired."""
    if name == "permutation":
        return designs.permutation(d, 2 * max(2, n_coalitions // (2 * (d - 1))), seed=seed)
    if name == "kriging":
        return designs.kriging(d, n_coalitions, seed=seed)
    _, sampling, kind = name.split()
    return designs.kernelshap(
        d, n_coalitions, sampling=sampling, paired=kind == "paired", seed=seed
    )


def main(given: argparse.Namespace) -> None:
    chosen = [case for case in CASES if case[0] in given.players]
    seeds, cases = (20, chosen[:2]) if given.tiny else (given.seeds, chosen)
    warnings.simplefilter("error")
    print(
        f"{'design':<26}{'d':>4}{'m':>7}{'covered':>9}{'mean':>9}{'se/rms':>8}   by decay {DECAYS}"
    )
    found = []
    for name in given.designs:
        for d, n_coalitions in cases:
            why = design_of(name, d, n_coalitions, 0).why_no_errors
            if why:
                print(f"{name:<26}{d:>4}{n_coalitions:>7}  no standard errors: {why}")
                continue
            found.append(covered(name, d, n_coalitions, seeds))
            print(found[-1], flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(each) for each in found], indent=1))


if __name__ == "__main__" and "--draws" in sys.argv:
    sampled_means.main(sampled_means.options([each for each in sys.argv[1:] if each != "--draws"]))
elif __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument(
        "--designs",
        nargs="+",
        default=[
            "kernelshap leverage paired",
            "kernelshap kernel paired",
            "kernelshap leverage unpaired",
            "kernelshap kernel unpaired",
            "permutation",
            "kriging",
        ],
    )
    parser.add_argument("--players", type=int, nargs="+", default=sorted({d for d, _ in CASES}))
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of half an hour")
    given = parser.parse_args()
    main(given)
    if given.tiny:
        sampled_means.main(sampled_means.options(["--tiny"]))
