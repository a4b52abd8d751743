"""Interventional values of 32 features by design="quadrature": rows per second, and every error
that is left open.

Two kernel ridges of the same data, on Nyström landmarks and on random Fourier features, one core.
Errors are largest differences of φ in standard deviations of the predictions: of the nodes that
were chosen against the exact number, and of the background that herding keeps against all its rows,
beside rows that are drawn uniformly.  At 12 features the values are compared with brute force over
all coalitions.  A last table holds the stated error beside the true one, by other code with 40
nodes, for 13 to 200 features and backgrounds of one row, of alike rows, narrow and wide, rows near
and far outside; and the stated error of the background beside that of 200 fresh pairs of a
coalition and a row.

Usage: python -m tests.benchmarks.quadrature [--tiny] [--data uci_pumadyn32nm.parquet] [--json OUT]
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import dshap
from dshap import designs
from dshap.attributors.quadrature import CANDIDATES, Quadrature
from dshap.core.records import FloatArray, State
from dshap.core.threads import one_blas_thread
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.kernels.features import Embedding
from dshap.loops import warm_up
from dshap.loops.product_games import exact_nodes
from dshap.models import FourierExpansion, KernelExpansion, KernelRidge
from dshap.values import KernelInterventional
from tests.benchmarks.peers import machine, median_seconds, peak_mib, sample, write_json

D, SMALL_D = 32, 12
MICRO_ROWS, TILE_ROWS = 64, 256
"""Rows that the loop sees at once, and rows that are checked as one, as in a plan."""
ERROR_WIDTHS, ERROR_ROWS, ERROR_TERMS = (13, 20, 32, 64, 200), 16, 12
CHUNK = 512
"""Background rows whose factors are held at once where all of them count."""
SMALL_BACKGROUND, SMALL_ROWS, SMALL_FEATURES = 20, 2, 100


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    table: int
    """Rows of the made-up table, where no file is given."""
    landmarks: int
    fourier: int
    """Real features: half as many frequencies."""
    backgrounds: tuple[int, ...]
    """Rows that herding keeps."""
    rows: int
    """Explained, for the rate and for the error of the nodes."""
    few: int
    """Explained with all background rows."""
    draws: int
    """Of uniform backgrounds."""
    lengthscale: str
    pairs: int
    """Fresh, that the error of the background is measured on."""
    widths: tuple[int, ...]
    """Features of the table of errors."""


FULL_SIZES = Sizes(8_192, 400, 800, (100, 500), 256, 8, 9, "validate", 200, ERROR_WIDTHS)
TINY_SIZES = Sizes(1_000, 50, 100, (20, 50), 64, 4, 3, "median", 50, (13, 20))


@dataclass(frozen=True)
class Result:
    """One line of the tables; errors in standard deviations of the predictions."""

    model: str
    terms: int
    """r"""
    background: int
    nodes: int
    learning: float
    """Seconds: sums over all rows, herding, counting nodes."""
    rate: float
    """Explained rows per second."""
    node_stated: float
    node_error: float
    base_stated: float
    base_error: float
    value_stated: float
    """Root mean square of v_S over pairs that herding did not look at."""
    value_fresh: float
    """The same over other pairs, by predictions."""
    herding_max: float
    herding_rms: float
    uniform_max: float
    """Median of some draws."""
    uniform_rms: float


def table(path: Path | None, n: int) -> tuple[FloatArray, FloatArray]:
    """x (n, D) with columns of mean 0 and deviation 1, and y (n,): of the file, or made up."""
    if path is not None:
        frame = pd.read_parquet(path)
        x, y = frame[[f"x{j}" for j in range(D)]].to_numpy(float), frame["y"].to_numpy(float)
        return (x - x.mean(axis=0)) / x.std(axis=0), y
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, D))
    return x, np.tanh(x @ rng.standard_normal(D)) + np.sin(x[:, 0]) * x[
        :, 1
    ] + 0.1 * rng.standard_normal(n)


def embeddings(landmarks: int, fourier: int) -> dict[str, Embedding]:
    """Of both models."""
    return {"Nyström": Nystrom(landmarks), "Fourier": Fourier(fourier)}


def fitted(embedding: Embedding, x: FloatArray, y: FloatArray, lengthscale: str) -> KernelRidge:
    """A kernel ridge of one's own length-scale a column."""
    return KernelRidge(RBF(lengthscale), embedding, penalty="validate", holdout=0.2).fit(x, y)


def learnt(model: KernelRidge, x: FloatArray, n_background: int) -> tuple[Quadrature, State]:
    """The closed form with all rows of x as background, of which it keeps n_background."""
    form = Quadrature(KernelInterventional(model, x, n_background=n_background))
    form = form.chosen(form.choose(x[np.sort(sample(len(x), CANDIDATES, seed=0))]))
    return form, form.prepare(form.moments(x))


def attributions(form: Quadrature, state: State, rows: FloatArray) -> FloatArray:
    """φ (n, d), in micro-blocks, with the nodes of the state."""
    parts = [
        form.phi(state, rows[start : start + MICRO_ROWS])
        for start in range(0, len(rows), MICRO_ROWS)
    ]
    return np.concatenate(parts)[:, :, 0]


def explained(form: Quadrature, state: State, rows: FloatArray) -> tuple[FloatArray, int, float]:
    """φ (n, d) tile by tile as the engine makes it, nodes counted and checked; the most nodes; the
    stated error."""
    phi, nodes, error = [], 0, 0.0
    for tile in np.split(rows, range(TILE_ROWS, len(rows), TILE_ROWS)):
        prediction = form.value.model(tile)
        used: State | None = form.settled(state, tile, prediction)
        while used is not None:
            values = attributions(form, used, tile)
            gap = values.sum(axis=1)[:, None] + state["base"] - prediction
            found = form.checked(used, tile, values[:, :, None], gap)
            used = found.repeat_with
        phi.append(values)
        nodes, error = max(nodes, *found.stated["nodes"]), max(error, *found.stated["node_error"])
    return np.concatenate(phi), nodes, error


def replaced(state: State, **arrays: FloatArray) -> State:
    """The state with other nodes or another background."""
    return State({**state.arrays, **arrays})


def over_background(
    form: Quadrature, state: State, background: FloatArray, rows: FloatArray
) -> FloatArray:
    """φ (n, d) with all these background rows, which count alike."""
    chunks = [background[start : start + CHUNK] for start in range(0, len(background), CHUNK)]
    parts = [len(own) * attributions(form, replaced(state, background=own), rows) for own in chunks]
    return np.sum(parts, axis=0) / len(background)


def measured(name: str, model: KernelRidge, x: FloatArray, sizes: Sizes) -> list[Result]:
    """One model with each size of the background."""
    results, exact = [], None
    rows = x[sample(len(x), sizes.rows, seed=1)]
    for n_background in sizes.backgrounds:
        start = time.perf_counter()
        form, state = learnt(model, x, n_background)
        learning = time.perf_counter() - start
        if exact is None:  # the same for every size: as many nodes do, to the tolerance
            exact = over_background(
                form, replaced(state, nodes=np.array([exact_nodes(D)])), x, rows[: sizes.few]
            )
        results.append(one_result(name, form, state, x, rows, exact, learning, sizes))
    return results


def one_result(
    name: str,
    form: Quadrature,
    state: State,
    x: FloatArray,
    rows: FloatArray,
    exact: FloatArray,
    learning: float,
    sizes: Sizes,
) -> Result:
    """Rate and errors of what was learnt; `exact` is φ of the first rows with every background
    row."""
    unit, few, stated = float(state["unit"][0]), rows[: len(exact)], form.stated_error(state)
    phi, nodes, error = explained(form, state, rows)
    with_all_nodes = attributions(form, replaced(state, nodes=np.array([exact_nodes(D)])), rows)
    herding = thinning_error(phi[: len(few)], exact, unit)
    values = functools.partial(
        over_background, form, replaced(state, nodes=np.array([nodes])), rows=few
    )
    uniform = uniform_errors(values, exact, x, len(state["background"]), sizes.draws, unit)
    return Result(
        model=name,
        terms=form.value.expansion.size,
        background=len(state["background"]),
        nodes=nodes,
        learning=learning,
        rate=len(rows) / median_seconds(lambda: explained(form, state, rows)),
        node_stated=error / unit,
        node_error=float(np.abs(phi - with_all_nodes).max() / unit),
        base_stated=stated["base_value_error"][0] / unit,
        base_error=float(abs(state["base"][0] - form.value.model(x).mean()) / unit),
        value_stated=stated["value_error_in_standard_deviations"],
        value_fresh=fresh_value_error(form, state, x, sizes.pairs),
        herding_max=herding[0],
        herding_rms=herding[1],
        uniform_max=uniform[0],
        uniform_rms=uniform[1],
    )


def thinning_error(phi: FloatArray, exact: FloatArray, unit: float) -> tuple[float, float]:
    """Largest and root mean square difference."""
    difference = (phi - exact) / unit
    return float(np.abs(difference).max()), float(np.sqrt(np.mean(difference**2)))


def uniform_errors(
    values: Callable[..., FloatArray],
    exact: FloatArray,
    x: FloatArray,
    size: int,
    draws: int,
    unit: float,
) -> FloatArray:
    """`thinning_error` (2,) of backgrounds that are drawn uniformly, the median of some draws."""
    errors = [
        thinning_error(values(background=x[sample(len(x), size, seed=10 + k)]), exact, unit)
        for k in range(draws)
    ]
    return np.median(errors, axis=0)


def end_to_end(model: KernelRidge, x: FloatArray, sizes: Sizes) -> float:
    """Rows per second of `dshap.explain`, learning and the cube in memory included."""
    rows = x[sample(len(x), sizes.rows, seed=1)]
    value = KernelInterventional(model, x, n_background=sizes.backgrounds[0])
    explain = functools.partial(dshap.explain, value, rows, design="quadrature", progress=False)
    return len(rows) / median_seconds(explain)


def brute_force(model: KernelRidge, rows: FloatArray, background: FloatArray) -> FloatArray:
    """φ (n, d) from the mean predictions of all 2^d mixtures of a row and every background row."""
    design, out = designs.exact(rows.shape[1]), []
    for row in rows:
        mixed = np.where(design.masks[:, None, :], row, background)  # (2^d, b, d)
        values = (
            model.predict(mixed.reshape(-1, rows.shape[1])).reshape(mixed.shape[:2]).mean(axis=1)
        )
        out.append(design.operator.T @ values)
    return np.stack(out)


def small_differences(x: FloatArray, y: FloatArray) -> dict[str, float]:
    """Largest |φ − brute force| of 12 features, through `dshap.explain`, in standard deviations of
    the predictions."""
    x, found = x[:, :SMALL_D], {}
    rows, background = x[:SMALL_ROWS], x[SMALL_ROWS : SMALL_ROWS + SMALL_BACKGROUND]
    for name, embedding in embeddings(SMALL_FEATURES, SMALL_FEATURES).items():
        model = fitted(embedding, x, y, "median")
        # so that all nodes are taken
        value = KernelInterventional(model, background, tolerance=1e-300)
        cube = dshap.explain(value, rows, design="quadrature", progress=False)
        difference = cube.attribution.values[:, :, 0] - brute_force(model, rows, background)
        found[name] = float(np.abs(difference).max() / model.predict(x).std())
    return found


def show(results: Sequence[Result]) -> None:
    """Two tables: what it costs, and what it leaves open."""
    print(
        f"\n{'':<10}{'terms':>6}{'background':>12}{'nodes':>7}{'learning':>11}{'rows/s':>9}  node "
        "error: stated, true"
    )
    for own in results:
        print(
            f"{own.model:<10}{own.terms:>6}{own.background:>12,}{own.nodes:>4}/{exact_nodes(D)}{own.learning:>9.2f} s"
            f"{own.rate:>9,.1f}{own.node_stated:>20.1e}, {own.node_error:.1e}"
        )
    print("\nerrors of the background, in standard deviations of the predictions")
    heads = (
        "background",
        "v stated",
        "fresh",
        "herding max",
        "rms",
        "uniform max",
        "rms",
        "base stated",
        "true",
    )
    print(" " * 10 + "".join(f"{head:>12}" for head in heads))
    for own in results:
        thinning = (
            own.value_stated,
            own.value_fresh,
            own.herding_max,
            own.herding_rms,
            own.uniform_max,
            own.uniform_rms,
        )
        numbers = "".join(
            f"{number:>12.4f}" for number in (*thinning, own.base_stated, own.base_error)
        )
        print(f"{own.model:<10}{own.background:>12,}{numbers}")


@dataclass(frozen=True)
class ErrorCase:
    """The stated error of attributions beside the true one, both in standard deviations of the
    rows' predictions."""

    d: int
    model: str
    background: str
    rows: str
    nodes: int
    stated: float
    true: float


def other_code(
    model: KernelExpansion | FourierExpansion, rows: FloatArray, background: FloatArray
) -> FloatArray:
    """φ (n, d) with 40 Gauss–Legendre nodes: numpy alone, leave-one-out products by sums of complex
    logarithms.

    40 nodes are exact up to 80 players; at 200 their largest possible error is 1e-12 of Σ|A|.
    """
    nodes, weights = np.polynomial.legendre.leggauss(40)
    # (d, n, 1, r), (d, 1, b, r)
    a, c = model.factors(rows)[:, :, None, :], model.factors(background)[:, None]
    phi = np.zeros((len(rows), len(a)))
    for t, w in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
        u = t * a + (1.0 - t) * c
        is_zero = u == 0.0
        logs = np.log(np.where(is_zero, 1.0, u).astype(complex))
        others = np.where(is_zero.sum(axis=0) == is_zero, np.exp(logs.sum(axis=0) - logs), 0.0)
        phi += w * (((a - c) * others).mean(axis=2) @ model.coefficients[:, 0]).real.T
    return phi


def error_models(rng: np.random.Generator, d: int) -> dict[str, KernelExpansion | FourierExpansion]:
    """Made up, of `ERROR_TERMS` terms."""
    z, weights = rng.standard_normal((ERROR_TERMS, d)), rng.standard_normal((ERROR_TERMS, 1))
    return {
        "Nyström": KernelExpansion(RBF(float(np.sqrt(d))).bind(d), z, weights, np.zeros(1)),
        "Fourier": FourierExpansion(
            z / np.sqrt(d), rng.uniform(0, 6, ERROR_TERMS), weights, np.zeros(1)
        ),
    }


def error_cases(widths: Sequence[int]) -> list[ErrorCase]:
    """Every width, model, background, and rows near or far outside."""
    found = []
    for d in widths:
        rng = np.random.default_rng(d)
        one = rng.standard_normal((1, d))
        backgrounds = {
            "one row": one, "mean row": np.zeros((1, d)), "alike": np.repeat(one, 5, axis=0),
            "narrow": one + 1e-3 * rng.standard_normal((8, d)), "wide": 2.0 * rng.standard_normal((8, d)),
        }  # fmt: skip
        near = rng.standard_normal((ERROR_ROWS, d))
        far = near.copy()
        far[5], far[11, :3] = 10.0 * far[5], 1e3
        for (name, model), (spread, background), (where, rows) in itertools.product(
            error_models(rng, d).items(), backgrounds.items(), (("near", near), ("far", far))
        ):
            value = KernelInterventional(model, background)
            cube = dshap.explain(value, rows, design="quadrature", progress=False)
            stated, unit = json.loads(cube.attrs["closed_form"]), float(cube.prediction.std())
            true = np.abs(
                cube.attribution.values[:, :, 0] - other_code(model, rows, background)
            ).max()
            nodes, error = max(stated["nodes"]), stated["node_error"][0]
            found.append(ErrorCase(d, name, spread, where, nodes, error / unit, float(true) / unit))
    return found


def fresh_value_error(form: Quadrature, state: State, x: FloatArray, n_pairs: int) -> float:
    """Root mean square of v_S(x) over the kept background less that over all rows, for fresh pairs,
    by predictions."""
    rng, gaps = np.random.default_rng(99), []
    for size in rng.integers(0, D, n_pairs):
        row, present = x[rng.integers(len(x))], np.isin(np.arange(D), rng.permutation(D)[:size])
        kept, every = (
            form.value.model(np.where(present, row, over)).mean(axis=0)
            for over in (state["background"], x)
        )
        gaps.append(kept - every)
    return float(np.sqrt(np.mean(np.square(gaps))) / state["unit"][0])


def show_errors(cases: Sequence[ErrorCase]) -> None:
    """One line a case."""
    print(
        "\nerrors of the nodes, stated and true (40 nodes by other code), in standard deviations "
        "of the predictions"
    )
    for case in cases:
        ratio = case.stated / max(case.true, 1e-300)
        print(f"{case.d:>4} {case.model:<8} {case.background:<9} {case.rows:<5}{case.nodes:>4} nodes"
              f"{case.stated:>10.1e}{case.true:>10.1e}{ratio:>8.1f}")  # fmt: skip


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    parser.add_argument(
        "--data", type=Path, metavar="PATH.parquet", help="x0 to x31 and y; made up where missing"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    sizes = TINY_SIZES if given.tiny else FULL_SIZES
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    x, y = table(given.data, sizes.table)
    warm_up()
    results, explained = [], {}
    for name, embedding in embeddings(sizes.landmarks, sizes.fourier).items():
        model = fitted(embedding, x, y, sizes.lengthscale)
        assert model.r2_ is not None
        print(
            f'{name}: {len(x):,} rows, length-scales by "{sizes.lengthscale}", held-out R² '
            f"{model.r2_[0]:.4f}"
        )
        with one_blas_thread():
            results += measured(name, model, x, sizes)
            explained[name] = end_to_end(model, x, sizes)
    show(results)
    for name, rate in explained.items():
        print(f"{name}: dshap.explain of {sizes.rows} rows with {sizes.backgrounds[0]} background rows, learning "
              f"included: {rate:,.1f} rows/s")  # fmt: skip
    small = small_differences(x, y)
    print(
        f"all 2^{SMALL_D} coalitions of {SMALL_D} features by brute force, largest differences:",
        small,
    )
    errors = error_cases(sizes.widths)
    show_errors(errors)
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    content = {"results": [asdict(own) for own in results], "explain_rows_per_second": explained}
    write_json(
        given.json,
        {**content, "brute_force_difference": small, "errors": [asdict(case) for case in errors]},
    )


if __name__ == "__main__":
    main()
