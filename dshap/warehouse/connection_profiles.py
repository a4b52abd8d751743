"""ADBC connection profiles: files that name a driver and its options, secrets by the environment.

They are read here, because the driver manager treats a variable that is not set as an empty text.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dshap.core.addresses import is_secret, masked, scheme_of
from dshap.core.environment import values_in, with_environment
from dshap.core.errors import InputError

PROFILE_PATH = "ADBC_PROFILE_PATH"
"""The environment variable with the folders of profiles."""
_PREFIX = "adbc_driver_"


@dataclass(frozen=True)
class Profile:
    """A driver and its options, with the values of the environment in them."""

    name: str
    driver: str
    """The driver as the profile names it, without the prefix "adbc_driver_"."""
    options: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    """Values that no message shows."""


def read_profile(name: str) -> Profile:
    """Read the connection profile of a name, or at a path that ends in .toml.

    Raises
    ------
    InputError
        No such profile, no TOML, no driver in it, or a variable that is not set.
    """
    path = _find(name)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"connection profile {path}: cannot be read: {error}") from None
    driver = str(content.get("driver", ""))
    if not driver:
        raise InputError(f'connection profile {path}: driver is missing: write driver = "…"')
    options: dict[str, str] = {}
    secrets: list[str] = []
    for key, text in _flat(content.get("Options", {})):
        try:
            options[key] = with_environment(text)
            of_environment = values_in(text)
        except ValueError as error:
            raise InputError(f"connection profile {path}: {key}: {error}") from None
        if is_secret(key):
            secrets.append(options[key])
        elif key == "uri":  # of an address its password alone: see `databases.secrets_of`
            secrets += [each for each in of_environment if not scheme_of(each)]
        else:
            secrets += of_environment
    return Profile(name, driver.removeprefix(_PREFIX), options, tuple(filter(None, secrets)))


def _find(name: str) -> Path:
    """The file of a profile, looked for where the driver manager looks."""
    path = Path(name).expanduser()
    if path.suffix == ".toml" or path.is_absolute():
        path = path.with_suffix(".toml")
        if not path.is_file():
            raise InputError(f"connection profile {path}: there is no such file")
        return path
    for folder in _folders():
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    raise InputError(
        f"connection profile {masked(name)!r} is not found in {', '.join(map(str, _folders()))}: put "
        f"{masked(name)}.toml there, name its folder in {PROFILE_PATH}, or give the path of the file"
    )


def _folders() -> list[Path]:
    named = [Path(each) for each in os.environ.get(PROFILE_PATH, "").split(os.pathsep) if each]
    conda = os.environ.get("CONDA_PREFIX")
    if conda:
        named.append(Path(conda) / "etc" / "adbc" / "profiles")
    settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return [*named, Path(settings) / "adbc" / "profiles"]


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the options under their whole names: a table [Options.adbc] contains "adbc.…"."""
    for key, given in options.items():
        match given:
            case dict():
                yield from _flat(given, f"{prefix}{key}.")
            case bool():
                yield prefix + key, str(given).lower()
            case _:
                yield prefix + key, str(given)
