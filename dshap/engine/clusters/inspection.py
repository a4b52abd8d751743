"""A client asks its workers: their versions, what they see, how fast they answer."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.versions import get_package_info

from dshap.core.errors import InputError

COMPARED = ("dshap", "numpy", "distributed")
"""Packages whose versions are the same on both sides of a run: the same code, the same bits."""
SHOWN = (*COMPARED, "scipy", "numba", "dask")
SHOWN_WORKERS = 3
"""The most workers that one message names."""
N_TRIPS = 20


def versions_here() -> dict[str, str]:
    """The versions of Python and of the packages of `SHOWN` in this process."""
    return _of_interest(get_package_info(SHOWN))


def versions_of_workers(client: Client) -> dict[str, dict[str, str]]:
    """Address of a worker -> its versions, as `versions_here` has them; no code is sent there."""
    asked: Any = client.get_versions(check=False, packages=list(SHOWN))
    found = asked["workers"]
    return {address: _of_interest(each["packages"]) for address, each in found.items()}


def _of_interest(packages: Mapping[str, Any]) -> dict[str, str]:
    """Python and the packages of `SHOWN`; of Python what byte code depends on."""
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"python": python, **{name: str(packages.get(name) or "none") for name in SHOWN}}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of what must be the same on both sides of a run, and is not."""
    return [name for name in ("python", *COMPARED) if one[name] != other[name]]


def refuse_other_versions(client: Client) -> None:
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
            f"the workers have other versions than this process: {'; '.join(said)}: install "
            "the same on both sides, as arrays would differ"
        )


def with_other_versions(client: Client) -> set[str]:
    """The addresses of workers whose versions differ from those of this process."""
    here = versions_here()
    found = versions_of_workers(client).items()
    return {address for address, there in found if differing(here, there)}


def refuse_other_versions_than(client: Mapping[str, str]) -> None:
    """Raise an `InputError` on a worker that comes late with other versions than the client's."""
    here = versions_here()
    said = [
        f"{name} {client[name]} there and {here[name]} here" for name in differing(client, here)
    ]
    if said:
        raise InputError(f"the client has other versions than this worker: {'; '.join(said)}")


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


def unseen_by_workers(client: Client, paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """Noun -> the workers that have no file or folder at the path, where some have none."""
    texts = {noun: str(path) for noun, path in paths.items()}
    found = client.run(missing_paths, texts)
    unseen: dict[str, list[str]] = {}
    for address, nouns in found.items():
        for noun in nouns:
            unseen.setdefault(noun, []).append(address)
    return unseen


def missing_paths(paths: Mapping[str, str]) -> list[str]:
    """The nouns of the paths at which this process sees nothing."""
    return [noun for noun, path in paths.items() if not os.path.exists(path)]


def refuse_unseen(client: Client, paths: Mapping[str, Path]) -> None:
    """Raise an `InputError` where a worker does not see one of the paths; `paths` are by noun."""
    for noun, addresses in unseen_by_workers(client, paths).items():
        raise InputError(
            f"the {noun}, {paths[noun]}, is not seen by {_some(addresses)}: keep it on a file system "
            "that client and workers have under the same path"
        )


def round_trip_s(client: Client) -> float:
    """The median seconds in which a worker answers a task that does nothing."""
    taken = []
    for number in range(N_TRIPS):
        start = time.perf_counter()
        client.submit(int, number, pure=False).result()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[N_TRIPS // 2]
