"""A job on SLURM whose worker is cancelled while it runs; `cluster/slurm_here.sh` runs this file.

It also notes what dask-jobqueue has put into the working directory while the workers ran, and where
the keys of the certificates were.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 240.0


def jobs_of_queue() -> list[str]:
    """The numbers of the jobs that run."""
    command = ["squeue", "--noheader", "--states=running", "--format=%i"]
    return sorted(subprocess.check_output(command, text=True).split())


def waited(condition) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def main(store: Path, said: Path, command: list[str]) -> None:
    """Run a command of dshap; cancel one worker once three blocks are done; see it replaced."""
    run = subprocess.Popen(command)
    try:
        waited(lambda: len(list(store.glob("*/state/receipts/*.json"))) >= 3)
        before = jobs_of_queue()
        subprocess.check_call(["scancel", before[0]])
        waited(lambda: before[0] not in jobs_of_queue() and len(jobs_of_queue()) == len(before))
        after = jobs_of_queue()
        put_here = [path.name for path in Path().glob(".dask-jobqueue.*")]
        keys = [str(path.relative_to(store.parent)) for path in store.parent.rglob("key.pem")]
        status = run.wait(PATIENCE_S)
    finally:
        run.kill()
    told = {"before": before, "after": after, "status": status, "put_here": put_here, "keys": keys}
    said.write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
