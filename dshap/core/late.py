"""Packages that are slow to import: each is imported when something in it is first used.

`from dshap.core.late import xr` replaces `import xarray as xr`, so that a command which draws no
table and opens no array does not wait for those that do.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """A package that is imported once an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


dask = _Late("dask")
distributed = _Late("distributed")
pa = _Late("pyarrow")
pa_csv = _Late("pyarrow.csv")
pc = _Late("pyarrow.compute")
pd = _Late("pandas")
pq = _Late("pyarrow.parquet")
xr = _Late("xarray")
zarr = _Late("zarr")
