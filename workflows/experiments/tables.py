"""The tables of README.md, and differences between methods, from what the experiments left.

python -m workflows.experiments.tables FOLDER NAME [--of METHOD]

FOLDER is the `--out` of an experiment, and NAME its name.  With a method, what it drops the
log-odds less than each other one, instance by instance: below 0 where it drops them more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["differences", "table"]

SHOWN = (0.05, 0.1, 0.2, 0.4)
"""Of the shares that are masked."""


def table(content: Mapping[str, Any]) -> str:
    """The methods of a JSON as rows in Markdown: changes ± standard errors, and evaluations of one
    instance."""
    methods, at = (
        content["change_in_log_odds"],
        [content["masked_share"].index(share) for share in SHOWN],
    )
    lines = [_line(["", *(f"{100 * share:.0f} %" for share in SHOWN), "evaluations", "computed"])]
    lines.append("|---" * (len(SHOWN) + 3) + "|")
    for name, found in methods.items():
        changes = [_number(found["mean"][j], found["std_error"][j]) for j in at]
        cost = (f"{found[of]:,.0f}" for of in ("evaluations_an_instance", "computed_an_instance"))
        lines.append(_line([name, *changes, *cost]))
    return "\n".join(lines)


def differences(curves: xr.Dataset, name: str) -> Iterator[str]:
    """A line for each other method: the mean of this one less the other, ± its standard error over
    the instances."""
    change = curves["change"].sel(share=list(SHOWN))
    for other in change["explainer"].to_numpy():
        # (instances, shares)
        less = (change.sel(explainer=name) - change.sel(explainer=other)).to_numpy()
        mean, error = less.mean(axis=0), less.std(axis=0) / np.sqrt(len(less))
        if other != name:
            yield _line([str(other), *map(_number, mean, error)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _number(mean: float, error: float) -> str:
    return f"{mean:.2f} ± {error:.2f}".replace("-", "−")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table of an experiment, and the differences of one method from all others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--of", metavar="METHOD")
    given = parser.parse_args(argv)
    print(table(json.loads((given.folder / f"{given.name}.json").read_text())))
    if given.of:
        with xr.open_zarr(given.folder / f"{given.name}_curves.zarr", consolidated=False) as curves:
            print("", f"{given.of}, less", "", *differences(curves, given.of), sep="\n")


if __name__ == "__main__":
    main()
