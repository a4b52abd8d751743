"""The attribution cube in Zarr: layout, writing by workers, reading while it grows."""

from dshap.cube.files import ReceiptFolder, StateFolder, write_new
from dshap.cube.layout import CONTAINER, TEXT, CubeLayout, create_cube, create_store, read_job, read_run
from dshap.cube.lookup import find_row, kept_row, row_key
from dshap.cube.reader import CubeStatus, cube_paths, cube_status, feature_ranking, open_cube, read_notes, verify_cube
from dshap.cube.workspace import Workspace, is_running
from dshap.cube.writer import CubeWriter

__all__ = [
    "CONTAINER",
    "TEXT",
    "ReceiptFolder",
    "CubeLayout",
    "CubeStatus",
    "CubeWriter",
    "StateFolder",
    "Workspace",
    "create_cube",
    "create_store",
    "cube_paths",
    "cube_status",
    "feature_ranking",
    "find_row",
    "is_running",
    "kept_row",
    "open_cube",
    "read_job",
    "read_notes",
    "read_run",
    "row_key",
    "verify_cube",
    "write_new",
]
