"""How far predictions of real models lie apart on other processors, beside the bound that decides whether
a run goes on (`dshap.run.probes`).

The kernels of OpenBLAS and the loops of NumPy for other processors stand for these: each is chosen by a
variable, in a process of its own, which predicts the same rows by the same stored models.

Usage: python -m tests.benchmarks.rounding [--tiny]
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.records import FloatArray
from dshap.run.determinism import check_steady
from dshap.run.probes import NOTICED, Probes, rounding_of

KERNELS = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX", "Prescott")
LOOPS = ("X86_V4 AVX512_ICL AVX512_SPR", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
"""What NumPy leaves out: AVX-512, and AVX2 too."""
PROCESSORS = [{}, *({"OPENBLAS_CORETYPE": name} for name in KERNELS)]
PROCESSORS += [{"NPY_DISABLE_CPU_FEATURES": names} for names in LOOPS]
N_COLUMNS = 20
N_ROWS = 64
EPS = {True: float(np.finfo(np.float32).eps), False: float(np.finfo(np.float64).eps)}


def fitted(n_rows: int) -> dict[str, Any]:
    """Fitted models by their names."""
    import lightgbm
    import xgboost
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neural_network import MLPRegressor
    from sklearn.svm import SVR

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, N_COLUMNS))
    y = x @ rng.normal(size=N_COLUMNS) + np.sin(3 * x[:, 0]) * x[:, 1]
    few = slice(0, n_rows // 2)
    process = GaussianProcessRegressor(kernels.RBF(5.0), alpha=1e-10, optimizer=None)
    network = {"hidden_layer_sizes": (200, 200), "max_iter": 20, "random_state": 0}
    single = MLPRegressor(**network).fit(x.astype(np.float32), y.astype(np.float32))
    trees = {"n_estimators": 300, "max_depth": 6, "n_jobs": 1}
    return {
        "linear": LinearRegression().fit(x, y),
        "logistic": LogisticRegression().fit(x, y > 0),
        "network": MLPRegressor(**network).fit(x, y),
        "network, float32": single,
        "support vectors": SVR(C=1000).fit(x, y),
        "Gaussian process": process.fit(x[few], y[few]),
        "kernel ridge": KernelRidge(kernel="rbf", gamma=0.005, alpha=1e-10).fit(x, y),
        "random forest": RandomForestRegressor(50, random_state=0, n_jobs=1).fit(x, y),
        "XGBoost": xgboost.XGBRegressor(**trees).fit(x, y),
        "XGBoost, classes": xgboost.XGBClassifier(**trees).fit(x, (y > 0).astype(int)),
        "LightGBM": lightgbm.LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1).fit(x, y > 0),
    }


def predict_of(model: Any, is_single: bool) -> Callable[[FloatArray], FloatArray]:
    """f(x) (n, k) of a fitted model, which gets rows in float32 where it was fitted on such."""
    of_model = getattr(model, "predict_proba", model.predict)

    def predict(rows: FloatArray) -> FloatArray:
        found = np.asarray(of_model(rows.astype(np.float32) if is_single else rows), np.float64)
        return found.reshape(len(rows), -1)

    return predict


def predict_all(models: Path, out: Path) -> None:
    """Predict the rows by each model, on the processor of this process."""
    rows = np.random.default_rng(5).normal(size=(N_ROWS, N_COLUMNS))
    found = {}
    for name, model in pickle.loads(models.read_bytes()).items():
        predict = predict_of(model, "float32" in name)
        predictions = predict(rows)
        found[name] = Probes(predictions, predictions[:0], check_steady(predict, rows))
    out.write_bytes(pickle.dumps(found))


def measured(folder: Path, n_rows: int) -> list[dict[str, Probes]]:
    """The predictions of each model on each processor."""
    models = folder / "models"
    models.write_bytes(pickle.dumps(fitted(n_rows)))
    found = []
    for number, variables in enumerate(PROCESSORS):
        out = folder / f"{number}"
        command = [sys.executable, "-m", "tests.benchmarks.rounding", "--predict", models, out]
        subprocess.run(list(map(str, command)), env={**os.environ, **variables}, check=True)
        found.append(pickle.loads(out.read_bytes()))
    return found


def line_of(name: str, probes: list[Probes]) -> tuple[str, float]:
    """The line of a model, and its largest difference in units of the bound."""
    pairs = [(one, other) for one in probes for other in probes]
    furthest = max(
        (one.difference(other) for one, other in pairs), key=lambda pair: pair[0] / pair[1]
    )
    gap, bound = furthest
    first = probes[0].rows
    is_single = np.array_equal(first.astype(np.float32), first)
    least = rounding_of(first, probes[0].noise)
    unit = EPS[is_single] * float(np.abs(first).max())
    ratios = (gap / unit, gap / bound, float((NOTICED * first.std(axis=0) / least).min()))
    text = "".join(f"{ratio:>14.4g}" for ratio in ratios)
    return f"{name:<20}{'float32' if is_single else 'float64':>8}{text}", gap / bound


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--predict", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.predict:
        predict_all(*options.predict)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), 200 if options.tiny else 2_000)
    print(f"{'model':<20}{'type':>8}{'gap / (ε s)':>14}{'gap / bound':>14}{'0.001 σ/bound':>14}")
    lines = [line_of(name, [each[name] for each in found]) for name in found[0]]
    print("\n".join(text for text, _ in lines))
    if any(ratio > 1.0 for _, ratio in lines):
        sys.exit("a model counts as another one on another processor")


if __name__ == "__main__":
    main()
