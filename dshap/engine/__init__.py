"""The engine: a plan, and the plain-loop and Dask executors that carry it out."""

from dshap.engine.clients import checked_client, connect, current_client, local_client, shut_down
from dshap.engine.cluster import DaskExecutor, collect_partitions, is_dask_collection
from dshap.engine.explain import Failure, on_block
from dshap.engine.graph import Executor, LoopExecutor, process_threads
from dshap.engine.learn import map_spans
from dshap.engine.plan import Plan
from dshap.engine.planner import make_plan
from dshap.engine.progress import LineProgress, Progress, SilentProgress
from dshap.engine.stages import Stage, check_stages, fit_stages, format_bytes, stage_lines

__all__ = [
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
    "collect_partitions",
    "connect",
    "checked_client",
    "current_client",
    "fit_stages",
    "format_bytes",
    "is_dask_collection",
    "local_client",
    "make_plan",
    "map_spans",
    "on_block",
    "process_threads",
    "shut_down",
    "stage_lines",
]
