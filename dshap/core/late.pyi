import dask as dask
import distributed as distributed
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import xarray as xr
import zarr as zarr

__all__ = ["dask", "distributed", "pa", "pa_csv", "pc", "pd", "pq", "xr", "zarr"]
