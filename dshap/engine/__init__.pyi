from dshap.core.printing import format_bytes
from dshap.engine.certificates import Certificates, make_certificates
from dshap.engine.clients import checked_client, connect, current_client, local_client, shut_down
from dshap.engine.cluster import DaskExecutor
from dshap.engine.events import Events, Progress
from dshap.engine.explain import Failure, naming
from dshap.engine.graph import Executor, LoopExecutor
from dshap.engine.learn import learn_from
from dshap.engine.notebook import NotebookProgress, is_notebook
from dshap.engine.plan import Plan, Stage, check_stages, stage_lines
from dshap.engine.planner import make_plan
from dshap.engine.progress import (
    JsonProgress,
    LineProgress,
    SilentProgress,
    ToldProgress,
)

__all__ = [
    "Certificates",
    "DaskExecutor",
    "Events",
    "Executor",
    "Failure",
    "JsonProgress",
    "LineProgress",
    "LoopExecutor",
    "NotebookProgress",
    "Plan",
    "Progress",
    "SilentProgress",
    "ToldProgress",
    "Stage",
    "check_stages",
    "connect",
    "checked_client",
    "current_client",
    "format_bytes",
    "is_notebook",
    "learn_from",
    "local_client",
    "make_certificates",
    "make_plan",
    "naming",
    "shut_down",
    "stage_lines",
]
