"""Rows that are erased from a finished cube: their places stay, without values, texts or key.

Each variable of an erased row has its fill value (NaN, "", −1), and the status "skipped".  The
sums of its block are computed again from the rows that are left.  The bits of all other values stay
the same. The note `ERASED` lists the positions, so that readers leave these rows out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.core.records import BoolArray, FloatArray, Record
from dshap.cube.arrays import RUN, read_run
from dshap.cube.block_arrays import SUMMARIES
from dshap.cube.creation import ROOT
from dshap.cube.erased_note import ERASED, erased_rows
from dshap.cube.metadata import block_rows
from dshap.cube.opening import keep_opening
from dshap.cube.packing import pack_cube, unpack_cube
from dshap.cube.receipts import block_name, is_packed
from dshap.cube.reference_copy import (
    FINISHED,
    copied_files,
    copy_name_of,
    copy_of,
    failures_of,
    files_of_finished,
    histograms_of,
    mark_of,
    notes_of,
    receipts_of,
    states_of,
)
from dshap.cube.shards import Shards, known_shards
from dshap.cube.stored_rows import StoredRows
from dshap.cube.summary import bounded_sums
from dshap.cube.value_digests import block_digests
from dshap.cube.writer import keep_files
from dshap.storage.folder import Folder

REDACTED = "(erased)"
"""The text in the place of a text that only erased rows had."""
WITH_ROWS = ("background", "enough", "landmarks", "pilot", "predictions", "rows", "sample")
"""The first words of the names of states with rows, or numbers of single rows."""
OF_SUMS = ("base", "fit", "moments", "range")
"""The first words of the names of states of sums over all rows, which are learned again too."""
MODEL_ON_PAGE = "what-if"
"""The state of a model for a page, which contains rows for kernels."""


def erase_rows(path: Place, positions: NDArray[np.int64], *, has_learned: bool) -> None:
    """Erase rows of a finished cube; the same call again goes on where a killed one ended.

    Parameters
    ----------
    path : Place
    positions : (n,)
        The rows to erase.
    has_learned : bool
        Whether the states of the cube were learned from rows that are erased: such states go.

    Raises
    ------
    DamagedError
        A block that has such a row is not as it was written.
    """
    # before the mark is written again: it alone lists the other cubes of a job
    others = _list_before(path)
    unpack_cube(path)
    # rows of earlier erasures stay in the note
    rows = np.union1d(positions, erased_rows(path))
    tile = block_rows(path)
    for block in np.unique(positions // tile).tolist():
        _erase_in_block(path, block, positions[positions // tile == block])
    _erase_in_failures(path, positions, tile)
    _erase_states(path, positions, has_learned=has_learned)
    notes_of(path).put_over(ERASED, {"rows": rows.tolist()})
    mark_of(path).put_over(FINISHED, files_of_finished(path, others))
    pack_cube(path)


def _list_before(path: Place) -> Sequence[str]:
    return list((mark_of(path).whole_one(FINISHED) or {}).get("others", []))


def _erase_in_block(path: Place, block: int, positions: NDArray[np.int64]) -> None:
    """Erase rows of one block: its sums first, then the values, the receipt last."""
    receipts = receipts_of(path)
    receipt = receipts.whole_one(block_name(block))
    if receipt is None:
        raise _damaged(path, block)
    at = positions - receipt["start"]
    rows = slice(receipt["start"], receipt["stop"])
    names = [name for name in receipt["digests"] if name not in SUMMARIES]
    arrays = {name: _shards(path, name) for name in names}
    values: dict[str, NDArray[Any]] = {}
    for name in names:
        if arrays[name].shape[0] != arrays["status"].shape[0]:
            continue  # base values that all rows share
        found = arrays[name].read(rows.start, rows.stop)
        if found is None:
            raise _damaged(path, block)
        values[name] = np.array(found)
    summaries = _sums_without(path, block, values, at)
    for name, stored in values.items():
        stored[at] = arrays[name].fill
    values["status"][at] = Status.SKIPPED
    status = {"status": values.pop("status")}
    contents = {
        f"{name}/{_shards(path, name).name(block)}": _shards(path, name).encoded(stored)
        for name, stored in {
            **{n: v[None] for n, v in summaries.items()},
            **values,
            **status,
        }.items()
    }
    sizes = keep_files(Folder(path), contents)
    files: Mapping[str, int] = receipt.get("files", {})
    changed: dict[str, Any] = {
        "digests": {**receipt["digests"], **block_digests({**values, **status, **summaries})},
        "files": {**files, **sizes},
        "ok": int(summaries["blocks/count"]),
    }
    if "failed" in receipt:
        changed["failed"] = _without_rows(
            receipt["failed"], positions, status["status"], rows.start
        )
    kept = {name: value for name, value in {**receipt, **changed}.items() if value != []}
    receipts.put_over(block_name(block), kept)


def _damaged(path: Place, block: int) -> DamagedError:
    return DamagedError(
        f"block {block} of {path} is not as it was written: dshap verify lists the damage; repair it, and "
        "forget the same keys again"
    )


def _shards(path: Place, name: str) -> Shards:
    folder = Folder(path / name)
    return known_shards(folder, folder.get(ROOT) or b"{}")


def _sums_without(
    path: Place, block: int, values: Mapping[str, NDArray[Any]], at: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """The sums of a block over its good rows without the erased ones.

    The contribution of the replicates of the erased rows is not known: the first replicate has an
    upper bound of it, as that of carried rows has (`bounded_sums`).
    """
    before = {name: StoredRows(path / name).read(block, block + 1)[0] for name in SUMMARIES}
    is_ok = values["status"] == Status.OK
    is_erased = np.zeros(len(is_ok), bool)
    is_erased[at] = True
    sums = np.array(before["blocks/attribution"], np.float64)  # (1 + R, statistics, d, k)
    n_replicates = len(sums) - 1
    n_statistics = sums.shape[1]
    share = _share_of_coalitions(sums[0])

    def over(chosen: BoolArray) -> FloatArray:
        phi = values["attribution"][chosen].astype(np.float64)
        errors = values["std_error"][chosen].astype(np.float64) if n_replicates else None
        return bounded_sums(phi, errors, n_replicates, share=share)[:, :n_statistics]

    left = over(is_ok & ~is_erased)
    deviations = sums - sums[0]
    if n_replicates:
        gone = over(is_ok & is_erased)
        deviations[1] += gone[1] - gone[0]
    return {
        "blocks/attribution": left[0] + deviations,
        "blocks/count": np.array(np.count_nonzero(is_ok & ~is_erased)),
        "blocks/residual": _residual(path, values, is_ok & ~is_erased, before["blocks/residual"]),
    }


def _share_of_coalitions(sums: FloatArray) -> FloatArray | float:
    """(d, k): the share of the sampled coalitions in the squared errors, from sums of a block."""
    # cubes of earlier versions have no sums of squared errors
    if len(sums) < 6:
        return 1.0
    return np.divide(sums[4], sums[5], out=np.ones_like(sums[4]), where=sums[5] > 0)


def _residual(
    path: Place, values: Mapping[str, NDArray[Any]], chosen: BoolArray, before: FloatArray
) -> FloatArray:
    """(k,): a bound of |Σφ + base value − prediction| of the chosen rows, at most that before."""
    base = values.get("base_value")
    if base is None:
        base = StoredRows(path / "base_value").read(0, len(before))
    else:
        base = base[chosen]
    total = np.nansum(values["attribution"][chosen].astype(np.float64), axis=1)
    gap = np.abs(total + base - values["prediction"][chosen])
    return np.minimum(gap.max(axis=0, initial=0.0), before)


def _without_rows(
    groups: Sequence[Mapping[str, Any]],
    positions: NDArray[np.int64],
    statuses: NDArray[np.int8],
    start: int,
) -> list[dict[str, Any]]:
    """Groups of failed rows without the erased ones: the first of a group may not be named any more.

    `statuses` (n,) are those of the block that begins at row `start`.  The words of a reason may
    contain a value of its first row: those of an erased row go.
    """
    n_left = int(np.count_nonzero(statuses == Status.FAILED))
    kept: list[dict[str, Any]] = []
    for group in groups:
        is_erased = bool(np.isin(group["position"], positions).any())
        if is_erased and n_left:
            first = start + int(np.flatnonzero(statuses == Status.FAILED)[0])
            kept.append({**group, "reason": REDACTED, "position": first, "first": f"row {first}"})
        elif not is_erased:
            kept.append(dict(group))
    excess = sum(group["rows"] for group in kept) - n_left
    for group in kept:
        fewer = min(max(excess, 0), group["rows"] - 1)
        group["rows"] -= fewer
        excess -= fewer
    return kept


def _erase_in_failures(path: Place, positions: NDArray[np.int64], tile: int) -> None:
    """Remove the words about erased rows from the reasons why whole blocks failed."""
    failures = failures_of(path)
    for block in np.unique(positions // tile).tolist():
        name = block_name(block)
        content = failures.whole_one(name)
        if content is not None:
            groups = [{**group, "reason": REDACTED} for group in content["failed"]]
            failures.put_over(name, {**content, "failed": groups})


def _erase_states(path: Place, positions: NDArray[np.int64], *, has_learned: bool) -> None:
    """Remove histograms, which are made again, and states that contain rows or follow from them."""
    histograms = histograms_of(path)
    for name in list(histograms.names()):
        histograms.remove(name)
    states = states_of(path)
    for name in list(states.names()):
        if _has_erased(path, name, positions, has_learned=has_learned):
            states.remove(name)


def _has_erased(path: Place, name: str, positions: NDArray[np.int64], *, has_learned: bool) -> bool:
    """Whether a state may hold a number of an erased row, or follows from such rows."""
    first = name.partition("-")[0]
    if first == "probe":
        return _is_probed(states_of(path).get(name, Record), positions)
    return has_learned and (first in (*WITH_ROWS, *OF_SUMS) or _holds_rows(name, path))


def _is_probed(probe: Record, positions: NDArray[np.int64]) -> bool:
    """Whether a probe, which has predictions of the first rows, has one of these rows."""
    longest = max((len(array) for array in probe.arrays.values() if array.ndim), default=0)
    return bool((positions < longest).any())


def _holds_rows(name: str, path: Place) -> bool:
    """Whether a state is the model of a page with rows of the table."""
    if name != MODEL_ON_PAGE:
        return False
    content = json.loads(states_of(path).get(name, Record)["content"].tobytes())
    return content.get("kind") != "trees"


def redact_documents(path: Place, texts: Collection[str]) -> None:
    """Remove texts from the record of the run in the root document, and from its copy.

    The old copy goes last; the same call again goes on where a killed one ended.
    """
    folder = Folder(path)
    root = folder.get(ROOT) or b"{}"
    fresh = redacted_root(root, texts)
    copies = copy_of(path)
    names = list(copies.names())
    if not names or (fresh == root and names == [copy_name_of(path)]):
        return
    created = copied_files(path)
    folder.replace(ROOT, fresh)
    now = copy_name_of(path)
    if now not in names:
        created[ROOT] = redacted_root(created[ROOT], texts)
        contents = {name: np.frombuffer(content, np.uint8) for name, content in created.items()}
        copies.put(now, Record(contents))
    for other in names:
        if other != now:
            copies.remove(other)
    if is_packed(path):
        keep_opening(path)


def redacted_root(content: bytes, texts: Collection[str]) -> bytes:
    """A root document whose record of the run has none of these texts."""
    document = json.loads(content)
    attributes = document.get("attributes", {})
    if not texts or RUN not in attributes:
        return content
    run = json.loads(attributes[RUN])
    clean = redacted(run, texts)
    if clean == run:
        return content
    attributes[RUN] = json.dumps(clean, sort_keys=True)
    return json.dumps(document, indent=2).encode()


def redacted(value: Any, texts: Collection[str]) -> Any:
    """Plain values with `REDACTED` in the place of each of these texts, at any depth."""
    match value:
        case dict():
            return {name: redacted(each, texts) for name, each in value.items()}
        case list():
            return [redacted(each, texts) for each in value]
        case str() if value in texts:
            return REDACTED
    return value


def listed_texts(path: Place) -> frozenset[str]:
    """All texts that the record of a cube lists as categories of its columns."""
    found: set[str] = set()

    def look(value: Any, is_listed: bool) -> None:
        match value:
            case dict():
                for name, each in value.items():
                    look(each, is_listed or name == "categories")
            case list():
                for each in value:
                    look(each, is_listed)
            case str() if is_listed:
                found.add(value)

    look(read_run(path) or {}, False)
    return frozenset(found)
