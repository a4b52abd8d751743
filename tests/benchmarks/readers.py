"""Seconds and bytes from a fitted model and a table to pictures, by dshap and by its peers.

The model is one XGBoost regressor of 20 columns, which every program explains by the TreeSHAP of
XGBoost or its own.  Each program makes, as files, the attributions of all rows in one picture, those
of the first column against its values, and one row; explainerdashboard its page, which holds them
all, and so does the page of dshap.  Each runs in a process of its own, with a limit of time and of
memory; a program that does not end is told with its reason.

Peers can live in another environment, whose Python is given by `--peers`; programs that are not
installed there are left out by name.  Processor seconds are those of the process and its children.

Usage: python -m tests.benchmarks.readers [--rows 20000] [--trees 100] [--programs NAME ...]
       [--peers PYTHON] [--limit SECONDS] [--memory GIB] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

N_COLUMNS = 20
N_TREES = 100
MISSING = "is not installed"


def table(n_rows: int) -> tuple[Any, Any]:
    """Columns (n, 20) of normal numbers, and the target, which has an interaction."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    names = [f"column {place}" for place in range(N_COLUMNS)]
    rows = pd.DataFrame(rng.normal(size=(n_rows, N_COLUMNS)), columns=names)
    target = np.sin(rows["column 0"]) * rows["column 1"] + rows @ (1.0 / np.arange(1, 21))
    return rows, target


def fitted(folder: Path, n_rows: int, n_trees: int) -> None:
    """Fit the model and keep it with its rows, for every program the same."""
    import xgboost

    rows, target = table(n_rows)
    model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=6, n_jobs=1, random_state=0)
    model.fit(rows[:50_000], target[:50_000])
    model.save_model(folder / "model.json")


def opened(folder: Path, n_rows: int) -> tuple[Any, Any, Any]:
    """The model, its rows and their target."""
    import xgboost

    model = xgboost.XGBRegressor(n_jobs=1)
    model.load_model(folder / "model.json")
    return model, *table(n_rows)


def save(axes: Any, path: Path) -> None:
    """Write the figure of these axes as SVG."""
    axes.figure.savefig(path)


def by_dshap(folder: Path, n_rows: int) -> None:
    """Explain into a store, and draw three pictures of it."""
    import dshap

    model, rows, _ = opened(folder, n_rows)
    cube = dshap.explain(model, rows, store=folder / "store.zarr", keep_rows=True)
    save(dshap.report.beeswarm(cube), folder / "swarm.svg")
    save(dshap.report.dependence(cube, "column 0"), folder / "dependence.svg")
    save(dshap.report.waterfall(cube, 7), folder / "row.svg")


def by_dshap_page(folder: Path, n_rows: int) -> None:
    """Explain into a store, and make the page of it."""
    import dshap

    model, rows, _ = opened(folder, n_rows)
    dshap.explain(model, rows, store=folder / "store.zarr", keep_rows=True)
    dshap.report.page(folder / "store.zarr", folder / "page.html")


def by_shap(folder: Path, n_rows: int) -> None:
    """Explain in memory, and draw the same three pictures."""
    import matplotlib.pyplot as plt
    import shap

    model, rows, _ = opened(folder, n_rows)
    values = shap.TreeExplainer(model)(rows)
    save(shap.plots.beeswarm(values, max_display=20, show=False), folder / "swarm.svg")
    plt.figure()
    save(shap.plots.scatter(values[:, "column 0"], color=values, show=False) or plt.gca(),
         folder / "dependence.svg")  # fmt: skip
    plt.figure()
    save(shap.plots.waterfall(values[7], show=False), folder / "row.svg")


def by_shapash(folder: Path, n_rows: int) -> None:
    """Compile an explainer, and write its importance, contribution and local plots as HTML."""
    from shapash import SmartExplainer

    model, rows, _ = opened(folder, n_rows)
    explainer = SmartExplainer(model=model)
    explainer.compile(x=rows)
    explainer.plot.features_importance().write_html(folder / "importance.html")
    explainer.plot.contribution_plot("column 0").write_html(folder / "dependence.html")
    explainer.plot.local_plot(index=7).write_html(folder / "row.html")


def by_explainerdashboard(folder: Path, n_rows: int) -> None:
    """Save its page of a regression, interactions and what-if left out."""
    from explainerdashboard import ExplainerDashboard, RegressionExplainer

    model, rows, target = opened(folder, n_rows)
    explainer = RegressionExplainer(model, rows, target, n_jobs=1)
    page = ExplainerDashboard(
        explainer, shap_interaction=False, whatif=False, decision_trees=False, importances=True
    )
    page.save_html(folder / "page.html")


PROGRAMS: Mapping[str, Callable[[Path, int], None]] = {
    "dshap": by_dshap,
    "dshap page": by_dshap_page,
    "shap": by_shap,
    "shapash": by_shapash,
    "explainerdashboard": by_explainerdashboard,
}


def measured(
    name: str, python: str, model: Path, n_rows: int, limit: float, memory: float
) -> dict[str, Any]:
    """Run one program in a process of its own; its seconds, its peak, the bytes of its pictures."""
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        shutil.copy(model, folder)
        command = [python, "-m", __spec__.name, "--one", name, given, "--rows", str(n_rows)]
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "errors").open("w"),
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (int(memory * 2**30), int(memory * 2**30))
            ),
        )
        said = ended(process, limit)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        errors = (folder / "errors").read_text().strip().splitlines()
        if said or process.returncode:
            said = said or (errors[-1][:200] if errors else f"exit status {process.returncode}")
        made = [path for path in folder.iterdir() if path.suffix in {".svg", ".html"}]
        return {
            "program": name,
            "rows": n_rows,
            "ended": not said,
            "said": said,
            "seconds": round(time.perf_counter() - started, 1),
            "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_mib": usage.ru_maxrss >> 10,
            "picture_bytes": sum(path.stat().st_size for path in made),
        }


def ended(process: subprocess.Popen[bytes], limit: float) -> str:
    """Wait for a process; what is to be said where it was stopped at the limit."""
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"stopped after {limit:.0f} s"
    return ""


def one(name: str, folder: Path, n_rows: int) -> None:
    """Make the pictures of one program, in this process."""
    os.environ["MPLBACKEND"] = "agg"
    warnings.simplefilter("ignore")
    try:
        PROGRAMS[name](folder, n_rows)
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} {MISSING}")


def in_its_own(*given: Any) -> dict[str, Any]:
    """Measure in a forked process, so that the usage of children is that of this program alone."""
    reader, writer = os.pipe()
    if not os.fork():
        with os.fdopen(writer, "w") as out:
            json.dump(measured(*given), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as came:
        found: dict[str, Any] = json.load(came)
    os.wait()
    return found


def main() -> None:
    """Measure the programs one after the other, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=N_TREES)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--limit", type=float, default=900.0)
    parser.add_argument("--memory", type=float, default=12.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tiny:
        given.rows = 2_500
        given.programs = ["dshap"]
    if given.fit:
        return fitted(given.fit, given.rows, given.trees)
    if given.one:
        return one(given.one[0], Path(given.one[1]), given.rows)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = ["--rows", str(given.rows), "--trees", str(given.trees)]
        command = [sys.executable, "-m", __spec__.name, "--fit", folder, *sizes]
        subprocess.run(command, check=True)
        model = Path(folder) / "model.json"
        for name in given.programs:
            python = sys.executable if name.startswith("dshap") else given.peers
            found.append(in_its_own(name, python, model, given.rows, given.limit, given.memory))
            print(json.dumps(found[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
