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
from dshap.cube.copying import StoreCopy, copy_store
from dshap.cube.current import cube_at, current_of, remove_run, runs_of, set_current
from dshap.cube.histograms import histogram_bytes
from dshap.cube.importance import (
    Importance,
    feature_ranking,
    largest_residual,
    stored_importance,
)
from dshap.cube.layout import TEXT, CubeLayout
from dshap.cube.named_cubes import cube_paths, named_cubes
from dshap.cube.notes import read_notes
from dshap.cube.pace import BlockTimes, Pace
from dshap.cube.packing import pack_cube, unpack_cube
from dshap.cube.progress import CubeStatus, cube_status
from dshap.cube.reader import (
    empty_cube,
    find_row,
    kept_row,
    open_cube,
    row_key,
)
from dshap.cube.receipts import is_packed
from dshap.cube.reference_copy import (
    awaits_shards,
    has_copy,
    holds_run,
    is_finished,
    is_learned,
    mark_finished,
    mark_learned,
    mark_prepared,
    may_prepare,
    read_plan,
    read_prepared,
    refuse_altered,
    states_of,
    unmark_learned,
)
from dshap.cube.verify import (
    Damage,
    finish_again,
    is_left,
    repair,
    repair_store,
    store_parts,
    verify_cube,
    verify_store,
)
from dshap.cube.whole_rows import statuses_of_whole_blocks
from dshap.cube.writer import CubeWriter, drop_lost_blocks, has_every_receipt

__all__ = [
    "finish_again",
    "TEXT",
    "BlockTimes",
    "CarriedRows",
    "CubeLayout",
    "CubeStatus",
    "CubeWriter",
    "Damage",
    "FinishedBlock",
    "Importance",
    "Pace",
    "StoreCopy",
    "awaits_shards",
    "copy_store",
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
    "has_every_receipt",
    "histogram_bytes",
    "holds_run",
    "is_finished",
    "is_learned",
    "is_packed",
    "holds_runs_alone",
    "is_left",
    "kept_row",
    "largest_residual",
    "lost_its_metadata",
    "mark_finished",
    "mark_learned",
    "mark_prepared",
    "may_prepare",
    "named_cubes",
    "open_cube",
    "pack_cube",
    "read_job",
    "read_notes",
    "read_plan",
    "read_prepared",
    "read_run",
    "refuse_altered",
    "remove_run",
    "renew_cube",
    "repair",
    "repair_store",
    "row_key",
    "runs_of",
    "set_current",
    "states_of",
    "statuses_of_whole_blocks",
    "store_parts",
    "stored_importance",
    "unmark_learned",
    "unpack_cube",
    "verify_cube",
    "verify_store",
]
