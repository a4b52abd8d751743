"""Three nights of a made-up shop, each by the command that a scheduler would run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "nightly"
REASONS = """
select customer_id, rank, feature, value, round(attribution, 2) as reason,
       round(1 / (1 + exp(-prediction)), 2) as leaves
from customer_reasons
where customer_id in (select distinct customer_id from customer_reasons
                      where status = 'ok' order by customer_id limit 5)
order by customer_id, rank
"""


def run(*arguments: str) -> None:
    """Run a command, and say which, and how long it took."""
    print(f"\n$ {' '.join(arguments)}", flush=True)
    started = time.monotonic()
    subprocess.run([sys.executable, *python_of(arguments)], check=True, cwd=HERE)
    print(f"  {time.monotonic() - started:.1f} s", flush=True)


def python_of(arguments: tuple[str, ...]) -> list[str]:
    """The arguments of the interpreter for a command: dshap, or a script."""
    if arguments[0] == "dshap":
        return ["-m", *arguments]
    return list(arguments[1:])


def main() -> None:
    run("python", "shop.py", "make", str(BUILD))
    for night in ("the first night", "the same data", "5 % changed, 1 % gone"):
        print(f"\n# {night}")
        if night.startswith("5 %"):
            run("python", "shop.py", "trade", str(BUILD))
        run("dshap", "run", "reasons.toml")
    run("dshap", "runs", str(BUILD / "churn"))
    print(f"\n-- the three strongest reasons of five customers{REASONS}")
    with duckdb.connect(str(BUILD / "shop.duckdb"), read_only=True) as shop:
        print(shop.sql(REASONS))


if __name__ == "__main__":
    main()
