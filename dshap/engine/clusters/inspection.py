"""Questions to the workers: their versions, which places they can open, how fast they answer."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dshap.core.errors import InputError
from dshap.core.late import distributed
from dshap.core.places import Place
from dshap.core.processors import processor
from dshap.storage.folder import Folder

COMPARED = ("dshap", "numpy", "distributed")
"""Packages whose versions must be the same on both sides of a run: the same code, the same bits."""
SHOWN = (*COMPARED, "scipy", "numba", "dask")
SHOWN_WORKERS = 3
"""The most workers that one message names."""
# of so many answers the median is shown: a slow one or two change nothing
N_TRIPS = 20


def versions_here() -> dict[str, str]:
    """The versions of Python and of the packages of `SHOWN` in this process."""
    return _of_interest(distributed.versions.get_package_info(SHOWN))


def versions_of_workers(client: distributed.Client) -> dict[str, dict[str, str]]:
    """Address of a worker -> its versions, as `versions_here` has them; no code is sent there."""
    asked: Any = client.get_versions(check=False, packages=list(SHOWN))
    found = asked["workers"]
    return {address: _of_interest(each["packages"]) for address, each in found.items()}


def _of_interest(packages: Mapping[str, Any]) -> dict[str, str]:
    """Python and the packages of `SHOWN`; of Python the parts that byte code depends on."""
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"python": python, **{name: str(packages.get(name) or "none") for name in SHOWN}}


def processors_of_workers(client: distributed.Client) -> dict[str, str]:
    """Address of a worker -> its processor in words; the worker must have this version of dshap."""
    found: dict[str, str] = client.run(processor)
    return found


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of packages that differ between both sides of a run, and must not."""
    return [name for name in ("python", *COMPARED) if one[name] != other[name]]


def refuse_other_versions(client: distributed.Client) -> None:
    """Raise an `InputError` that names every version that a worker has otherwise than this process."""
    here = versions_here()
    found = versions_of_workers(client)
    others: dict[str, dict[str, str]] = {}
    for address, there in found.items():
        for name in differing(here, there):
            others.setdefault(name, {})[address] = there[name]
    said = [f"{name} {here[name]} here and {_told(each)}" for name, each in others.items()]
    if said:
        raise InputError(
            f"the workers have different versions from this process: {'; '.join(said)}: install "
            "the same on both sides, because arrays would differ"
        )


def with_other_versions(client: distributed.Client) -> set[str]:
    """The addresses of workers whose versions differ from those of this process."""
    here = versions_here()
    found = versions_of_workers(client).items()
    return {address for address, there in found if differing(here, there)}


def ended_on_purpose(client: distributed.Client, gone: Collection[str]) -> set[str]:
    """The addresses of workers that the cluster ended itself, of those that are gone.

    The scheduler stores an hour of events about each worker.  It expects the end of one that a
    cluster scales down, that its walltime ends in good order, or that was sent away.
    """
    return {address for address in gone if _was_expected(client, address)}


def _was_expected(client: distributed.Client, address: str) -> bool:
    """Whether the scheduler expected the end of a worker."""
    events: Any = client.get_events(address)
    return any(
        event.get("action") == "remove-worker" and event.get("expected") for _, event in events
    )


def refuse_other_versions_than(client: Mapping[str, str]) -> None:
    """Raise an `InputError` on a worker that comes late with other versions than the client's."""
    here = versions_here()
    said = [
        f"{name} {client[name]} there and {here[name]} here" for name in differing(client, here)
    ]
    if said:
        raise InputError(f"the client has different versions from this worker: {'; '.join(said)}")


def _told(others: Mapping[str, str]) -> str:
    """Versions with the workers that have them."""
    told = []
    for version in sorted(set(others.values())):
        addresses = [address for address, each in others.items() if each == version]
        told.append(f"{version} on {_some(addresses)}")
    return ", ".join(told)


def _some(addresses: Sequence[str]) -> str:
    more = len(addresses) - SHOWN_WORKERS
    return ", ".join(addresses[:SHOWN_WORKERS]) + (f" and {more} more" if more > 0 else "")


def unseen_by_workers(
    client: distributed.Client, places: Mapping[str, Place]
) -> dict[str, dict[str, str]]:
    """Noun -> worker -> the reason why it does not see the place, where some do not.

    The reason is empty if a path is not there; of a bucket it is the error of a listing.
    """
    texts = {noun: str(place) for noun, place in places.items()}
    found = client.run(unseen_places, texts)
    unseen: dict[str, dict[str, str]] = {}
    for address, faults in found.items():
        for noun, fault in faults.items():
            unseen.setdefault(noun, {})[address] = fault
    return unseen


def unseen_places(places: Mapping[str, str]) -> dict[str, str]:
    """Noun -> the reason, of the places that this process does not see."""
    unseen = {}
    for noun, text in places.items():
        fault = Folder(text).fault()
        if fault is not None:
            unseen[noun] = fault
    return unseen


def refuse_unseen(client: distributed.Client, places: Mapping[str, Place]) -> None:
    """Raise an `InputError` if a worker does not see one of the places; `places` are by noun."""
    for noun, faults in unseen_by_workers(client, places).items():
        workers = _some(list(faults))
        if fault := next(filter(None, faults.values()), ""):
            raise InputError(f"the {noun} is not seen by {workers}: {fault}")
        raise InputError(
            f"the {noun}, {places[noun]}, is not seen by {workers}: put it on a file system "
            "that client and workers see under the same path"
        )


def round_trip_s(client: distributed.Client) -> float:
    """The median seconds in which a worker answers a task that does nothing."""
    taken = []
    for number in range(N_TRIPS):
        start = time.perf_counter()
        client.submit(int, number, pure=False).result()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[N_TRIPS // 2]
