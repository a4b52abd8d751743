"""The face: `explain`, `fit`, `prepare`.  Wires the floors; no numerics."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import dshap
from dshap import designs
from dshap.cube import (
    CONTAINER,
    CubeLayout,
    CubeWriter,
    StateFolder,
    Workspace,
    create_cube,
    open_cube,
    read_run,
    write_new,
)
from dshap.engine import (
    Context,
    DaskExecutor,
    Executor,
    Failure,
    LineProgress,
    LoopExecutor,
    Plan,
    Progress,
    SilentProgress,
    current_client,
    fit_model,
    format_bytes,
    make_plan,
    resolve_value,
    run_explanation,
)
from dshap.errors import DoesNotFitError, FailedBlocksError, InputError, StoreMismatchError, unknown_name
from dshap.inputs import open_rows, take_census
from dshap.models import KernelRidge
from dshap.options import RunOptions
from dshap.sources import Census
from dshap.types import Design, RowReader, ValueFunction

__all__ = [
    "IDLE_WORKER_BYTES",
    "NUMERICS_VERSION",
    "Explanation",
    "check_targets",
    "digest_of",
    "explain",
    "fit",
    "refuse_difference",
]

NUMERICS_VERSION = 1
"""Raised when the same options give other numbers; a store of another version is not resumed."""
MAX_COALITIONS = 2_048
"""Design "auto": exact up to this many coalitions, sampled above."""
IN_MEMORY_BYTES = 2 << 30
"""Largest cube that store=None computes."""
IDLE_WORKER_BYTES = 320 << 20
"""What a warm worker takes before its first task."""


def explain(
    value: ValueFunction,
    rows: Any,
    *,
    design: Design | str = "auto",
    store: str | Path | None = None,
    client: Any = None,
    key: Any = None,
    tol: float | None = None,
    max_coalitions: int | None = None,
    compute: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> xr.Dataset:
    """Shapley values of every row, as an attribution cube.

    Computes phi (n, d, k) = finish(Σ_S v_S(x) score_S): the design chooses coalitions and scores, the value function
    says what a coalition is worth.

    Parameters
    ----------
    value : a value function of `dshap.values`
    rows : the instances: a path of Parquet files (file, folder or glob), numpy array, pandas DataFrame, Dask array or
        dataframe, xarray Dataset or DataArray, or a source of `dshap.sources`.  Columns are matched by name wherever
        the value function knows names.
    design : "auto", "exact", "kernelshap" or a design of `dshap.designs`
        "auto" is exact where all coalitions are at most `max_coalitions`, else kernelshap with that many.
    store : path, optional
        Where the cube grows, readable and resumable: the same call again finishes what a crash left.  None computes
        in memory and is refused above 2 GiB of attributions.
    client : distributed.Client, optional
        None: the current Dask client if there is one, else this process.  The scheduler must be able to reach `store`
        and `rows` by path on every worker.
    key : str or list of str
        Column(s) of the rows that name them; for arrays a mapping name -> values.
    tol : not built yet
    max_coalitions : int, default 2,048
    compute : False creates the store with its plan, every row pending, and computes nothing
    progress : show rate and time left on standard error; None: on a terminal
    **options
        Fields of `dshap.options.RunOptions` (missing, dtype, keep_rows, units, tiles, memory_limit); unknown names are
        refused.

    Returns
    -------
    xarray.Dataset
        `attribution (instance, feature, output)`, `prediction`, `base_value`, `status`; see `dshap.open_cube`.

    Raises
    ------
    InputError
        Bad rows, model or options; nothing is written.
    DoesNotFitError
        A worker's memory, or this process's, is too small; nothing is started.
    StoreMismatchError
        The store holds another run; says what differs.
    LockedError
        Another process runs on this store.
    FailedBlocksError
        Some blocks have no attribution; the others are in the store, and the same call tries again.

    Examples
    --------
    >>> cube = dshap.explain(dshap.values.Marginal(model.predict, background), X)
    >>> cube.attribution.mean("instance")
    """
    if tol is not None:
        raise InputError("tol is not built yet: choose n_coalitions of the design, or max_coalitions")
    record = RunOptions.of({**options, "max_coalitions": max_coalitions})
    executor = executor_for(client)
    with _store_or_memory(store) as path, Workspace(path) as workspace:
        explanation = Explanation.prepare(value, rows, path, executor, workspace, record, design=design, key=key)
        if store is None:
            _check_in_memory(explanation.plan)
        if compute:
            explanation.run(executor, progress_for(progress)).raise_on_failed()
        else:
            explanation.create()
        cube = open_cube(path)
        return cube.load() if store is None else cube


def executor_for(client: Any) -> Executor:
    """The Dask executor of this client, or of the current one; the plain loop where there is none."""
    client = client if client is not None else current_client()
    return LoopExecutor() if client is None else DaskExecutor(client)


def progress_for(shown: bool | None) -> Progress:
    return LineProgress() if shown or (shown is None and sys.stderr.isatty()) else SilentProgress()


@contextlib.contextmanager
def _store_or_memory(store: str | Path | None) -> Iterator[Path]:
    """The absolute path of the store; without one a temporary folder that is gone afterwards."""
    if store is not None:
        if "://" in str(store):
            raise InputError(f"store {str(store)!r}: object stores are not built yet; give a path of a file system")
        yield Path(store).absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="dshap-"))
    try:
        yield folder / "cube.zarr"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_in_memory(plan: Plan) -> None:
    size = 8 * plan.n_rows * plan.n_players * plan.n_outputs
    if size > IN_MEMORY_BYTES:
        raise DoesNotFitError(
            f"the attributions take {format_bytes(size)}, and store=None allows {format_bytes(IN_MEMORY_BYTES)}: "
            "give store= a path"
        )


def choose_design(
    design: Design | str, n_players: int, max_coalitions: int | None, seed: int = 0
) -> tuple[Design, str]:
    """The design and why it was taken; `seed` is that of a design that is sampled and not given."""
    if not isinstance(design, str):
        return design, "given"
    limit = max_coalitions or max(MAX_COALITIONS, 4 * n_players)
    if design == "exact":
        return designs.exact(n_players), "given"
    if design == "kernelshap":
        return designs.kernelshap(
            n_players, min(limit, 2 ** min(n_players, 62)), seed=seed
        ), f"{limit:,} coalitions at most"
    if design != "auto":
        raise InputError(unknown_name("design", design, ("auto", "exact", "kernelshap")))
    if n_players <= 24 and 2**n_players <= limit:
        return designs.exact(n_players), f"auto: all 2^{n_players} coalitions are at most {limit:,}"
    return designs.kernelshap(n_players, limit, seed=seed), f"auto: 2^{n_players} coalitions are more than {limit:,}"


@dataclass
class Explanation:
    """One explanation that is checked and planned: `create` its store, or `run` it."""

    path: Path
    layout: CubeLayout
    context: Context
    failures: tuple[Failure, ...] = ()
    choice_name: str = ""

    @property
    def plan(self) -> Plan:
        return self.context.plan

    @classmethod
    def prepare(
        cls,
        value: ValueFunction,
        rows: Any,
        path: Path,
        executor: Executor,
        workspace: Workspace,
        options: RunOptions,
        *,
        design: Design | str = "auto",
        key: Any = None,
        seed: int = 0,
        census: Census | None = None,
    ) -> Explanation:
        """Everything that can be refused is refused here; nothing is written outside the workspace.

        `census` is that of `rows`, where it was taken before; `seed` is that of a sampled design that is not given.
        """
        names = value.feature_names
        reader = open_rows(
            rows, executor, lambda: workspace.folder("rows"),
            features=names, n_columns=value.n_columns, key=key, missing=options.missing,
        )  # fmt: skip
        census = census or take_census(reader, executor, lambda: workspace.folder("keys"))
        data, data_census = reader, census
        if not _is_same(value.data, rows):
            data = open_rows(
                value.data, executor, lambda: workspace.folder("data"),
                features=names, n_columns=value.n_columns, missing=options.missing,
            )  # fmt: skip
            data_census = take_census(data, executor, lambda: workspace.folder("data-keys"))
        chosen, why = choose_design(design, value.n_players, options.max_coalitions, seed)
        plan = _stored_plan(path) or make_plan(value, chosen, reader, data, options, (("design", why),))
        limits = [limit for limit in (executor.memory_limit, options.memory_limit) if limit]
        plan.check(min(limits, default=None), executor.n_threads, IDLE_WORKER_BYTES)
        run = _fingerprint(value, chosen, reader, options, census.fingerprint, data_census.fingerprint, data)
        _refuse_other_run(path, run)
        return cls._assembled(value, chosen, reader, data, path, options, plan, run)

    @classmethod
    def _assembled(
        cls,
        value: ValueFunction,
        design: Design,
        reader: RowReader,
        data: RowReader,
        path: Path,
        options: RunOptions,
        plan: Plan,
        run: dict[str, Any],
    ) -> Explanation:
        kept = {name: str(dtype) for name, dtype in reader.column_dtypes.items()} if options.keep_rows else {}
        layout = CubeLayout(
            n_rows=reader.n_rows,
            players=value.player_names,
            outputs=value.output_names,
            tile=plan.instance_tile,
            chunk=plan.chunk_rows,
            dtype=options.dtype,
            units=options.units,
            keys=dict(reader.key_dtypes),
            columns=kept,
            run={"digest": digest_of(run), "fingerprint": run, "version": dshap.__version__, "processor": _processor()},
        )
        learnt = {name: run[name] for name in ("numerics", "value", "data")} | {"row_span": plan.row_span}
        tiles: tuple[str, ...] = ()
        if value.needs_moments:
            masks = (design.block(*span).masks for span in plan.coalition_spans)
            tiles = tuple(f"moments-{digest_of({**learnt, 'masks': _mask_digest(m)})}" for m in masks)
        context = Context(
            value=value.without_data(),
            design=design,
            plan=plan,
            rows=reader,
            data=data,
            writer=CubeWriter(path, layout, layout.run["digest"]),
            states=StateFolder(path / CONTAINER),
            base_name=f"base-{digest_of(learnt)}",
            tile_names=tiles,
            keep_rows=options.keep_rows,
        )
        return cls(path, layout, context, choice_name=f"landmarks-{digest_of(learnt)}")

    def create(self) -> None:
        """The store, every row pending, with its plan; left as it is where it is there."""
        if read_run(self.path) is None:
            create_cube(self.path, self.layout)
        write_new(self.path / CONTAINER / "plan.json", self.plan.to_json().encode())

    @property
    def is_complete(self) -> bool:
        """Nothing is left to do."""
        return read_run(self.path) is not None and len(self.context.writer.done()) == len(self.plan.instance_spans)

    def run(self, executor: Executor, progress: Progress) -> Explanation:
        """Carry out what is left; this explanation with the blocks that failed."""
        if self.is_complete:
            return self
        self.create()
        states = self.context.states
        value = resolve_value(
            executor, self.context.value, self.context.data, states, self.choice_name, self.plan.row_span
        )
        context = replace(self.context, value=value)
        failures = run_explanation(executor, context, progress)
        return replace(self, failures=tuple(failures))

    def raise_on_failed(self) -> None:
        """A `FailedBlocksError` that names the first of the failed blocks."""
        if self.failures:
            first = self.failures[0]
            n_rows = sum(failure.stop - failure.start for failure in self.failures)
            raise FailedBlocksError(
                f"{len(self.failures)} of {len(self.plan.instance_spans)} blocks ({n_rows} rows) have no attribution; "
                f"rows {first.start} to {first.stop - 1}: {first.reason}. The others are in {self.path}; "
                "run the same again to retry"
            )


def _is_same(data: Any, rows: Any) -> bool:
    """The value function learns from the very rows that are explained."""
    return data is rows or (isinstance(data, str | Path) and isinstance(rows, str | Path) and str(data) == str(rows))


def _stored_plan(path: Path) -> Plan | None:
    try:
        return Plan.from_json((path / CONTAINER / "plan.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _fingerprint(
    value: ValueFunction,
    design: Design,
    reader: RowReader,
    options: RunOptions,
    rows_digest: str,
    data_digest: str,
    data: RowReader,
) -> dict[str, Any]:
    """Everything that changes a number of the cube; workers, window and display are not in it."""
    kept = {name: own for name, own in asdict(options).items() if name not in ("memory_limit", "max_coalitions")}
    return {
        "numerics": NUMERICS_VERSION,
        "value": value.fingerprint(),
        "design": design.fingerprint(),
        "features": list(reader.feature_names),
        "players": list(value.player_names),
        "outputs": list(value.output_names),
        "keys": dict(reader.key_dtypes),
        "options": {name: own for name, own in kept.items() if own is not None},
        "rows": {"digest": rows_digest, "n": reader.n_rows},
        "data": {"digest": data_digest, "n": data.n_rows},
    }


def _refuse_other_run(path: Path, run: Mapping[str, Any]) -> None:
    stored = read_run(path)
    if stored is None:
        if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
            raise StoreMismatchError(f"{path} exists and is no attribution cube: choose another store")
        return
    refuse_difference(path, stored.get("fingerprint", {}), run)


def refuse_difference(path: Path, stored: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """A `StoreMismatchError` that names what differs between two fingerprints, where anything does."""
    was, now = _flat(stored), _flat(json.loads(json.dumps(run)))
    changed = [
        f"{name} was {was.get(name, 'absent')}, now {now.get(name, 'absent')}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
    if changed:
        raise StoreMismatchError(
            f"{path} holds another run: {'; '.join(changed[:4])}"
            + (f" and {len(changed) - 4} more differences" if len(changed) > 4 else "")
            + "; choose another store, or remove it"
        )


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """value.penalty -> 0.001 and the like."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {name: leaf for key, own in tree.items() for name, leaf in _flat(own, f"{prefix}.{key}".strip(".")).items()}


def digest_of(content: Any) -> str:
    """blake2b of plain values, as text."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=10).hexdigest()


def _mask_digest(masks: np.ndarray) -> str:
    return hashlib.blake2b(np.packbits(masks, axis=1).tobytes(), digest_size=10).hexdigest()


def _processor() -> str:
    """The instruction set that the bits of the arrays belong to."""
    return platform.machine()


def fit(
    model: KernelRidge,
    rows: Any,
    target: Any,
    *,
    features: list[str] | None = None,
    client: Any = None,
    missing: str = "refuse",
    progress: bool | None = None,
) -> KernelRidge:
    """Fit a model on all rows of any table, on a cluster: the same bits as `model.fit` in one process.

    Parameters
    ----------
    model : KernelRidge
        Not changed; the fitted model is returned.
    rows, client, progress : as in `explain`
    target : column name(s) of the table; for an array the values, (n,) or (n, k)
    features : columns to fit on; None: all number columns but the target
    missing : "refuse" or "skip" rows with NaN or infinity, in a feature or in the target

    Raises
    ------
    InputError
        Bad rows or options.
    """
    executor = executor_for(client)
    with _store_or_memory(None) as path, Workspace(path) as workspace:
        return fit_rows(model, rows, target, executor, workspace, progress_for(progress), features, missing)


def fit_rows(
    model: KernelRidge,
    rows: Any,
    target: Any,
    executor: Executor,
    workspace: Workspace,
    progress: Progress,
    features: list[str] | None,
    missing: str,
) -> KernelRidge:
    """`fit` inside a workspace that is open."""
    if missing == "pass":
        raise InputError('missing = "pass" is for black boxes: a kernel model is fitted with "refuse" or "skip"')
    reader = open_rows(
        rows, executor, lambda: workspace.folder("fit"), features=features, target=target, missing=missing
    )
    census = take_census(reader, executor, lambda: workspace.folder("fit-keys"))
    check_targets(census, missing)
    return fit_model(executor, model, reader, progress)


def check_targets(census: Census, missing: str) -> None:
    """Refuse rows that cannot be fitted on, unless they are to be skipped."""
    if missing == "refuse" and census.n_bad_targets:
        raise InputError(f'{census.n_bad_targets} rows have no finite target: drop them, or fit with missing = "skip"')
