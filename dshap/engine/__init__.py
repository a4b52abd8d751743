"""The engine: a plan, and the plain-loop and Dask executors that carry it out."""

from dshap.engine.clients import checked_client, connect, current_client, local_client, shut_down
from dshap.engine.cluster import DaskExecutor, collect_partitions, is_dask_collection
from dshap.engine.fit import fit_model
from dshap.engine.graph import Executor, LoopExecutor, process_threads
from dshap.engine.plan import Plan
from dshap.engine.planner import make_plan
from dshap.engine.progress import LineProgress, Progress, SilentProgress
from dshap.engine.quality import coalition_errors
from dshap.engine.run import Failure, learn, map_spans, resolve_value, run_explanation, settled_design
from dshap.engine.stages import Stage, check_stages, fit_stages, format_bytes, stage_lines
from dshap.engine.tasks import Context, on_block

__all__ = [
    "Context",
    "DaskExecutor",
    "Executor",
    "Failure",
    "LineProgress",
    "LoopExecutor",
    "Plan",
    "Progress",
    "SilentProgress",
    "Stage",
    "check_stages",
    "coalition_errors",
    "collect_partitions",
    "connect",
    "checked_client",
    "current_client",
    "fit_model",
    "fit_stages",
    "format_bytes",
    "is_dask_collection",
    "learn",
    "local_client",
    "make_plan",
    "map_spans",
    "on_block",
    "process_threads",
    "resolve_value",
    "run_explanation",
    "settled_design",
    "shut_down",
    "stage_lines",
]
