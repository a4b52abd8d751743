"""The command line: results on standard output, progress and errors on standard error.

Exit statuses: 0 done or nothing to do, 1 a bug, 2 bad job or input, 3 does not fit, 4 the store
contains a different run, 5 finished with failed blocks, 6 locked by a running job, 7 the store is
damaged, 8 a check failed, 9 the source is stale, 10 the cubes are done and a sink is not, 11 the
store has nothing to be checked against, 130 interrupted (the same command resumes).  If several
apply, the exit status is the first of 7, 10, 5 and 8.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from dshap import __version__
from dshap.core.errors import DshapError, InputError, WalltimeError, unknown_name
from dshap.core.exit_statuses import INTERRUPTED
from dshap.core.printing import dated, json_line, one_line, printable
from dshap.core.user_code import raised_by_import

if TYPE_CHECKING:
    from dshap.core.places import Place
    from dshap.engine import Progress
    from dshap.jobs import Job, JobSummary, RecordedRun
    from dshap.sinks.line_forms import PlainShape

BUG = 1
BAD_INPUT = 2
LAST_STATUS = 11
"""The largest exit status with a meaning, except 130 (interrupted)."""
PARTS = ("begin", "learn", "finish")
"""The parts of a run that --only names."""
MOST_SHARDS = 100_000
"""The most shards that a plan shows; queues accept fewer tasks of an array job."""
THREADS = "OPENBLAS_NUM_THREADS"
"""The environment variable with the number of threads, which numpy's BLAS reads when it is loaded."""
LEVELS_OF_LOGS = {"CRITICAL": "error", "NOTSET": "info"}
"""Level of Python's logs -> level of a line of JSON; all other levels have the same word."""
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"


def main() -> None:
    """Run the `dshap` command."""
    # why no plugins of pydantic: job files use none, and the search reads every installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    cli(prog_name="dshap")


class _Commands(click.Group):
    """A group of commands whose usage errors are one line, like all other errors."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        log = _log_asked_for(args)
        with _usage_in_one_line(log):
            made = super().make_context(info_name, args, parent, **extra)
        made.meta[LOG] = log
        return made

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_in_one_line(ctx.meta[LOG]):
            return super().invoke(ctx)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and name not in self.commands:
            raise click.UsageError(unknown_name("command", name, self.commands), ctx)
        return super().resolve_command(ctx, args)


LOG = "dshap.log"
"""The key of the value of --log in a context of click, before click has read the options."""


def _log_asked_for(args: Sequence[str]) -> str:
    """Find the value of --log in the arguments of a command, to report errors in these arguments."""
    pairs = zip(args, [*args[1:], ""], strict=True)
    is_json = any(one == "--log=json" or (one, other) == ("--log", "json") for one, other in pairs)
    return "json" if is_json else "text"


@contextlib.contextmanager
def _usage_in_one_line(log: str) -> Iterator[None]:
    """Print usage errors of click, which have three lines, as one line."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        LOGS[log].tell(_usage(error), exit_status=BAD_INPUT)
        raise click.exceptions.Exit(BAD_INPUT) from error


def _usage(error: click.UsageError) -> str:
    """One line about a usage error, with the usage of the command."""
    context = error.ctx
    match error:
        case click.NoSuchOption(option_name=str(name)) if context is not None:
            return _unknown_option(name, context)
    said = error.format_message().strip()
    if context is None or context.parent is None:
        return said
    _, _, usage = context.get_usage().partition(": ")
    on_one_line = " ".join(usage.split())
    clause = said[:1].lower() + said[1:].rstrip(".")
    return f"{context.info_name}: {clause}; write `{on_one_line}`"


def _unknown_option(name: str, context: click.Context) -> str:
    """One line about an option that a command does not have."""
    longest = [max(each.opts, key=len) for each in context.command.get_params(context)]
    options = [each for each in longest if each.startswith("-")]
    said = unknown_name("option", name, options)
    if context.parent is None:
        return f"{said} Options of a command follow its name, as in `dshap run JOB.toml -q`."
    return f"{context.info_name}: {said}"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="dshap %(version)s")
def cli() -> None:
    """Shapley values for models on tables that outgrow one machine."""


@cli.group("cluster", cls=_Commands)
def of_clusters() -> None:
    """Certificates, checks and manifests of clusters."""


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
QUIET = click.option(
    "-q", "--quiet", is_flag=True, help="Print only errors, without progress and results."
)
VERBOSE = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=(
        "Print logs, and tracebacks of errors.  Where output is no terminal, `dshap run` then "
        "also prints one explained row with its values."
    ),
)


def command(
    function: Callable[..., None], name: str | None = None, group: click.Group = cli
) -> click.Command:
    """Make a command with --json, -q and -v, whose errors are one line and an exit status.

    By default its name is the name of the function.
    """

    @functools.wraps(function)
    def guarded(*args: Any, quiet: bool, verbose: bool, **options: Any) -> None:
        log = LOGS[options.get("log", "text")]
        signals = _set_up(quiet, verbose, log)
        try:
            function(*args, quiet=quiet, **options)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            _give_up(error, verbose, log, bool(signals))

    for option in (AS_JSON, QUIET, VERBOSE):
        guarded = option(guarded)
    return group.command(name)(guarded)


def on_one_thread(function: Callable[..., None]) -> Callable[..., None]:
    """Run a command that computes nothing without the threads of numpy's BLAS."""
    # otherwise BLAS starts a thread for each core when numpy is imported

    @functools.wraps(function)
    def alone(*args: Any, **options: Any) -> None:
        is_free = THREADS not in os.environ
        os.environ.setdefault(THREADS, "1")
        try:
            function(*args, **options)
        finally:
            if is_free:  # a Python process that calls the command may compute afterwards
                del os.environ[THREADS]

    return alone


def _set_up(quiet: bool, verbose: bool, log: _Log) -> Sequence[int]:
    """Send logs to standard error, and let SIGTERM act like Ctrl-C.

    A command that gets SIGTERM then releases its locks and clusters.  Returns a list to which each
    signal is added when it arrives.
    """
    if verbose:
        level = logging.INFO
    elif quiet:
        level = logging.ERROR
    else:
        level = logging.WARNING
    logs = logging.StreamHandler(sys.stderr)
    logs.setFormatter(log.formatter())
    logging.basicConfig(level=level, handlers=[logs])
    warnings.showwarning = partial(_warn, log)
    if quiet:
        warnings.simplefilter("ignore")
    signals: list[int] = []
    signal.signal(signal.SIGTERM, partial(_interrupt, signals))
    if (
        signal.getsignal(signal.SIGINT) != signal.SIG_IGN
    ):  # a shell ignores Ctrl-C for commands that it runs in the background
        signal.signal(signal.SIGINT, partial(_interrupt, signals))
    return signals


class _PrintableLogs(logging.Formatter):
    """A log formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return _printable_lines(text.splitlines())


class _JsonLogs(logging.Formatter):
    """A log formatter whose lines are JSON."""

    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        level = LEVELS_OF_LOGS.get(record.levelname, record.levelname.lower())
        return json_line("log", level=level, name=record.name, message=message)


class _Log:
    """Lines on standard error for people; they start with the time if it is not a terminal."""

    def tell(self, text: str, level: str = "error", **facts: Any) -> None:
        """Print one line; `facts` are for machines."""
        if level == "warning":
            text = f"warning: {text}"
        line = f"dshap: {one_line(text)}"
        if not sys.stderr.isatty():
            line = dated(line)
        click.echo(line, err=True)

    def trace(self, error: BaseException) -> None:
        """Print the traceback of an error."""
        text = "".join(traceback.format_exception(error))
        click.echo(_printable_lines(text.splitlines()), err=True)

    def formatter(self) -> logging.Formatter:
        """The formatter of log records."""
        if sys.stderr.isatty():
            times = ""
        else:
            times = "%(asctime)s "
        return _PrintableLogs(f"{times}%(name)s: %(message)s", TIME_FORMAT)

    def progress(self) -> Progress:
        """The display of a run."""
        from dshap.engine import LineProgress

        return LineProgress(sys.stderr)

    def open(self, facts: dict[str, Any]) -> None:
        """Print the facts of a run that begins; nothing for people, who have just started it."""

    def close(self, facts: dict[str, Any]) -> None:
        """Print the facts of a finished run; nothing here, as people see them on standard output."""


class _JsonLog(_Log):
    """Lines on standard error for machines: JSON objects."""

    def tell(self, text: str, level: str = "error", **facts: Any) -> None:
        line = json_line(level, message=one_line(text), **facts)
        click.echo(line, err=True)

    def trace(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        click.echo(json_line("traceback", text=text), err=True)

    def formatter(self) -> logging.Formatter:
        return _JsonLogs()

    def progress(self) -> Progress:
        from dshap.engine import JsonProgress

        return JsonProgress(sys.stderr)

    def open(self, facts: dict[str, Any]) -> None:
        click.echo(json_line("started", **facts), err=True)

    def close(self, facts: dict[str, Any]) -> None:
        click.echo(json_line("run", **facts), err=True)


LOGS = {"text": _Log(), "json": _JsonLog()}
"""Value of --log -> the writer of lines on standard error."""


def _warn(
    log: _Log,
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of Python in one line, without file and line number."""
    log.tell(str(message), "warning")


def _interrupt(signals: list[int], number: int, *_: Any) -> NoReturn:
    if number == signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signals.append(number)
    raise KeyboardInterrupt


def _give_up(error: BaseException, verbose: bool, log: _Log, is_interrupted: bool) -> NoReturn:
    if verbose:
        log.trace(error)
    message, status = _ending(error, is_interrupted)
    log.tell(message, exit_status=status)
    raise click.exceptions.Exit(status)


def _after_interrupt() -> str:
    """Words for a message: what happens if an interrupted command is run again."""
    context = click.get_current_context(silent=True)
    if context is None or context.info_name == "run":
        return "finished work is kept, and the same command continues"
    return "the same command starts from the beginning"


def _ending(error: BaseException, is_interrupted: bool) -> tuple[str, int]:
    """The message for an error, and the exit status.

    `is_interrupted` is True after SIGINT or SIGTERM.  The error alone does not show it: libraries
    turn the KeyboardInterrupt into different errors, which do not mention it.
    """
    match error:
        case WalltimeError():  # raised when the queue interrupts the job at its deadline
            return str(error), error.exit_status
        case _ if is_interrupted or _is_interrupt(error):
            return f"interrupted; {_after_interrupt()}", INTERRUPTED
        case DshapError():
            return str(error), error.exit_status
        case OSError():
            return f"{error.filename or 'file'}: {error.strerror or error}", BAD_INPUT
    if said := raised_by_import(error):
        return said, BAD_INPUT
    return f"this is a bug: {type(error).__name__}: {error} (-v shows where)", BUG


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a Ctrl-C, or was raised while one was handled."""
    if error is None:
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    return _is_interrupt(error.__context__)


def _progress(quiet: bool, log: str = "text") -> Progress:
    from dshap.engine import SilentProgress

    if quiet:
        return SilentProgress()
    return LOGS[log].progress()


def _say(quiet: bool, log: str = "text") -> Callable[..., None]:
    """The function that prints a line before a run begins, or for a command that runs no job."""
    from dshap.engine import Events

    return Events(_progress(quiet, log)).say


def _print(lines: list[str], content: Any, as_json: bool) -> None:
    """Print lines, or content as JSON, with null for NaN and infinity."""
    if not as_json:
        click.echo(_printable_lines(lines))
        return
    text = json.dumps(content, default=str)
    finite = json.loads(text, parse_constant=lambda _: None)
    click.echo(json.dumps(finite, indent=2, allow_nan=False))


def _printable_lines(lines: Iterable[str]) -> str:
    """Join lines to one text, and escape control characters, which a terminal would execute."""
    return "\n".join(map(printable, lines))


JOB = click.argument("job_file", metavar="JOB.toml")
SET = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help=(
        "Replace a value of the job file, for example source.path=other.parquet or "
        "explain.NAME.landmarks=64.  May be given several times."
    ),
)
TARGET = click.option(
    "--target",
    metavar="NAME",
    default="",
    help=(
        "Replace values of the job file by those in its table [targets.NAME], for example dev "
        "or prod.  --set is applied afterwards."
    ),
)
STORE = click.argument("store", metavar="STORE")


CLUSTER = click.option(
    "--cluster",
    metavar="PROFILE",
    help=(
        "Run on this cluster in place of [cluster]: the path of a profile, the name of "
        "NAME.toml in ./clusters, ~/.config/dshap/clusters or /etc/dshap/clusters, local "
        "(processes of this machine) or none (this process)."
    ),
)


class _Date(click.ParamType[date]):
    """A date like 2026-11-27."""

    name = "date"

    def convert(self, value: Any, param: Any, ctx: Any) -> date:
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a date: give one like 2026-11-27", param, ctx)


AS_OF = click.option(
    "--as-of",
    metavar="DATE",
    type=_Date(),
    help=(
        "The date of the run, for example 2026-11-27, which replaces {as_of} in the query of "
        "[source].  Default: today in UTC."
    ),
)


@command
@JOB
@TARGET
@SET
@CLUSTER
@AS_OF
@click.option(
    "--shards",
    metavar="N",
    type=click.IntRange(1, MOST_SHARDS),
    help="Also show what each of N shards does, with `dshap run --shard I/N`.",
)
@click.option(
    "--probe",
    "n_probe",
    metavar="N",
    type=click.IntRange(min=1),
    help=(
        "Measure the speed of the model on N rows, for example 100.  Shows the hours that its "
        "predictions take, and the hours that a smaller design or background saves."
    ),
)
def plan(
    job_file: str,
    target: str,
    settings: tuple[str, ...],
    cluster: str | None,
    as_of: date | None,
    shards: int | None,
    n_probe: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show the stages, tasks and bytes of a job.

    No row is explained, and nothing is written.
    """
    from dshap.jobs import load_job, plan_from_source

    job = load_job(job_file, settings, cluster, target)
    planned = plan_from_source(job, as_of, _say(quiet), shards, n_probe or 0)
    memory = planned.memory_lines(job.memory_limit, job.n_threads)
    lines = [*str(planned).splitlines(), *memory]
    _print(lines, planned.to_dict(), as_json)
    planned.check(job.memory_limit, job.n_threads)


def is_terminal() -> bool:
    """Whether standard input and standard error are a terminal, so that a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class _Questions:
    """Asks for missing options on a terminal; without a terminal it uses the proposals.

    Parameters
    ----------
    asks : bool
        Whether there is a terminal.
    """

    def __init__(self, asks: bool) -> None:
        self.asks = asks

    def answer(self, option: str, given: str | None, question: str, proposal: str = "") -> str:
        """The value of an option if it is given; else the answer to a question, or the proposal.

        Raises
        ------
        InputError
            The option is missing, and there is neither a terminal nor a proposal.
        """
        if given is not None:
            return given
        if self.asks:
            return str(click.prompt(question, default=proposal or None, err=True)).strip()
        if proposal:
            return proposal
        raise InputError(f"init: give {option}: {question}")

    def agrees(self, question: str) -> bool:
        """Whether the answer to a question is yes; False without a terminal."""
        return self.asks and click.confirm(question, default=False, err=True)


@command
@click.argument("job_file", metavar="[JOB.toml]", default="job.toml")
@click.option(
    "--source",
    metavar="PLACE",
    help=(
        "The source of the rows: duckdb:///shop.duckdb, sqlite:///shop.sqlite, "
        "postgresql://user@host/database, or the path of a database file or of Parquet or CSV "
        "files."
    ),
)
@click.option("--table", metavar="NAME", help="The table or view of a database.")
@click.option(
    "--query",
    metavar="SQL",
    default="",
    help='A query in place of a table, for example "select * from customers".',
)
@click.option(
    "--model",
    metavar="PLACE",
    help="The model: a file of XGBoost, LightGBM, ONNX or skops, a pickle, or package.module:name.",
)
@click.option(
    "--allow-pickle",
    is_flag=True,
    help="Allow a model that is a pickle file.  Reading a pickle runs code in it.",
)
@click.option(
    "--key",
    "keys",
    metavar="COLUMN",
    multiple=True,
    help="A key column, which identifies rows.  Give the option once for each key column.",
)
@click.option(
    "--features",
    metavar="COLUMN,COLUMN",
    help=(
        "The columns of the model, in the order of its fit, if the model file does not contain "
        "their names."
    ),
)
@click.option(
    "--sink",
    metavar="PLACE",
    help=(
        "The table of the database, or the folder, into which results are loaded; none: no sink."
    ),
)
@click.option(
    "--name", metavar="NAME", help="The name of the job.  Default: the name of the table."
)
@click.option("--yes", is_flag=True, help="Accept every proposal without a question.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(
    job_file: str,
    source: str | None,
    table: str | None,
    query: str,
    model: str | None,
    allow_pickle: bool,
    keys: tuple[str, ...],
    features: str | None,
    sink: str | None,
    name: str | None,
    yes: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a first job file for a table and a model.

    On a terminal, the command asks for missing options and proposes answers.  The job file has a
    comment on every choice.  Check it with `dshap check`.
    """
    from dshap.core.rules import as_path
    from dshap.jobs.first_job import first_job, refuse_file

    path = as_path("JOB.toml", job_file, "file")
    refuse_file(path, replaces=force)
    questions = _Questions(not yes and is_terminal())
    given = {
        "--source": source,
        "--table": table,
        "--model": model,
        "--key": ",".join(keys) or None,
        "--features": features,
        "--sink": sink,
        "--name": name,
    }
    made = first_job(path, given, query, questions, allow_pickle=allow_pickle)
    made.write(path, replaces=force)
    if as_json or not quiet:
        _print(made.lines(job_file), made.to_dict(path), as_json)


@partial(command, name="check")
@JOB
@TARGET
@SET
@CLUSTER
@AS_OF
def check_of_job(
    job_file: str,
    target: str,
    settings: tuple[str, ...],
    cluster: str | None,
    as_of: date | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check everything that a run needs, without a run.

    Each line shows one check: the model loads, the source opens, it has the columns of the previous
    run, the store can be written, and each sink can be loaded (rights, columns, no different job).
    No row is explained, and nothing is written.  The exit status is that of the first failed check.
    """
    from dshap.jobs import check_job, load_job

    found = check_job(load_job(job_file, settings, cluster, target), as_of, _say(quiet))
    if as_json or not quiet:
        _print(str(found).splitlines(), found.to_dict(), as_json)
    found.refuse_faults()


@command
@JOB
@TARGET
@SET
@CLUSTER
@click.option(
    "--defaults",
    is_flag=True,
    help=(
        "Show every key and the origin of its value, including keys that the job file leaves out."
    ),
)
@on_one_thread
def job(
    job_file: str,
    target: str,
    settings: tuple[str, ...],
    cluster: str | None,
    defaults: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show a job file as dshap reads it, with absolute paths.

    Neither the source nor the model is opened.
    """
    from dataclasses import asdict

    from dshap.jobfile.listing import as_toml, keys_of
    from dshap.jobfile.reading import target_settings
    from dshap.jobs import load_job

    job = load_job(job_file, settings, cluster, target)
    keys = list(keys_of(job, settings, target_settings(job_file, target)))
    shown = [asdict(key) for key in keys if defaults or key.origin != "default"]
    lines = as_toml(keys, with_defaults=defaults).splitlines()
    _print(lines, {"keys": shown}, as_json)


@command
def schema(as_json: bool, quiet: bool) -> None:
    """Print the JSON schema of job files.

    Editors use it to check job files, and so can programs that write job files.
    """
    from dshap.jobfile.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@command
@JOB
@TARGET
@SET
@CLUSTER
@click.option(
    "--reread",
    is_flag=True,
    help=(
        "Read all rows of the table again.  Otherwise files with the same size, times and "
        "footer as in an earlier run count as unchanged."
    ),
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=float,
    help=(
        "The longest time that the run waits for a worker of the cluster.  Default: [cluster] "
        "wait, or 120."
    ),
)
@AS_OF
@click.option(
    "--shard",
    metavar="I/N",
    help=(
        "Explain part I of N of the blocks, after --only learn, as a task of an array job.  "
        "auto/N reads I from SLURM_ARRAY_TASK_ID (--array=1-N), JOB_COMPLETION_INDEX + 1 or "
        "AWS_BATCH_JOB_ARRAY_INDEX + 1.  With --only learn, learn part I of N, after --only "
        "begin."
    ),
)
@click.option(
    "--only",
    type=click.Choice(PARTS),
    help=(
        "Run one part of the job.  learn: all work before the shards (read, fit, learn).  "
        "begin: the same without the learning that shards share.  finish: all work after the "
        "shards (summaries, checks, sinks)."
    ),
)
@click.option(
    "--backfill",
    is_flag=True,
    help=(
        "Explain a date before the last run, given with --as-of, into a separate cube.  The "
        'current cube stays current, and only sinks with write = "append" are loaded.'
    ),
)
@click.option(
    "--accept",
    metavar="RUN_ID",
    default="",
    help=(
        "Accept the failed checks of this run.  Later runs are then compared with it, and the "
        "sinks that its checks blocked are loaded."
    ),
)
@click.option(
    "--sample",
    "n_sample",
    metavar="N",
    type=click.IntRange(min=1),
    help=(
        "Explain only N rows, spread over the table, in a separate store STORE.sample.  Writes "
        "a page and loads no sinks; the store of the job does not change."
    ),
)
@click.option(
    "--skip-code",
    metavar="N",
    type=int,
    default=0,
    help=(
        "The exit status of a run that has nothing to do, for example 99, which Airflow shows "
        "as skipped.  Default: 0."
    ),
)
@click.option(
    "--performance-report",
    "performance",
    metavar="FILE.html",
    help=(
        "Write the performance report of Dask, which shows what every worker of the cluster "
        "did, and when."
    ),
)
@click.option(
    "--metrics",
    metavar="FILE.prom",
    help=(
        "Write metrics of the run for Prometheus, in the text format of the textfile collector "
        "of its node exporter."
    ),
)
@click.option(
    "--lineage",
    metavar="FILE.ndjson",
    help=(
        "Append events of OpenLineage: the tables that the run read and wrote, and how it ended."
    ),
)
@click.option(
    "--log",
    type=click.Choice(list(LOGS)),
    default="text",
    help=(
        "The form of the lines on standard error: for people (text) or for machines (json).  "
        "Default: text."
    ),
)
def run(
    job_file: str,
    target: str,
    settings: tuple[str, ...],
    cluster: str | None,
    reread: bool,
    wait_s: float | None,
    as_of: date | None,
    shard: str | None,
    only: str | None,
    backfill: bool,
    accept: str,
    n_sample: int | None,
    skip_code: int,
    performance: str | None,
    metrics: str | None,
    lineage: str | None,
    log: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a job, or finish an interrupted run."""
    from dshap.core.options import RULES
    from dshap.core.rules import as_path
    from dshap.engine.performance import report_path
    from dshap.jobs import (
        Command,
        about_start,
        error_of,
        load_job,
        run_recorded,
        sample_of_job,
        scope_of,
    )
    from dshap.jobs.listeners import listeners_of
    from dshap.jobs.run_endings import telling_end
    from dshap.report import require_jinja, require_matplotlib

    _check_skip_code(skip_code)
    if wait_s is not None:
        wait_s = RULES["wait"]("--wait", wait_s)
    page = None
    if performance is not None:
        page = report_path(as_path("--performance-report", performance, "file"))
    scope = scope_of(only, shard, job_file, os.environ)
    job = load_job(job_file, settings, cluster, target)
    about: dict[str, Any] = {}
    if n_sample is not None:
        _refuse_with_sample(only=only, shard=shard, backfill=backfill, accept=accept)
        require_jinja()
        say = _say(quiet, log)
        sample = sample_of_job(job, n_sample, as_of, say)
        say(str(sample))
        job = sample.job
        about = {"sample": sample.to_dict()}
    if job.report.picture:
        require_matplotlib()
    if job.report.page:
        require_jinja()
    given = Command(
        job_file,
        settings,
        as_of,
        reread,
        wait_s,
        scope,
        cluster,
        page,
        accept,
        backfill,
        own_processes=True,
        target=target,
        n_sample=n_sample,
    )
    listeners = listeners_of(job, job_file, metrics, lineage, LOGS[log].tell)
    if not quiet:
        LOGS[log].open(about_start(job, scope))
    with telling_end(job, listeners, partial(LOGS[log].tell, level="warning")) as over:
        ended = over.run = run_recorded(job, _progress(quiet, log), given)
        _show_run(job, ended, LOGS[log], as_json, quiet, about)
    if error := error_of(ended.facts):
        raise error
    if skip_code and not ended.facts.has_work:
        raise click.exceptions.Exit(skip_code)


def _refuse_with_sample(**options: Any) -> None:
    """Raise an InputError if --sample is combined with an option for whole runs."""
    given = [f"--{name}" for name, value in options.items() if value]
    if given:
        raise InputError(
            f"--sample with {' and '.join(given)}: a sample is a whole run of its own, in a store of its "
            "own: leave one of them out"
        )


def _show_run(
    job: Job,
    ended: RecordedRun,
    log: _Log,
    as_json: bool,
    quiet: bool,
    more: Mapping[str, Any],
) -> None:
    """Print the results of a run and its closing lines, and warn of problems.

    `more` are further facts for JSON.  The values of a row are printed only on a terminal or with
    -v, because a scheduler stores its logs.
    """
    from dshap.jobs import JobSummary, closing_lines, job_summary, run_content

    shows_row = sys.stdout.isatty() or click.get_current_context().params["verbose"]
    if ended.facts.failure is None:
        shown = job_summary(job, ended.result, shows_row=shows_row)
    else:
        shown = JobSummary([], {"job": job.job.name}, has_rows=False)
    about = run_content(ended.facts, ended.record)
    if as_json or (shown.has_rows and not quiet):
        lines = list(shown.lines)
        if closing := closing_lines(ended.facts, ended.result.store):
            lines += ["", *closing]
        _print(lines, {**shown.content, "run": about, **more}, as_json)
    if not quiet:
        log.close(about)
        for check in ended.facts.checks:
            if check.status == "warn":
                log.tell(f"check {check.name}: {check.message}", "warning")
    if shown.errors:
        log.tell("; ".join(_problems(shown)), "warning")


def _check_skip_code(given: int) -> None:
    """Raise an InputError if --skip-code is an exit status that already has a meaning."""
    is_free = LAST_STATUS < given <= 255 and given != INTERRUPTED
    if given != 0 and not is_free:
        raise InputError(
            f"--skip-code {given}: give a number from {LAST_STATUS + 1} to 255 other than "
            "{INTERRUPTED}, so that it differs from every other exit status, such as 99"
        )


def _problems(shown: JobSummary) -> list[str]:
    """The failed parts of a run in words; also the picture and page that were still written."""
    problems = [_ending(error, is_interrupted=False)[0] for error in shown.errors]
    for what in ("picture", "page"):
        if path := shown.content[what]:
            problems.append(f"the {what} {path} was still written")
    return problems


RUN_OF_STORE = click.option(
    "--run",
    "run_id",
    metavar="ID",
    default="",
    help=(
        "The run whose cube is read, in a store with one cube for each run.  Default: the "
        "current one."
    ),
)


@command
@STORE
@RUN_OF_STORE
@on_one_thread
def status(store: str, run_id: str, as_json: bool, quiet: bool) -> None:
    """Show how many rows and blocks are done, failed and missing.

    Also shows whether a run is going on.
    """
    from dshap.cube import named_cubes
    from dshap.report import progress_summary
    from dshap.storage.folder import Folder
    from dshap.storage.running import holders_on, is_running

    path = _store(store)
    cubes = named_cubes(path, run_id)
    place = Folder(path).true_place()
    places = (place, place.parent, place.parent.parent)
    holders = [holder for each in places for holder in holders_on(each)]
    _print(*progress_summary(cubes, any(map(is_running, places)), holders), as_json)


def _store(given: str) -> Place:
    """The place of the store in the arguments of a command; InputError if it is empty."""
    from dshap.core.rules import as_place

    return as_place("STORE", given)


@command
@STORE
@on_one_thread
def runs(store: str, as_json: bool, quiet: bool) -> None:
    """List the runs in the store of a job.

    Each line has the time, the result and the number of rows; --json prints the whole records.
    """
    from dshap.jobs import runs_summary
    from dshap.jobs.runs_in_words import WIDTH

    # in a file or a pipe, lines are not cut to a width
    width = None
    if sys.stdout.isatty():
        width = WIDTH
    _print(*runs_summary(_store(store), width), as_json)


@command
@STORE
@RUN_OF_STORE
@on_one_thread
def show(store: str, run_id: str, as_json: bool, quiet: bool) -> None:
    """Show how much each feature matters, over all finished rows."""
    from dshap.cube import named_cubes
    from dshap.jobs import fit_report
    from dshap.report import importance_summary

    path = _store(store)
    _print(*importance_summary(path, named_cubes(path, run_id), fit_report(path)), as_json)


class _Limit(click.ParamType[tuple[str, float]]):
    """A metric with the largest value that passes, like psi=0.2."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, float]:
        metric, _, limit = str(value).partition("=")
        with contextlib.suppress(ValueError):
            return metric, float(limit)
        self.fail(f"{value!r} is not METRIC=VALUE: give one like psi=0.2", param, ctx)


@partial(command, name="diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@click.option(
    "--explain",
    metavar="NAME",
    default="",
    help="The name of the explanation, if there are several.",
)
@click.option(
    "--old-run",
    metavar="ID",
    default="",
    help=(
        "The run of OLD, in a store with one cube for each run.  Default: the current one; "
        "without NEW, the run before --new-run."
    ),
)
@click.option(
    "--new-run",
    metavar="ID",
    default="",
    help="The run of NEW.  Default: the current one.",
)
@click.option("--output", metavar="NAME", help="The output to compare.  Default: all outputs.")
@click.option(
    "--rows",
    "n_rows",
    metavar="N",
    type=int,
    default=10,
    help="The number of listed rows, those that changed most.  Default: 10.",
)
@click.option("-o", "page", metavar="PAGE.html", help="Also write the difference as an HTML page.")
@click.option(
    "--fail-above",
    "limits",
    metavar="METRIC=VALUE",
    type=_Limit(),
    multiple=True,
    help=(
        "End with exit status 8 if a number is larger than this, for example psi=0.2.  Numbers:"
        " psi and wasserstein (in units of the output) of each feature, ndcg_loss (1 - nDCG), "
        "spearman_loss (1 - correlation), changed (the share of common rows whose attributions "
        "changed).  May be given several times."
    ),
)
@click.option(
    "--force", is_flag=True, help="Replace the file of -o even if dshap did not write it."
)
def difference(
    old: str,
    new: str | None,
    explain: str,
    old_run: str,
    new_run: str,
    output: str | None,
    n_rows: int,
    page: str | None,
    limits: tuple[tuple[str, float], ...],
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare the attributions of two stores, cubes or runs.

    Without NEW, OLD is a store with one cube for each run: the last run is compared with the run
    before it.
    """
    from dshap.core.errors import CheckFailedError
    from dshap.report import diff, difference_page, refuse_unknown_metrics, require_jinja

    refuse_unknown_metrics(dict(limits))
    if page is not None:
        require_jinja()
    found = diff(
        old,
        new,
        explain=explain,
        old_run=old_run,
        new_run=new_run,
        output=output,
        n_rows=n_rows,
    )
    beyond = found.above(dict(limits))
    if page is not None:
        difference_page(found, page, force=force)
    if as_json or not quiet:
        _print(str(found).splitlines(), {**found.to_dict(), "above": beyond}, as_json)
    if beyond:
        raise CheckFailedError("; ".join(beyond))


@partial(command, name="drift")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--column",
    "features",
    metavar="NAME",
    multiple=True,
    help=(
        "A column to compare; give the option once for each.  Default: all columns except the key."
    ),
)
@click.option(
    "--key",
    metavar="NAME",
    multiple=True,
    help="A key column, which identifies rows; give the option once for each.",
)
@click.option(
    "--rows",
    "n_rows",
    metavar="N",
    type=int,
    default=10,
    help="The number of listed rows, those that contribute most to the drift.  Default: 10.",
)
@click.option(
    "--max-rows",
    metavar="N",
    type=int,
    help=(
        "The largest number of rows of each table that are compared; larger tables are sampled."
        "  Default: as in dshap.mmd_drift."
    ),
)
@click.option(
    "--permutations",
    metavar="N",
    type=int,
    default=999,
    help="The number of permutations for p-values.  Default: 999.",
)
@click.option(
    "--seed",
    metavar="N",
    type=int,
    default=0,
    help="The seed of samples and permutations.  Default: 0.",
)
@click.option(
    "--level",
    metavar="P",
    type=float,
    help=(
        "End with exit status 8 if the p-value of all columns together is at most P, for "
        "example 0.01."
    ),
)
@click.option("-o", "page", metavar="PAGE.html", help="Also write the drift as an HTML page.")
@click.option(
    "--force", is_flag=True, help="Replace the file of -o even if dshap did not write it."
)
def drift(
    old: str,
    new: str,
    features: tuple[str, ...],
    key: tuple[str, ...],
    n_rows: int,
    max_rows: int | None,
    permutations: int,
    seed: int,
    level: float | None,
    page: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare the rows of two tables, in all columns together.

    OLD and NEW are Parquet or CSV files.  The comparison finds changes that no single column shows,
    for example a correlation that changes its sign.
    """
    from dshap.core.errors import CheckFailedError
    from dshap.report import checked_level, drift_page, mmd_drift, require_jinja, seen_line
    from dshap.run.table_drift import MAX_ROWS

    if level is not None:
        checked_level(level, permutations)
    if page is not None:
        require_jinja()
    found = mmd_drift(
        old,
        new,
        features=features or None,
        key=key,
        max_rows=MAX_ROWS if max_rows is None else max_rows,
        n_permutations=permutations,
        n_rows=n_rows,
        seed=seed,
    )
    if page is not None:
        drift_page(found, page, force=force)
    if as_json or not quiet:
        _print(str(found).splitlines(), found.to_dict(), as_json)
    if level is not None and found.is_seen(level):
        raise CheckFailedError(seen_line(found))


@command
@STORE
@RUN_OF_STORE
@click.option(
    "--to",
    "path",
    metavar="FILE",
    required=True,
    help="The file to write, whose name ends in .parquet or .csv.",
)
@click.option(
    "--shape",
    type=click.Choice(["wide", "long", "top_k"]),
    default="wide",
    help=(
        "One line for each row (wide), for each row and feature (long), or for the k largest "
        "features of each row (top_k), as in a [[sink]] of a job file."
    ),
)
@click.option(
    "--k",
    metavar="N",
    type=int,
    default=3,
    help="The number of features of a row, in the shape top_k.",
)
@click.option(
    "--explain",
    "name",
    metavar="NAME",
    default="",
    help="The name of the explanation, if there are several.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    store: str,
    run_id: str,
    path: str,
    shape: PlainShape,
    k: int,
    name: str,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the attributions of a store to one file.

    The file contains every row; pending rows have no numbers.  It is renamed to its final name when
    it is complete.
    """
    from dataclasses import asdict

    from dshap.core.rules import as_path
    from dshap.cube import named_cubes
    from dshap.sinks.frames import export_file

    cube = _named(named_cubes(_store(store), run_id), name)
    done = export_file(cube, as_path("--to", path), shape, k, replaces=force)
    if as_json or not quiet:
        _print([str(done)], asdict(done), as_json)


def _named(cubes: dict[str, Place], name: str) -> Place:
    """The cube of the explanation with this name; without a name, the only cube."""
    if not name and len(cubes) == 1:
        return next(iter(cubes.values()))
    if not name:
        raise InputError(
            f"the store contains {len(cubes)} explanations: give --explain, one of "
            f"{', '.join(cubes)}"
        )
    if name not in cubes:
        raise InputError(unknown_name("explanation", name, cubes))
    return cubes[name]


@command
@STORE
@click.option(
    "--key",
    "keys",
    metavar="K",
    multiple=True,
    help=(
        "A key to forget, for example 1007, or the values of several key columns with commas "
        "between them.  May be given several times."
    ),
)
@click.option(
    "--keys",
    "keys_file",
    metavar="FILE",
    help=(
        "A file of keys: a text file with one key per line, or a .csv or .parquet file with the"
        " key columns."
    ),
)
@click.option(
    "--job",
    "job_file",
    metavar="JOB.toml",
    help=(
        "A job file whose sinks and page also lose the rows, in addition to the sinks and pages"
        " in the records of the runs.  Default: the job file of the last run, if it exists."
    ),
)
@TARGET
@click.option(
    "--known-only",
    is_flag=True,
    help=(
        "Skip keys that the store does not have.  Without this option, such a key stops the "
        "command before it erases anything."
    ),
)
@click.option(
    "--unsigned",
    is_flag=True,
    help=(
        "Seal signed runs again without a signature if their signing key is missing.  Without "
        "this option, the command then stops before it erases anything."
    ),
)
def forget(
    store: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    job_file: str | None,
    target: str,
    known_only: bool,
    unsigned: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Erase rows from a store, its sinks and its pages.

    All other values of finished cubes stay the same, bit for bit.  If the command was stopped, run
    it again to finish the erasure.
    """
    from dshap.erasure.forgetting import forget_keys

    done = forget_keys(
        _store(store),
        keys,
        keys_file,
        job_file=job_file,
        target=target,
        known_only=known_only,
        unsigned=unsigned,
        say=_say(quiet),
    )
    if as_json or not quiet:
        _print(str(done).splitlines(), done.to_dict(), as_json)
    if error := done.failure:
        raise error


@command
@STORE
@RUN_OF_STORE
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    default="report.html",
    help="The page to write.  Default: report.html.",
)
@click.option(
    "--all-rows",
    is_flag=True,
    help=(
        "Write all rows into a folder next to the page (report_rows for report.html), so that "
        "the search of the page finds every row.  No server is needed."
    ),
)
@click.option(
    "--segment",
    "segments",
    multiple=True,
    metavar="COLUMN[:BINS]",
    help=(
        "Show mean |attribution| for each value of this column, for example plan, or for "
        "intervals, for example age:5.  May be given several times."
    ),
)
@click.option(
    "--what-if",
    is_flag=True,
    help=(
        "Let readers change the values of a row on the page.  The page then contains the model,"
        " and for kernel models rows of the table.  Needs a run with [report] what_if = true, "
        "which stores the model."
    ),
)
@click.option("--force", is_flag=True, help="Replace the file even if dshap did not write it.")
def report(
    store: str,
    run_id: str,
    output: str,
    all_rows: bool,
    segments: tuple[str, ...],
    what_if: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write an HTML page about a store.

    The page shows what was explained, how accurate it is, pictures, and single rows.  A page that
    dshap wrote is replaced; other files are not.
    """
    from dshap.cube import named_cubes
    from dshap.jobs import about_run
    from dshap.report import page
    from dshap.report.what_if.keeping import what_if_lines

    path = _store(store)
    about = about_run(path, run_id)
    written = page(
        path,
        output,
        run=run_id,
        all_rows=all_rows,
        segments=segments,
        what_if=what_if,
        about=about,
        force=force,
    )
    lines = [f"report: {written}"]
    content: dict[str, Any] = {"report": written}
    if what_if:
        content["what_if"] = what_if_lines(named_cubes(path, run_id))
        lines += content["what_if"]
    if as_json or not quiet:
        _print(lines, content, as_json)


@command
@STORE
@click.option(
    "--repair",
    is_flag=True,
    help=(
        "Restore damaged names, plans and metadata, and remove other damaged parts.  The same "
        "`dshap run` or explain(store=...) then computes only these parts again."
    ),
)
@click.option(
    "--job", "job_file", metavar="JOB.toml", help="With --repair: run this job afterwards."
)
def verify(store: str, repair: bool, job_file: str | None, as_json: bool, quiet: bool) -> None:
    """Check all contents of a store for damage.

    The contents are values, keys, names, metadata, plan, receipts, states and notes, and for a job
    the records of its runs with their stored rows and keys.  Each damaged part is named, and the exit
    status is 7.  If the store lacks the records to check against, the exit status is 11.
    """
    from dshap.cube import named_cubes, store_parts
    from dshap.jobs import refuse_damage, repair_job_store, repair_with_job, verify_job_store
    from dshap.report import damage_summary

    if job_file is not None and not repair:
        raise InputError("--job runs a job after --repair: give both, or neither")
    root = _store(store)
    if not store_parts(root):
        named_cubes(root)
    if not repair:
        mended = None
    elif job_file is None:
        mended = repair_job_store(root)
    else:
        mended = repair_with_job(root, job_file, _progress(quiet))
    found = verify_job_store(root)
    _print(*damage_summary(root, found, mended), as_json)
    refuse_damage(root, found, mended, has_job=job_file is not None)


RUN_SEALED = click.option(
    "--run",
    "run_id",
    metavar="ID",
    default="",
    help="Only this run.  Default: all runs of the store.",
)


@command
@STORE
@click.option(
    "--verify",
    "verifies",
    is_flag=True,
    help="Compare the cubes, records and sinks with the digests in the statements.",
)
@click.option(
    "--key",
    metavar="PUBLIC.pem",
    help=(
        "With --verify: the public key with which the statements must be signed, as a path or "
        "PEM text."
    ),
)
@click.option(
    "--since",
    metavar="ID|DAY",
    default="",
    help=(
        "With --key: the first run or day whose statements must be signed, for example "
        "2026-11-27.  Older statements are checked without a signature."
    ),
)
@RUN_SEALED
@click.option(
    "--job",
    "job_file",
    metavar="JOB.toml",
    help=(
        "With --verify: the job file whose [[sink]] are compared.  Default: the job file in the"
        " record of each run."
    ),
)
@SET
@TARGET
@click.option("--no-sinks", is_flag=True, help="With --verify: do not compare the tables of sinks.")
@click.option(
    "--sigstore",
    is_flag=True,
    help=(
        "Sign the newest statement, or the statement of --run, with Sigstore and the identity "
        "of this CI job.  The bundle is written next to the statement."
    ),
)
def attest(
    store: str,
    verifies: bool,
    key: str | None,
    since: str,
    run_id: str,
    job_file: str | None,
    settings: tuple[str, ...],
    target: str,
    no_sinks: bool,
    sigstore: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show or check the sealed statements of a job's runs.

    A statement lists the digests of the results and of the inputs of a run.  Each result that differs
    from its statement is named, and the exit status is 7.
    """
    from dshap.jobs.attesting import (
        AttestedSinks,
        attest_store,
        newest_sealed,
        statements_of,
    )

    path = _store(store)
    if sigstore:
        from dshap.seals.sigstore_bundles import add_bundle, ambient_signer

        bundle = add_bundle(path, run_id or newest_sealed(path), ambient_signer())
        _print([f"bundle: {bundle}"], {"bundle": str(bundle)}, as_json)
    if not verifies:
        if key or since or job_file or settings or target or no_sinks:
            raise InputError(
                "--key, --since, --job, --set, --target and --no-sinks belong to a check: give "
                "--verify too"
            )
        _print(*statements_of(path, run_id), as_json)
        return
    sinks = AttestedSinks(job_file, settings, not no_sinks, target)
    found = attest_store(path, key, run_id, sinks, since)
    if as_json or not quiet:
        _print([*found.seals.lines, *found.unchecked], found.seals.to_dict(), as_json)
    found.refuse_faults()


@command
@STORE
@click.option(
    "--rows",
    "n_rows",
    metavar="N",
    type=click.IntRange(1),
    default=1000,
    help=(
        "The number of sampled rows of each explanation that are computed again.  Default: 1000."
    ),
)
@click.option(
    "--key",
    "keys",
    metavar="KEY",
    multiple=True,
    help=(
        "The key of a row to compute again in place of a sample, for example 1007, or the "
        "values of several key columns with commas between them.  May be given several times."
    ),
)
@click.option(
    "--explain",
    metavar="NAME",
    default="",
    help="Only this explanation.  Default: all explanations.",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, help="The seed of the sample.  Default: 0."
)
@click.option(
    "--run",
    "run_id",
    metavar="ID",
    default="",
    help="The run to compute again.  Default: the newest run.",
)
@click.option(
    "--job",
    "job_file",
    metavar="JOB.toml",
    help=(
        "The job file to use if the job in the record of the run does not find its files on "
        "this machine."
    ),
)
@SET
@TARGET
def replay(
    store: str,
    n_rows: int,
    keys: tuple[str, ...],
    explain: str,
    seed: int,
    run_id: str,
    job_file: str | None,
    settings: tuple[str, ...],
    target: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compute rows of a sealed run again and compare the bits.

    The store does not change.  If a bit differs, the first differing block is named, and the exit
    status is 8.  Differences by rounding on a different processor are reported as such.
    """
    from dshap.jobs.replay import replay_run
    from dshap.jobs.replay_outcome import WantedRows

    wanted = WantedRows(n_rows, keys, seed, explain)
    found = replay_run(_store(store), wanted, run_id, job_file, settings, _say(quiet), target)
    if as_json or not quiet:
        _print(found.lines, found.to_dict(), as_json)
    found.refuse_differences()


@command
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str, as_json: bool, quiet: bool) -> None:
    """Copy a store to a folder or bucket, and check the copy.

    Each file is read back and compared.  If a copy was stopped, the same command continues it.
    """
    from dshap.core.rules import as_place
    from dshap.cube import copy_store
    from dshap.jobs import refuse_damage, verify_job_store

    to = as_place("TO", target)
    done = copy_store(as_place("FROM", source), to, _say(quiet))
    found = verify_job_store(to)
    line = (
        f"{done.n_files:,} files, {done.n_bytes:,} bytes at {to}, {done.n_copied:,} copied now: "
        "each was read back unchanged"
    )
    content = {"to": str(to), "files": done.n_files, "bytes": done.n_bytes, "copied": done.n_copied}
    _print([line], content, as_json)
    refuse_damage(to, found, None, has_job=False)


@partial(command, group=of_clusters)
@click.argument("folder", metavar="FOLDER")
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1),
    default=365,
    help="The number of days that the certificates are valid.  Default: 365.",
)
def certificates(folder: str, days: int, as_json: bool, quiet: bool) -> None:
    """Make the certificates of a cluster in a private folder.

    The files are ca.pem, cert.pem and key.pem.  Client, scheduler and workers use the same
    certificate.  Everyone with access to the folder can run code on the cluster.
    """
    from dshap.core.rules import as_path
    from dshap.engine import make_certificates

    path = as_path("FOLDER", folder, "folder")
    made = make_certificates(path, days)
    files = [str(made.authority), str(made.certificate), str(made.key)]
    if as_json or not quiet:
        _print(files, {"files": files, "days": days}, as_json)


@partial(command, group=of_clusters)
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--job",
    "job_file",
    metavar="JOB.toml",
    help="Also check whether the worker can read the table and the store of this job.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(0.0),
    help=(
        "The longest time that the command waits for the worker.  Default: [cluster] wait, or 120."
    ),
)
@TARGET
def check(
    profile: str,
    job_file: str | None,
    wait_s: float | None,
    target: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start one worker of PROFILE, check it, and stop it.

    Shows the versions on both sides, the memory, whether the worker sees the store and the table, and
    the round-trip time of a task.  The exit status is 2 if a run would be refused.
    """
    from dshap.jobs import check_cluster

    found = check_cluster(profile, job_file, wait_s, _say(quiet), target)
    if as_json or not quiet:
        _print(str(found).splitlines(), found.to_dict(), as_json)
    found.refuse_faults()


@partial(command, group=of_clusters)
@click.argument("profile", metavar="PROFILE")
@click.argument("job_file", metavar="JOB.toml")
@click.option(
    "--certificates",
    metavar="FOLDER",
    help=(
        "Put these certificates into a secret of the manifest.  Then the manifest itself must "
        "be kept secret."
    ),
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help=(
        "Split the run into a Job that learns, an Indexed Job of N shards, and a Job that finishes."
    ),
)
@click.option(
    "--learn-shards",
    "learning",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --shards: N pods also share the learning.",
)
@click.option(
    "--schedule",
    metavar="TIMES",
    help='Make a CronJob with this schedule, for example "0 3 * * *", in place of a single run.',
)
@click.option(
    "--time-zone",
    metavar="ZONE",
    help='The time zone of --schedule, for example "Europe/Berlin".  Default: "Etc/UTC".',
)
@TARGET
def manifest(
    profile: str,
    job_file: str,
    certificates: str | None,
    shards: int | None,
    learning: int | None,
    schedule: str | None,
    time_zone: str | None,
    target: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the Kubernetes objects that run JOB on the pods of PROFILE.

    Use them with `kubectl apply -f -`.  Without options: a Job for the run and its scheduler, an
    Indexed Job of workers, a Service, and a ConfigMap with both files.  With --shards there is no
    scheduler: a Job that learns and, both suspended, an Indexed Job of the shards and a Job that
    finishes.  With --schedule, a CronJob starts one pod of the size of [worker] for the whole run.
    """
    from dshap.core.rules import as_path
    from dshap.engine.clusters.yaml_text import as_yaml
    from dshap.jobs import Schedule, manifests_of

    folder = None
    if certificates is not None:
        folder = as_path("--certificates", certificates, "folder")
    nights = Schedule.of(schedule, time_zone)
    objects = manifests_of(profile, job_file, folder, shards, nights, learning, target)
    if as_json:
        _print([], {"apiVersion": "v1", "kind": "List", "items": objects}, as_json)
    else:
        click.echo(as_yaml(objects), nl=False)
