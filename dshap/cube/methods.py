"""`cube.dshap`: functions of a cube as methods of its Dataset, and the cube in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from importlib import import_module
from types import MethodType
from typing import Any

import numpy as np

from dshap.core.blocks import Status
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.html import table_html
from dshap.core.late import xr
from dshap.core.printing import label
from dshap.core.scales import unit_words
from dshap.cube.datasets import are_erased, as_cube, global_means, row_slices, status_of

MAX_FEATURES = 10
MAX_OUTPUTS = 4
"""The most features and outputs of which the summary of a cube shows the means."""
MAX_TOLD = 3
"""The most features that the line at the end of a run names."""


@xr.register_dataset_accessor("dshap")  # type: ignore[no-untyped-call]
class CubeMethods:
    """Pictures and tables of a cube: `cube.dshap.beeswarm()` is `dshap.report.beeswarm(cube)`.

    Alone, as `cube.dshap`, it shows the cube in a few lines: its rows, and the features that matter
    most.  Its methods are put there by `offer`, each with the docstring and the options of its
    function; they are there as soon as dshap has made or opened a cube.
    """

    def __init__(self, cube: xr.Dataset) -> None:
        self._cube = cube

    def __repr__(self) -> str:
        cube = as_cube(self._cube)
        lines = [rows_line(cube), *_mean_lines(cube)]
        return "\n".join([*lines, f"methods: {', '.join(offered())}"])

    def _repr_html_(self) -> str:
        cube = as_cube(self._cube)
        means = global_means(cube)["mean_magnitude"].isel(output=slice(MAX_OUTPUTS))
        names = [label(name, 24) for name in means["output"].values]
        heads = [f"mean |attribution|{_of_output(cube, name)}" for name in names]
        labels = ColumnDictionary.of_attributes(cube.attrs)
        rows = [
            [
                label(labels.label_of(name), 32),
                *(f"{each:.4g}" for each in means.sel(feature=name).values),
            ]
            for name in _ranked(means)
        ]
        notes = [*_left_out(cube), f"cube.dshap has {', '.join(offered())}"]
        return table_html(rows_line(cube), ["feature", *heads], rows, notes)


class _Offered:
    """A function of a cube as a method, imported when it is first asked for."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @cached_property
    def method(self) -> Callable[..., Any]:
        return _method(getattr(import_module(self.module), self.name))

    def __get__(self, methods: CubeMethods | None, owner: type[CubeMethods]) -> Any:
        if methods is None:
            return self.method
        return MethodType(self.method, methods)


def offer(module: str, *names: str) -> None:
    """Make functions of a cube, which are in a module, methods of `cube.dshap` under their names."""
    for name in names:
        setattr(CubeMethods, name, _Offered(module, name))


def offered() -> list[str]:
    """The names of the methods of `cube.dshap`."""
    return sorted(name for name in vars(CubeMethods) if not name.startswith("_"))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method that calls a function with the cube as its first argument."""

    @wraps(function)
    def method(self: CubeMethods, *args: Any, **options: Any) -> Any:
        return function(self._cube, *args, **options)

    return method


def rows_line(cube: xr.Dataset) -> str:
    """The size of a cube in one line, with the numbers of rows that have no attribution."""
    of_features = "feature"
    if "token" in cube:
        of_features = "token"
    sizes = ((cube.sizes["instance"], "row"), (cube.sizes["feature"], of_features))
    said = [f"{size:,} {name}{'s' * (size != 1)}" for size, name in sizes]
    n_outputs = cube.sizes["output"]
    said += [f"{n_outputs:,} outputs"] * (n_outputs > 1)
    return "; ".join([" × ".join(said), *filter(None, [without_attribution(cube)])])


def without_attribution(cube: xr.Dataset) -> str:
    """The numbers of rows without attribution by their status: "5 pending, 1 skipped", or empty."""
    counts = np.zeros(len(Status.MEANINGS), np.int64)
    if "status" in cube:
        for rows in row_slices(cube):
            status = status_of(cube, rows)[~are_erased(cube, rows)]
            counts += np.bincount(status, minlength=len(counts))
    n_erased = cube.sizes["instance"] - int(counts.sum()) if "status" in cube else 0
    found = [*zip(counts.tolist(), Status.MEANINGS, strict=True), (n_erased, "erased")]
    return ", ".join(f"{count:,} {name}" for count, name in found if count and name != "ok")


def summary_line(cube: xr.Dataset) -> str:
    """A cube in one line: its size, and the features that matter most, but of texts."""
    if "token" in cube:
        return rows_line(cube)
    means = global_means(cube)["mean_magnitude"]
    labels = ColumnDictionary.of_attributes(cube.attrs)
    shown = [
        f"{label(labels.label_of(name), 24)} {float(means.sel(feature=name).mean()):.3g}"
        for name in _ranked(means)[:MAX_TOLD]
    ]
    more = ", …" * (cube.sizes["feature"] > MAX_TOLD)
    said = f"mean |attribution|{_in_brackets(_scale_of(cube))}: {', '.join(shown)}{more}"
    return f"{rows_line(cube)}; {said}"


def _of_output(cube: xr.Dataset, name: str) -> str:
    """Words for an output of a cube: its name if there are several, and the scale in brackets."""
    if cube.sizes["output"] == 1:
        return _in_brackets(_scale_of(cube))
    return f" for {name}{_in_brackets(_scale_of(cube), name)}"


def _in_brackets(scale: str, output: str = "") -> str:
    said = unit_words("1", scale, output)
    return f" ({label(said)})" * bool(said)


def _scale_of(cube: xr.Dataset) -> str:
    return str(cube["attribution"].attrs.get("scale", ""))


def _ranked(means: Any) -> list[str]:
    """The features with the largest mean over the outputs, at most `MAX_FEATURES`."""
    order = np.argsort(-means.mean("output").values, kind="stable")
    return [str(means["feature"].values[place]) for place in order[:MAX_FEATURES]]


def _left_out(cube: xr.Dataset) -> Iterator[str]:
    """Lines about features and outputs that are not shown."""
    if cube.sizes["feature"] > MAX_FEATURES:
        yield f"+ {cube.sizes['feature'] - MAX_FEATURES:,} other features"
    if cube.sizes["output"] > MAX_OUTPUTS:
        yield f"+ {cube.sizes['output'] - MAX_OUTPUTS:,} other outputs"


def _mean_lines(cube: xr.Dataset) -> Iterator[str]:
    """A line for each output with the features that matter most."""
    means = global_means(cube)["mean_magnitude"]
    labels = ColumnDictionary.of_attributes(cube.attrs)
    for place, name in enumerate(cube["output"].values[:MAX_OUTPUTS]):
        of_output = means.isel(output=[place])
        shown = [
            f"{label(labels.label_of(feature), 24)} {float(of_output.sel(feature=feature).values[0]):.4g}"
            for feature in _ranked(of_output)
        ]
        yield f"mean |attribution|{_of_output(cube, label(name, 24))}: {', '.join(shown)}"
    yield from _left_out(cube)
