"""The attribution cube in Zarr: its layout, writing by workers, and reading while it grows."""

from dshap.cube.arrays import (
    create_cube,
    create_store,
    holds_runs_alone,
    lost_its_metadata,
    read_job,
    read_run,
    renew_cube,
)
from dshap.cube.blocks import FinishedBlock, finished_blocks
from dshap.cube.carrying import CarriedRows
from dshap.cube.current import cube_at, current_of, remove_run, runs_of, set_current
from dshap.cube.disk import remove_store, true_path
from dshap.cube.files import ReceiptFolder, StateFolder
from dshap.cube.folder import clear_orphans, is_free
from dshap.cube.histograms import histogram_bytes
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
    has_copy,
    holds_run,
    is_finished,
    mark_finished,
    mark_prepared,
    may_prepare,
    read_plan,
    read_prepared,
    refuse_altered,
    states_of,
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
    "TEXT",
    "ReceiptFolder",
    "CarriedRows",
    "CubeLayout",
    "CubeStatus",
    "CubeWriter",
    "Damage",
    "FinishedBlock",
    "StateFolder",
    "Workspace",
    "check_place",
    "clear_orphans",
    "create_cube",
    "create_store",
    "cube_at",
    "cube_paths",
    "cube_status",
    "current_of",
    "drop_lost_blocks",
    "empty_cube",
    "feature_ranking",
    "find_row",
    "finished_blocks",
    "has_copy",
    "histogram_bytes",
    "holds_run",
    "is_finished",
    "holds_runs_alone",
    "is_free",
    "is_left",
    "is_running",
    "kept_row",
    "largest_residual",
    "lost_its_metadata",
    "mark_finished",
    "mark_prepared",
    "may_prepare",
    "named_cubes",
    "open_cube",
    "read_job",
    "read_notes",
    "read_plan",
    "read_prepared",
    "read_run",
    "refuse_altered",
    "remove_run",
    "remove_store",
    "renew_cube",
    "repair",
    "repair_store",
    "row_key",
    "runs_of",
    "set_current",
    "states_of",
    "store_parts",
    "true_path",
    "verify_cube",
    "verify_store",
]
