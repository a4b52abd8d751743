"""The attribution cube in Zarr: its layout, writing by workers, and reading while it grows."""

from dshap.cube.arrays import (
    create_cube,
    create_store,
    lost_its_metadata,
    read_job,
    read_run,
    renew_cube,
)
from dshap.cube.blocks import FinishedBlock, finished_blocks
from dshap.cube.disk import remove_store, true_path
from dshap.cube.files import ReceiptFolder, StateFolder
from dshap.cube.layout import TEXT, CubeLayout
from dshap.cube.reader import (
    CubeStatus,
    cube_paths,
    cube_status,
    empty_cube,
    feature_ranking,
    find_row,
    kept_row,
    largest_residual,
    named_cubes,
    open_cube,
    read_notes,
    row_key,
)
from dshap.cube.reference_copy import (
    CONTAINER,
    PREPARED,
    has_copy,
    holds_run,
    is_finished,
    mark_finished,
    refuse_altered,
)
from dshap.cube.verify import (
    Damage,
    is_left,
    repair,
    repair_store,
    store_parts,
    verify_cube,
    verify_store,
)
from dshap.cube.workspace import Workspace, check_place, is_running
from dshap.cube.writer import CubeWriter, drop_lost_blocks

__all__ = [
    "CONTAINER",
    "PREPARED",
    "TEXT",
    "ReceiptFolder",
    "CubeLayout",
    "CubeStatus",
    "CubeWriter",
    "Damage",
    "FinishedBlock",
    "StateFolder",
    "Workspace",
    "check_place",
    "create_cube",
    "create_store",
    "cube_paths",
    "cube_status",
    "drop_lost_blocks",
    "empty_cube",
    "feature_ranking",
    "find_row",
    "finished_blocks",
    "has_copy",
    "holds_run",
    "is_finished",
    "is_left",
    "is_running",
    "kept_row",
    "largest_residual",
    "lost_its_metadata",
    "mark_finished",
    "named_cubes",
    "open_cube",
    "read_job",
    "read_notes",
    "read_run",
    "refuse_altered",
    "remove_store",
    "renew_cube",
    "repair",
    "repair_store",
    "row_key",
    "store_parts",
    "true_path",
    "verify_cube",
    "verify_store",
]
