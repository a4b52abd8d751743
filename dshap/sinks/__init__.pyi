from dshap.sinks.checks import check_sink
from dshap.sinks.load import load_sink
from dshap.sinks.records import (
    CubeFacts,
    LoadAbout,
    RowHistory,
    RunDay,
    SingleRun,
    Sink,
    SinkResult,
    SourceQuery,
    Target,
)

__all__ = [
    "CubeFacts",
    "LoadAbout",
    "RowHistory",
    "RunDay",
    "SingleRun",
    "Sink",
    "SinkResult",
    "SourceQuery",
    "Target",
    "check_sink",
    "load_sink",
]
