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
# Attributions of many rows are kept in a cube: an xarray dataset in Zarr. It is opened without being read, and what is
# asked of it reads no more than it needs. The cube here has 100,000 rows, so that this notebook takes seconds; with
# `ROWS = 1_000_000` the cells below stay as they are.

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
# **A table** of powerlifting meets, made up where it is read: nothing is downloaded, and no row is kept in memory.

# %%
lifts = SyntheticTable("powerlifting", ROWS)
print(lifts.describe())

# %% [markdown]
# **The cube.** A kernel ridge predicts the deadlift; interventional values of all rows, with all of them as background.
# The key is stored beside the attributions, and `keep_rows` keeps the explained columns.

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
# **Opening** reads names, shapes and attributes, no attribution.

# %%
started = time.perf_counter()
cube = dshap.open_cube(STORE)
print(f"opened in {1000 * (time.perf_counter() - started):.0f} ms")
print(cube)

# %% [markdown]
# **Which columns matter?** Every finished block left its sums, so that the ranking of all rows reads kilobytes.

# %%
started = time.perf_counter()
print("\n".join(ranking_lines(rankings({"interventional": STORE}), "kg")))
print(f"in {1000 * (time.perf_counter() - started):.0f} ms")

# %% [markdown]
# **One row by its key.** `index=True` makes the key an index; a single row is then one chunk of the store.

# %%
by_key = dshap.open_cube(STORE, index=True)
key = int(by_key.lift_id[ROWS // 2])
one = by_key.sel(lift_id=key).isel(output=0)
print(f"lift {key}: {float(one.prediction):.1f} kg predicted")
one.attribution.to_series().sort_values(key=abs, ascending=False).round(1)

# %% [markdown]
# **Sums over all rows** are Dask graphs: nothing is read until `compute`, and then a chunk at a time, so that memory
# holds a few chunks however long the cube is. Efficiency, checked on every row:

# %%
residual = abs(cube.attribution.sum("feature") + cube.base_value - cube.prediction).max()
print(f"lazy: {type(residual.data).__module__}, {cube.attribution.nbytes / 2**20:.0f} MiB not read")
largest = float(residual.compute())
assert largest < 1e-6
print(f"largest |Σ attribution + base value − prediction|: {largest:.1e} kg")

# %% [markdown]
# **Groups.** The explained columns are a group of the store, a variable each, row for row beside the attributions.
# Mean attributions of what lifters wear, of men and women:

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
# **Pictures of all rows** are made of counts, taken block by block: memory holds one block, whatever the number of
# rows, and what was counted is kept beside the cube, so that the second picture takes less than the first.

# %%
started = time.perf_counter()
axes = cube.dshap.beeswarm()
print(f"{ROWS:,} rows in {time.perf_counter() - started:.1f} s")

# %% [markdown]
# One column against its attributions, and mean attributions by segment, here five bins of body weight with equally
# many lifters:

# %%
cube.dshap.dependence("squat_kg")

# %%
cube.dshap.heatmap("bodyweight_kg:5")

# %% [markdown]
# **Out of the cube**: a data frame of some rows, or a file of all of them, written block by block (`dshap export
# STORE --to lifts.parquet` on the command line).

# %%
cube.isel(instance=slice(3)).dshap.to_frame().round(1)

# %% [markdown]
# From here: `docs/stores.md` says what is in a cube and how a run is resumed, verified and repaired; plain
# `xarray.open_zarr(store, consolidated=False)` reads it too.
