"""The plan of shards: the blocks, rows and time of each, the longest, and those without a block."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.rows import spans
from dshap.engine.plan import OPERATIONS_PER_SECOND, Stage
from dshap.steps.shard_work import SHOWN, ShardsPlan
from tests.jobs.job_files import changed, small_table, write_job


@dataclass(frozen=True)
class Planned:
    """Of a plan what shards depend on."""

    n_rows: int
    tile: int
    operations: float = 3.0 * OPERATIONS_PER_SECOND
    task_bytes: int = 1 << 20
    n_coalitions: int = 32

    @property
    def instance_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.n_rows, self.tile)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("moments", 1, 1 << 40, math.inf, "", "", ""),
            Stage("evaluation", 1, self.task_bytes, self.operations, "", "", ""),
        )


def shards_of(count: int, **plans: Any) -> ShardsPlan:
    return ShardsPlan.of(count, list(plans.items()))


def test_every_block_has_one_shard():
    """Seven blocks and three of another explanation: the rows and seconds add up."""
    plan = shards_of(3, a=Planned(650, 100), b=Planned(300, 100, task_bytes=7 << 20))
    for name, n_blocks in (("a", 7), ("b", 3)):
        tiles = [tile for work in plan.works for tile in dict(work.blocks)[name]]
        assert tiles == [*range(n_blocks)]
    assert [work.n_rows for work in plan.works] == [300, 300, 350]
    assert sum(work.operations for work in plan.works) == pytest.approx(6 * OPERATIONS_PER_SECOND)
    assert plan.longest is plan.works[2]
    assert plan.works[0].task_bytes == 7 << 20
    assert plan.warning == ""
    assert plan.to_dict()["warning"] is None
    last = plan.to_dict()["shards"][2]
    assert last["blocks"] == {"a": [4, 7], "b": [2, 3]}
    assert last["rows"] == 350
    assert last["seconds_of_one_core"] == pytest.approx(3 * 250 / 650 + 1)


@pytest.mark.parametrize(("count", "idle"), [(1, 0), (4, 0), (5, 1), (40, 36)])
def test_more_shards_than_blocks(count, idle):
    plan = shards_of(count, a=Planned(400, 100))
    assert plan.n_idle == idle == plan.to_dict()["without_block"]
    assert bool(plan.warning) == bool(idle)
    if idle:
        assert plan.warning.startswith(f"{idle} of {count} shards have no block: give at most 4 ")
        assert plan.lines()[-1] == f"  warning: {plan.warning}"
    assert any("more" in line for line in plan.lines()) == (count > SHOWN)


def test_a_black_box_and_no_rows():
    plan = shards_of(2, a=Planned(200, 100, operations=math.inf))
    assert plan.lines()[3].split() == ["1/2", "1", "100", "3,200", "not", "known", "1.0", "MiB"]
    assert plan.longest.shard.number == 1
    assert plan.lines()[-2:] == [
        "  longest: shard 1/2: 100 rows in 1 block",
        "  core time: not known, because your model is called for each row of each coalition: "
        "add --probe 100",
    ]
    assert plan.to_dict()["shards"][0]["values"] == 3_200
    nothing = ShardsPlan.of(2, [])
    assert nothing.n_idle == 2
    assert nothing.lines()[-1].startswith("  warning: 2 of 2 shards have")


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_table(300).to_parquet("table.parquet")
    job = str(write_job(tmp_path, changed()))
    words = CliRunner().invoke(cli, ["plan", job, "--shards", "4"])
    assert words.exit_code == 0
    assert "shards: 4\n" in words.stdout
    assert "longest: shard 2/4: 200 rows in 2 blocks" in words.stdout
    assert "warning: 1 of 4 shards have no block: give at most 3 shards" in words.stdout
    told = json.loads(CliRunner().invoke(cli, ["plan", job, "--shards", "4", "--json"]).stdout)
    assert told["shards"]["count"] == 4
    assert told["shards"]["longest"] == 2
    assert told["shards"]["shards"][1]["blocks"]["observational"] == [0, 1]
    without = json.loads(CliRunner().invoke(cli, ["plan", job, "--json"]).stdout)
    assert without["shards"] is None
    for given in ("0", "-1", "many", "1000000"):
        refused = CliRunner().invoke(cli, ["plan", job, "--shards", given])
        assert refused.exit_code == 2
        assert len(refused.stderr.splitlines()) == 1
    assert not Path("out.zarr").exists()
