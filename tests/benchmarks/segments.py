"""How often the 95 % intervals of segments hold the true mean |φ|, by the rows of a segment.

    python -m tests.benchmarks.segments [--segments 200] [--features 8] [--cubes 5] [--tiny]

Rows are drawn from a known distribution of attributions, cut into segments of equal size, and
`dshap.analysis.segments.segments_of` gives the intervals.  "sampled" has normal attributions of which
cubes hold estimates: all rows of a feature err together, with the standard error that the cube
states.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from dshap.analysis.segments import segments_of

DISTRIBUTIONS: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "uniform": (lambda rng, shape: rng.uniform(-1.0, 1.0, shape), 0.5),
    "normal": (lambda rng, shape: rng.normal(size=shape), np.sqrt(2 / np.pi)),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "log-normal": (lambda rng, shape: rng.lognormal(size=shape), np.exp(0.5)),
    "1 row in 20": (
        lambda rng, shape: rng.exponential(size=shape) * (rng.random(shape) < 0.05),
        0.05,
    ),
    "sampled": (lambda rng, shape: rng.normal(size=shape), np.sqrt(2 / np.pi)),
}
"""Name -> draws, and the true mean |φ|."""
SIZES = (10, 30, 50, 100, 1_000)
STD_ERROR = 0.2
"""The standard error of a sampled attribution, beside a standard deviation of 1 over the rows."""


def coverage(name: str, size: int, n_segments: int, n_features: int, seed: int) -> float:
    """The share of intervals that hold the truth."""
    draw, truth = DISTRIBUTIONS[name]
    rng = np.random.default_rng([seed, size])
    shape = (n_segments * size, n_features)
    phi = draw(rng, shape)
    variables = {}
    if name == "sampled":
        phi += STD_ERROR * rng.normal(size=n_features)
        variables["std_error"] = np.full(shape, STD_ERROR)
    variables["attribution"] = phi
    cube = xr.Dataset(
        {
            each: (("instance", "feature", "output"), values[:, :, None])
            for each, values in variables.items()
        },
        {"feature": [f"x{j}" for j in range(n_features)], "output": ["y"]},
    )
    rows = pd.DataFrame({"segment": np.arange(len(phi)) % n_segments})
    found = segments_of(cube, "segment", rows)
    return float(np.mean(np.abs(found.magnitude - truth) <= found.half_width))


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=200)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(given)
    sizes = SIZES
    if options.tiny:
        sizes = SIZES[:2]
        options.segments = 20
        options.cubes = 1
    print(f"{'rows of a segment':<20}" + "".join(f"{size:>8,}" for size in sizes))
    for name in DISTRIBUTIONS:
        shares = [
            np.mean(
                [
                    coverage(name, size, options.segments, options.features, seed)
                    for seed in range(options.cubes)
                ]
            )
            for size in sizes
        ]
        print(f"{name:<20}" + "".join(f"{100 * share:>7.1f}%" for share in shares))


if __name__ == "__main__":
    main()
