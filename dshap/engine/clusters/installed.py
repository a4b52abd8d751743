"""Packages that only some kinds of clusters need, imported where they are used."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from dshap.core.errors import InputError

EXTRAS = {"dask_jobqueue": "slurm", "asyncssh": "ssh", "dask_gateway": "gateway"}
"""Package -> the extra of dshap that installs it."""
PACKAGE_OF = {
    "slurm": "dask_jobqueue",
    "pbs": "dask_jobqueue",
    "sge": "dask_jobqueue",
    "lsf": "dask_jobqueue",
    "ssh": "asyncssh",
    "gateway": "dask_gateway",
}
"""Kind of cluster -> the package that it needs."""


def is_installed(kind: str) -> bool:
    """Whether the package of a kind of cluster is there; nothing is imported."""
    package = PACKAGE_OF.get(kind)
    return package is None or importlib.util.find_spec(package) is not None


def require_kind(kind: str) -> None:
    """Raise an `InputError` if a kind of cluster needs a package that is not installed."""
    if not is_installed(kind):
        package = PACKAGE_OF[kind]
        raise InputError(
            f'[cluster] kind = "{kind}" needs the package {package.replace("_", "-")}, which is '
            f"not installed: pip install 'dshap[{EXTRAS[package]}]'"
        )


def package_of(kind: str) -> ModuleType:
    """Import the package of a kind of cluster."""
    require_kind(kind)
    return importlib.import_module(PACKAGE_OF[kind])
