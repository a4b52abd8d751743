"""The command line: results on standard output, progress and errors on standard error.

Exit statuses: 0 done or nothing to do, 1 a bug, 2 bad job or input, 3 does not fit, 4 the store
holds another run, 5 finished with failed blocks, 6 locked by a running job, 7 the store is damaged,
11 the store holds nothing that it could be checked against, 130 interrupted (the same command
resumes).
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from dshap.core.errors import DamagedError, DshapError, InputError, LockedError, unknown_name
from dshap.core.printing import dated, one_line, printable
from dshap.core.user_code import raised_by_import

if TYPE_CHECKING:
    from dshap.cube import CubeStatus, Damage
    from dshap.engine import Progress
    from dshap.jobs import Job, JobResult
    from dshap.report import Ranking

LOG = logging.getLogger(__name__)

INTERRUPTED = 130
BUG = 1
BAD_INPUT = 2
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
SHOWN_STORES = 4
"""The most stores in a folder that a message names."""
QUALITY = "quality: MSE_v, the mean of (f − v_S)² over rows and coalitions"


def main() -> None:
    """Run the `dshap` command."""
    cli(prog_name="dshap")


class _Commands(click.Group):
    """A group of commands whose usage errors are one line, like all other errors."""

    def make_context(self, *given: Any, **options: Any) -> click.Context:
        with _usage_in_one_line():
            return super().make_context(*given, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_in_one_line():
            return super().invoke(ctx)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and name not in self.commands:
            raise click.UsageError(unknown_name("command", name, self.commands), ctx)
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def _usage_in_one_line() -> Iterator[None]:
    """Print usage errors of click, which take three lines, as one line."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        _tell(_usage(error))
        raise click.exceptions.Exit(BAD_INPUT) from error


def _usage(error: click.UsageError) -> str:
    """The line that says what is wrong with a command, and what it takes."""
    context = error.ctx
    said = error.format_message().strip()
    match error:
        case click.NoSuchOption(option_name=str(name)) if context is not None:
            options = [max(each.opts, key=len) for each in context.command.get_params(context)]
            said = unknown_name("option", name, [each for each in options if each.startswith("-")])
            if context.parent is None:
                return (
                    f"{said} Options of a command follow its name, as in `dshap run JOB.toml -q`."
                )
            return f"{context.info_name}: {said}"
    if context is None or context.parent is None:
        return said
    usage = context.get_usage().partition(": ")[2]
    return f"{context.info_name}: {said[:1].lower()}{said[1:].rstrip('.')}; write `{' '.join(usage.split())}`"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dshap", message="dshap %(version)s")
def cli() -> None:
    """Shapley values for models on tables that outgrow one machine."""


def command(function: Callable[..., None]) -> click.Command:
    """Make a command with --json, -q and -v, whose errors are one line and an exit status."""

    @functools.wraps(function)
    def guarded(*args: Any, quiet: bool, verbose: bool, **options: Any) -> None:
        _set_up(quiet, verbose)
        try:
            function(*args, quiet=quiet, **options)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            _give_up(error, verbose)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="Results as JSON."),
        click.option(
            "-q", "--quiet", is_flag=True, help="No progress and no results in words: errors only."
        ),
        click.option("-v", "--verbose", is_flag=True, help="Logs, and tracebacks of errors."),
    ):
        guarded = option(guarded)
    return cli.command()(guarded)


def _set_up(quiet: bool, verbose: bool) -> None:
    """Send logs to standard error, and let SIGTERM act like Ctrl-C.

    Locks and clusters are then released.
    """
    if verbose:
        level = logging.INFO
    elif quiet:
        level = logging.ERROR
    else:
        level = logging.WARNING
    logs = logging.StreamHandler(sys.stderr)
    if sys.stderr.isatty():
        times = ""
    else:
        times = "%(asctime)s "
    logs.setFormatter(_PrintableLogs(f"{times}%(name)s: %(message)s", TIME_FORMAT))
    logging.basicConfig(level=level, handlers=[logs])
    warnings.showwarning = _warn
    if quiet:
        warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, _interrupt)


class _PrintableLogs(logging.Formatter):
    """A log formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).splitlines()))


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of Python in one line, without its place in the code."""
    _tell(f"warning: {message}")


def _tell(text: str) -> None:
    """Print one line on standard error, with the time where that is no terminal."""
    line = f"dshap: {one_line(text)}"
    click.echo(line if sys.stderr.isatty() else dated(line), err=True)


def _interrupt(*_: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _give_up(error: BaseException, verbose: bool) -> NoReturn:
    if verbose:
        click.echo(
            "\n".join(map(printable, "".join(traceback.format_exception(error)).splitlines())),
            err=True,
        )
    message, status = _ending(error)
    _tell(message)
    raise click.exceptions.Exit(status)


def _ending(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit status."""
    if _is_interrupt(error):
        return "interrupted; what is finished is kept, the same command goes on", INTERRUPTED
    match error:
        case DshapError():
            return str(error), error.exit_status
        case OSError():
            return f"{error.filename or 'file'}: {error.strerror or error}", BAD_INPUT
    if said := raised_by_import(error):
        return said, BAD_INPUT
    return f"this is a bug: {type(error).__name__}: {error} (-v shows where)", BUG


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a Ctrl-C, or was raised while one was handled."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__context__)
    )


def _progress(quiet: bool) -> Progress:
    from dshap.engine import LineProgress, SilentProgress

    if quiet:
        return SilentProgress()
    return LineProgress(sys.stderr)


def _print(lines: list[str], content: Any, as_json: bool) -> None:
    """Print lines, or content as JSON, with null for NaN and infinity."""
    if as_json:
        finite = json.loads(json.dumps(content, default=str), parse_constant=lambda _: None)
        click.echo(json.dumps(finite, indent=2, allow_nan=False))
    else:
        click.echo("\n".join(map(printable, lines)))


JOB = click.argument("job_file", metavar="JOB.toml")
SET = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help="A value in the place of the job file's, like source.path=other.parquet or explain.NAME.landmarks=64; "
    "may be given several times.",
)
STORE = click.argument("store", metavar="STORE")


@command
@JOB
@SET
def plan(job_file: str, settings: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Show the stages, tasks and bytes of a job; nothing is started or written."""
    from dshap.jobs import load_job, plan_job

    job = load_job(job_file, settings)
    planned = plan_job(job)
    _print(str(planned).splitlines(), planned.to_dict(), as_json)
    planned.check(job.memory_limit, job.n_threads)


@command
@JOB
@SET
@click.option(
    "--reread",
    is_flag=True,
    help="Read all rows of the table again, where files of the same size, times "
    "and footer as in an earlier run are taken for unchanged.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=float,
    help="How long a cluster may be without a worker; [cluster] wait, or 120, where left out.",
)
def run(
    job_file: str,
    settings: tuple[str, ...],
    reread: bool,
    wait_s: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Carry out a job, or finish one that was interrupted."""
    from dshap.core.options import RULES
    from dshap.jobs import load_job, run_job
    from dshap.report import require_matplotlib

    if wait_s is not None:
        wait_s = RULES["wait"]("--wait", wait_s)
    job = load_job(job_file, settings)
    if job.report.picture:
        require_matplotlib()
    result = run_job(job, _progress(quiet), trusts_files=not reread, wait_s=wait_s)
    if result.is_empty:
        lines, content, problems = _no_results(job)
    else:
        lines, content, problems = _results(job, result)
    has_rows = bool(content["ranking"]) or not result.has_failed
    if as_json or (has_rows and not quiet):
        _print(lines, content, as_json)
    if problems:
        _tell(f"warning: {'; '.join(problems)}")
    result.raise_on_failed()


def _no_results(job: Job) -> tuple[list[str], dict[str, Any], list[str]]:
    """Lines, content and problems of a job whose table has no rows."""
    content = {"job": job.job.name, "was_complete": True, "ranking": {}, "cubes": {}}
    return ["nothing to do: the table has no rows"], content, []


def _results(job: Job, result: JobResult) -> tuple[list[str], dict[str, Any], list[str]]:
    """The lines and the content that a finished job shows, and what could not be shown."""
    from dshap import report

    problems: list[str] = []

    def tried(make: Callable[..., Any], *given: Any) -> Any:
        """Call `make`; None where it fails, since the job itself is finished."""
        try:
            return make(*given)
        except Exception as error:
            LOG.info("the report failed", exc_info=error)
            problems.append(_ending(error)[0])
            return None

    units = job.run.units
    ranked = tried(report.rankings, result.paths) or []
    if ranked or not result.has_failed:
        row = tried(report.breakdown, result.paths, job.report.instance)
    else:
        row = None
    if ranked:
        picture = tried(_picture, job, result, ranked)
    else:
        picture = None
    if problems and picture:
        problems.append(f"the picture {picture} was still written")
    places = [f"cube: {path} ({name})" for name, path in result.paths.items()]
    has_worked = not result.was_complete or bool(result.seconds.keys() - {"census"})
    qualities = {each.name: each.quality for each in result.explanations if each.quality}
    stages = [stage.to_dict() for stage in result.stages]
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items())
    sections = [
        [f"done: {steps}" if has_worked else "nothing to do: every explanation is finished"],
        [f"model: {str(result.report).splitlines()[0]}", *result.report.score_lines]
        if result.report
        else [],
        report.ranking_lines(ranked, units) if ranked else [],
        [QUALITY, *(f"{name}: {quality}" for name, quality in qualities.items())]
        if qualities
        else [],
        report.breakdown_lines(row, units) if row else [],
        [*places, f"picture: {picture}"] if picture else places,
        report.stage_table(stages),
    ]
    lines = [line for section in sections if section for line in ("", *section)][1:]
    content = {
        "job": job.job.name,
        "was_complete": result.was_complete,
        "held_out": _scores(result),
        "ranking": {ranking.label: dict(ranking.magnitude) for ranking in ranked},
        "breakdown": row.to_dict() if row else None,
        "cubes": result.paths,
        "picture": picture,
        "quality": {name: quality.to_dict() for name, quality in qualities.items()},
        "seconds": result.seconds,
        "stages": stages,
    }
    return lines, content, problems


def _picture(job: Job, result: JobResult, ranked: list[Ranking]) -> Path | None:
    """Draw the picture of [report], where it is not there yet; None where none is asked for."""
    from dshap.report import ranking_picture

    if not job.report.picture:
        return None
    path = Path(job.report.picture)
    if not (result.was_complete and path.exists()):
        ranking_picture(ranked, path, f"{job.job.name}: what moves the prediction", job.run.units)
    return path


def _scores(result: JobResult) -> dict[str, list[float]] | None:
    """Held-out score -> its value for each output; None where there is no fit."""
    if result.report is None:
        return None
    return {name: score.tolist() for name, score in result.report.held_out.items()}


@command
@STORE
def status(store: str, as_json: bool, quiet: bool) -> None:
    """Show how many rows and blocks are done, failed and left, and whether a run is going on."""
    from dataclasses import asdict

    from dshap.cube import cube_status, is_running, true_path

    path = _store(store)
    statuses = {name: cube_status(cube) for name, cube in _cubes(path).items()}
    place = true_path(path)
    active = is_running(place) or is_running(place.parent)
    lines = [line for name, each in statuses.items() for line in _status_lines(name, each)]
    lines.append("a run is going on" if active else "no run is going on")
    _print(
        lines,
        {"cubes": {name: asdict(each) for name, each in statuses.items()}, "is_running": active},
        as_json,
    )


def _status_lines(name: str, status: CubeStatus) -> list[str]:
    """The progress of a cube; and where rows failed, the count and first row of each reason."""
    failures = [
        f"{name}: {each.rows:,} failed, first {each.first}: {each.reason}"
        for each in status.failures
    ]
    return [f"{name}: {_status_line(status)}", *failures]


def _status_line(status: CubeStatus) -> str:
    rows = {
        "ok": status.ok,
        "skipped": status.skipped,
        "failed": status.failed,
        "pending": status.pending,
    }
    shown = ", ".join(
        f"{count:,} {name}" for name, count in rows.items() if count or name in ("ok", "pending")
    )
    return f"{status.n_rows:,} rows: {shown}; {status.blocks_done} of {status.n_blocks} blocks done"


def _store(given: str) -> Path:
    """The absolute path of the store that a command is given; an InputError for no path."""
    from dshap.core.rules import as_path

    return as_path("STORE", given)


def _cubes(store: Path) -> dict[str, Path]:
    """Name -> path of each cube of a store, which is one cube or holds several."""
    from dshap.cube import cube_paths, read_job

    if not store.exists():
        raise InputError(f"{store} does not exist: give the store of a run")
    paths = cube_paths(store)
    if not paths and read_job(store) is not None:
        raise InputError(f"{store} holds no attribution cube yet: its job is not that far")
    if not paths:
        raise InputError(f"{store} holds no attribution cube: {_instead(store)}")
    return {path.name: path for path in paths}


def _instead(folder: Path) -> str:
    """Advice on what to give instead of a folder that is no store, such as stores inside it."""
    from dshap.cube import cube_paths

    if folder.is_dir():
        inside = sorted(folder.iterdir())
    else:
        inside = []
    stores = [path.name for path in inside if cube_paths(path)]
    if not stores:
        return "give the store of a run"
    return f"give one of the stores in it, {', '.join(stores[:SHOWN_STORES])}{', …' * (len(stores) > SHOWN_STORES)}"


@command
@STORE
def show(store: str, as_json: bool, quiet: bool) -> None:
    """Show how much each feature matters, over the rows that are finished so far."""
    from dshap import report
    from dshap.cube import cube_status, read_job
    from dshap.jobs import fit_report

    path = _store(store)
    paths = _cubes(path)
    job = read_job(path) or {}
    ranked = report.rankings(paths)
    fitted = fit_report(path)
    statuses = {name: cube_status(path) for name, path in paths.items()}
    found = report.accuracy(paths)
    lines = [
        *([*f"model: {fitted}".splitlines(), ""] if fitted else []),
        *(
            report.ranking_lines(ranked, job.get("units", ""))
            if ranked
            else ["no row is explained yet"]
        ),
        "",
        *report.accuracy_lines(found),
        *(line for name, each in statuses.items() for line in _status_lines(name, each)),
    ]
    content = {
        ranking.label: {
            "rows": ranking.rows,
            "mean_magnitude": dict(ranking.magnitude),
            "mean": dict(ranking.mean),
            "mean_magnitude_std_error": dict(ranking.magnitude_error),
            "mean_std_error": dict(ranking.mean_error),
        }
        for ranking in ranked
    }
    _print(lines, content | {"accuracy": found}, as_json)


@command
@STORE
@click.option(
    "--repair",
    is_flag=True,
    help="Put back names, plan and metadata; remove what else is damaged, so that "
    "the same `dshap run` or explain(store=...) computes exactly that again.",
)
@click.option(
    "--job", "job_file", metavar="JOB.toml", help="With --repair: carry out this job afterwards."
)
def verify(store: str, repair: bool, job_file: str | None, as_json: bool, quiet: bool) -> None:
    """Check all that a store holds: values, keys, names, metadata, plan, receipts, states, notes.

    Each damaged item is named, and the exit status is 7.  It is 11 where the store lacks what it
    would be checked against.
    """
    from dshap.cube import store_parts

    if job_file is not None and not repair:
        raise InputError("--job carries out a job after --repair: give both, or neither")
    root = _store(store)
    if not store_parts(root):
        _cubes(root)
    if repair:
        mended = _mended(root, job_file, quiet)
    else:
        mended = {}
    found = _damaged(root)
    lines = [f"{name}: mended: {damage}" for name, damages in mended.items() for damage in damages]
    lines += [
        line
        for name, damages in found.items()
        for line in _verified(name, store_parts(root)[name], damages)
    ]
    content = {name: [str(damage) for damage in damages] for name, damages in found.items()}
    removed = {name: [str(damage) for damage in damages] for name, damages in mended.items()}
    _print(lines, content | {"mended": removed} if repair else content, as_json)
    _refuse_damage(root, found, mended, job_file)


def _damaged(store: Path) -> dict[str, list[Damage]]:
    """Part of a store -> the damage found in it."""
    from dshap.cube import store_parts, verify_cube

    return {name: verify_cube(path) for name, path in store_parts(store).items()}


def _mended(store: Path, job_file: str | None, quiet: bool) -> dict[str, list[Damage]]:
    """Repair a store; gives what was damaged.

    With a job, repair and run until nothing is damaged, or until the damage stays the same.
    """
    mended = _repaired(store)
    left: dict[str, list[Damage]] = {}
    while job_file is not None:
        _finish(job_file, store, quiet)
        before = left
        left = _damaged(store)
        if not any(left.values()) or left == before:
            break
        for name, damages in _repaired(store).items():
            mended[name] = [*mended.get(name, []), *damages]
    return mended


def _repaired(store: Path) -> dict[str, list[Damage]]:
    """Repair a store under its lock; gives what was mended."""
    from dshap.cube import Workspace, is_running, repair, store_parts, true_path

    if is_running(true_path(store).parent):
        raise LockedError(f"{store.parent} is locked by a running job: wait for it")
    with Workspace(store):
        return {name: repair(path) for name, path in store_parts(store).items()}


def _finish(job_file: str, store: Path, quiet: bool) -> None:
    """Carry out the job of this store."""
    from dshap.jobs import load_job, run_job

    job = load_job(job_file, ())
    if Path(job.job.store).resolve() != store.resolve():
        raise InputError(
            f"{job_file} has the store {job.job.store}, not {store}: give the job that made this "
            "store"
        )
    run_job(job, _progress(quiet)).raise_on_failed()


def _verified(name: str, path: Path, damages: list[Damage]) -> list[str]:
    from dshap.cube import cube_status, read_run

    if damages:
        return [f"{name}: {damage}" for damage in damages]
    if read_run(path) is None:
        return []
    status = cube_status(path)
    if status.is_complete:
        left = ""
    else:
        left = "; the others are left for the same run again"
    if status.failed and status.is_complete:
        left = f"; {status.failed:,} failed rows are left for the same run again"
    return [f"{name}: verified: {status.blocks_done} of {status.n_blocks} blocks finished{left}"]


def _refuse_damage(
    store: Path,
    found: dict[str, list[Damage]],
    mended: dict[str, list[Damage]],
    job_file: str | None,
) -> None:
    """Raise a `DamagedError` that says what is left to do."""
    from dshap.cube import is_left

    count = sum(map(len, found.values()))
    if not mended and count:
        raise DamagedError(
            f"{store}: {count} damaged, as named; dshap verify --repair mends what it can"
        )
    if count and job_file is not None:
        raise DamagedError(
            f"{store}: {count} damaged after repair and the job, as named, and doing both again "
            "changes nothing: "
            "remove what is named, or carry out the job into another store"
        )
    if count or (job_file is None and any(map(is_left, mended.values()))):
        raise DamagedError(
            f"{store}: what was damaged is removed: carry out the same run again to compute it"
        )
