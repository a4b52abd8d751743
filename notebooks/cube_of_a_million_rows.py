# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Reading a cube of a million rows, lazily
#
# dshap stores the attributions of many rows in a cube: an xarray dataset in Zarr. Opening a cube reads no
# attributions, and each question reads only the parts of the cube that it needs. The cube here has 100,000 rows, so
# that this notebook takes seconds; set `ROWS = 1_000_000` and the cells below work in the same way.

# %%
import tempfile
import time
from pathlib import Path

import pandas as pd
import xarray as xr

import dshap
from dshap.report import ranking_lines, rankings
from dshap.sources import SyntheticTable

ROWS = 100_000
STORE = Path(tempfile.mkdtemp()) / "lifts.zarr"

# %% [markdown]
# **A table** of powerlifting competitions. `SyntheticTable` generates its rows when they are read, so nothing is
# downloaded and no row stays in memory.

# %%
lifts = SyntheticTable("powerlifting", ROWS)
print(lifts.describe())

# %% [markdown]
# **The cube.** A kernel ridge regression predicts the deadlift. Interventional values explain all rows, with all rows
# as background. The key is stored with the attributions; `keep_rows` stores the explained columns too.

# %%
ridge = dshap.models.KernelRidge(
    dshap.kernels.RBF(), dshap.kernels.Nystrom(100), penalty=1e-5, holdout=0.1
)
model = dshap.fit(ridge, lifts, None)
print(f"held-out R² {model.r2_[0]:.3f}")
value = dshap.values.KernelInterventional(model, lifts)
started = time.perf_counter()
dshap.explain(value, lifts, store=STORE, keep_rows=True, units="kg", progress=False)
print(f"{ROWS:,} rows explained in {time.perf_counter() - started:.1f} s")

# %% [markdown]
# **Opening** reads names, shapes and attributes, but no attributions.

# %%
started = time.perf_counter()
cube = dshap.open_cube(STORE)
print(f"opened in {1000 * (time.perf_counter() - started):.0f} ms")
print(cube)

# %% [markdown]
# **Which columns matter?** The run stored sums for every block of rows, so the ranking over all rows reads only
# kilobytes.

# %%
started = time.perf_counter()
print("\n".join(ranking_lines(rankings({"interventional": STORE}), "kg")))
print(f"in {1000 * (time.perf_counter() - started):.0f} ms")

# %% [markdown]
# **One row by its key.** With `index=True` the key becomes an index. Selecting a single row then reads one chunk of
# the store.

# %%
by_key = dshap.open_cube(STORE, index=True)
key = int(by_key.lift_id[ROWS // 2])
one = by_key.sel(lift_id=key).isel(output=0)
print(f"lift {key}: {float(one.prediction):.1f} kg predicted")
one.attribution.to_series().sort_values(key=abs, ascending=False).round(1)

# %% [markdown]
# **Sums over all rows** are Dask graphs. Nothing is read before `compute`, which then reads one chunk after the other,
# so that only a few chunks are in memory, however many rows the cube has. Check here for every row that the
# attributions and the base value add up to the prediction:

# %%
residual = abs(cube.attribution.sum("feature") + cube.base_value - cube.prediction).max()
print(f"lazy: {type(residual.data).__module__}, {cube.attribution.nbytes / 2**20:.0f} MiB not read")
largest = float(residual.compute())
assert largest < 1e-6
print(f"largest |Σ attribution + base value − prediction|: {largest:.1e} kg")

# %% [markdown]
# **Groups.** The explained columns are a group of the store, named `rows`, with one variable for each column, in the
# same order of rows as the attributions. Compute the mean attribution of each type of equipment for women and men:

# %%
rows = xr.open_zarr(STORE, group="rows", consolidated=False)
of_equipment = cube.attribution.sel(feature="equipment").isel(output=0)
groups = pd.MultiIndex.from_arrays(
    [rows.equipment.to_numpy().astype(int), rows.sex_male.to_numpy().astype(int)]
)
means = pd.Series(of_equipment.to_numpy(), index=groups).groupby(level=[0, 1]).mean().unstack()
means.index = ["raw", "wraps", "single-ply", "multi-ply", "unlimited"]
means.columns = ["women", "men"]
means.round(2)

# %% [markdown]
# **Pictures of all rows** need only counts, which dshap computes block by block with one block in memory. The counts
# are stored with the cube, so a second picture is faster than the first.

# %%
started = time.perf_counter()
axes = cube.dshap.beeswarm()
print(f"{ROWS:,} rows in {time.perf_counter() - started:.1f} s")

# %% [markdown]
# Two more pictures: the attributions of one column against its values, and mean attributions by segment, here five
# intervals of body weight with equal numbers of lifters:

# %%
cube.dshap.dependence("squat_kg")

# %%
cube.dshap.heatmap("bodyweight_kg:5")

# %% [markdown]
# **Export.** `to_frame` returns some rows as a data frame. On the command line, `dshap export STORE --to
# lifts.parquet` writes all rows to a file, block by block.

# %%
cube.isel(instance=slice(3)).dshap.to_frame().round(1)

# %% [markdown]
# Next: `docs/stores.md` describes the contents of a cube, and how to resume, verify and repair a run. Plain
# `xarray.open_zarr(store, consolidated=False)` reads a cube too.
