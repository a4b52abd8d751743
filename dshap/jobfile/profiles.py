"""Profiles of clusters: the tables [cluster] and [worker] in a separate file, found by its name."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dshap.core.addresses import masked
from dshap.core.errors import InputError, shown, unknown_name
from dshap.jobfile.rooting import with_paths_from

FOLDER = "clusters"
TABLES_OF_PROFILE = ("cluster", "worker")
WITHOUT_A_FILE = ("none", "local")
"""Kinds of clusters that need no key: their names are profiles without a file."""


def profile_folders(beside: Path | None = None) -> list[Path]:
    """The folders in which profiles are looked for by name, the first that has one counts.

    `beside` is the folder of the job file.
    """
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    nearest = [folder / FOLDER for folder in (beside, Path.cwd()) if folder is not None]
    all_of_them = [*nearest, settings / "dshap" / FOLDER, Path("/etc/dshap") / FOLDER]
    return list(dict.fromkeys(all_of_them))


def read_cluster_profile(name: str, beside: Path | None = None) -> dict[str, Any]:
    """The tables of a profile, with absolute paths.

    Parameters
    ----------
    name : the name of a file NAME.toml in one of `profile_folders`, the path of a file that ends in
        .toml, or one of `WITHOUT_A_FILE`
    beside : the folder of the job file

    Raises
    ------
    InputError
        No such profile, no TOML, or other tables in it.
    """
    path = _file_of(name, beside)
    if path is None:
        return {"cluster": {"kind": name}}
    said = f"profile {path}"
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{said}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{said} is not valid TOML: {error}") from None
    for table, held in written.items():
        if table not in TABLES_OF_PROFILE:
            raise InputError(f"{said}: {unknown_name('table', table, TABLES_OF_PROFILE)}")
        if not isinstance(held, dict):
            raise InputError(f"{said}: {table} = {shown(held)}: write a table, [{table}]")
    if "kind" not in written.get("cluster", {}):
        raise InputError(f"{said}: [cluster] kind is missing")
    if "profile" in written["cluster"]:
        raise InputError(f"{said}: [cluster] profile: a profile cannot use another profile")
    try:
        return with_paths_from(written, path.parent)[0]
    except InputError as error:
        raise InputError(f"{said}: {error}") from None


def with_profile(tables: Mapping[str, Any], beside: Path | None = None) -> dict[str, Any]:
    """The tables of a job, with those of the profile that [cluster] names.

    A key of the job replaces that of the profile.
    """
    match tables:
        case {"cluster": {"profile": str(name), **own}}:
            profile = read_cluster_profile(name, beside)
        case _:
            return dict(tables)
    kind = profile["cluster"]["kind"]
    if own.get("kind", kind) != kind:
        raise InputError(
            f'[cluster] kind = "{own["kind"]}" is given beside profile = "{name}", which is of '
            "kind "
            f'"{kind}": leave one of them out'
        )
    merged = {**tables, "cluster": {**profile["cluster"], **tables["cluster"]}}
    match tables.get("worker", {}):
        case dict() as worker:
            merged["worker"] = {**profile.get("worker", {}), **worker}
    return merged


def profile_file(name: str) -> Path:
    """The file of a profile; an InputError if there is none."""
    file = _file_of(name, None)
    if file is None:
        raise InputError(f"profile {masked(name)} has no file")
    return file


def _file_of(name: str, beside: Path | None) -> Path | None:
    """The file of a profile; None for one that needs none."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise InputError(f"profile {masked(name)}: there is no such file")
        return Path(name).absolute()
    folders = profile_folders(beside)
    for folder in folders:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    if name in WITHOUT_A_FILE:
        return None
    known = {*WITHOUT_A_FILE, *_names_in(folders)}
    looked = ", ".join(map(str, folders))
    raise InputError(
        f"{unknown_name('profile', name, known)} Looked for {masked(name)}.toml in {looked}; put it there, "
        "or give the path of a file that ends in .toml"
    )


def _names_in(folders: list[Path]) -> Iterator[str]:
    for folder in folders:
        yield from (path.stem for path in folder.glob("*.toml"))
