"""The share of a run that the options of a command name."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.steps.scope import FinishScope, LearnScope, Phase, ShardScope, WholeRun, scope_of


@pytest.mark.parametrize(
    ("only", "shard", "kind", "said"),
    [
        (None, None, WholeRun, "a run"),
        ("learn", None, LearnScope, "dshap run --only learn"),
        ("finish", None, FinishScope, "dshap run --only finish"),
        (None, "2/3", ShardScope, "shard 2 of 3"),
    ],
)
def test_options_name_a_scope(only, shard, kind, said):
    scope = scope_of(only, shard, "my job.toml", {})
    assert type(scope) is kind
    assert str(scope) == said
    assert scope.arguments == {"only": only, "shard": shard}
    assert scope.learn_command == "dshap run 'my job.toml' --only learn"


def test_a_shard_neither_begins_nor_finishes():
    for part in ("begin", "finish"):
        with pytest.raises(InputError, match="leave one of them out"):
            scope_of(part, "1/2", "job.toml", {})
    share = scope_of("learn", "2/3", "job.toml", {})
    assert share.shard is None
    assert share.phases == {Phase.EXPLAIN}
    assert share.arguments == {"only": "learn", "shard": "2/3"}
    assert share.next_command == "dshap run job.toml --only learn"
    scope = scope_of(None, "auto/4", "job.toml", {"SLURM_ARRAY_TASK_ID": "3"})
    assert scope.shard is not None
    assert scope.shard.number == 3
    assert scope.phases == {Phase.EXPLAIN}


def test_failed_rows_are_tried_again_by_a_command_that_explains():
    again = {name: scope_of(name, None, "job.toml", {}).again for name in (None, "learn", "finish")}
    whole = "`dshap run job.toml`"
    assert again == {None: "the same command again", "learn": whole, "finish": whole}
