"""Faults at random moments of jobs, each of which is then finished by the same command.

    python -m tests.chaos [--faults 20] [--table FILE.csv] [--seed 0] [--kind NAME ...] [--fault NAME]
                          [--game N]

A game is the nights of one job in a folder of its own.  In each night a few faults in a row befall
its command: it is killed, stopped, interrupted, loses its scheduler or its place on the disk, or
another machine takes its place; or, between two commands, a file or a table is damaged.  Then the
same command is given again, at most three times, until it exits with 0.  What is checked then
(`tests/chaos/promises.py`): values and lines of the sink are those of undisturbed nights; pieces
that were finished stay; `dshap verify` finds nothing; nothing is left behind; the lists of runs are
true; and no command hangs.  After damage a run may refuse, if it says what to do, and that leads to
the same end.  A bucket is that of a service in this process, which fails now and then.

`--table` appends a line for each fault, and a later call goes on after the last game, so that
`--faults 300` is 300 of all calls together.  `--game` plays one game of a seed again.  Exit status
1 where a promise was not kept; the folder of that game is left.
"""

from __future__ import annotations

if __name__ == "__main__":  # processes of games import this file, and nothing below
    from tests.chaos.playing import main

    main(__doc__.splitlines()[0])
