"""Addresses, like s3://bucket/table: which texts are one, and masking the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from dshap.core.places import BUCKETS, is_in_bucket

MASK = "***"
"""The sign that stands in place of a secret."""
_BUCKET = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "r2", "hdfs")
_DATABASE = (
    "postgresql",
    "postgres",
    "mysql",
    "mariadb",
    "mssql",
    "oracle",
    "sqlite",
    "snowflake",
    "duckdb",
)
_WEB = ("http", "https", "ftp", "sftp", "ssh")
OR_BUCKET = f"or an address with {', '.join(f'{each}://' for each in BUCKETS)}"
COPY = "copy it to a file system that every worker sees, or mount it"
TABLES: Mapping[str, str] = {
    **dict.fromkeys(_BUCKET, COPY),
    **dict.fromkeys(
        _DATABASE, "read it first, pandas.read_sql(query, connection), or export it to Parquet"
    ),
    **dict.fromkeys(_WEB, COPY),
}
"""Scheme of a table's address -> advice in the message that refuses it."""
SCHEMES = ("file", *TABLES)
"""Schemes recognised where an address lost a slash, as in pathlib.Path("s3://bucket")."""
# at least two letters, as C:/ is a drive of Windows
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEMES)})(?:\+[a-z0-9]+)?:/", re.IGNORECASE)

_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/[^/]))(/.*)", re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(r"([a-z][a-z0-9+.-]+:/{1,2}[^/?#:@]*):.*@", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]+:/{1,2}[^\s/?#:@'\"]*):[^\s'\"]*@", re.IGNORECASE)
"""Pattern of the scheme and user, then the password up to the last @: passwords with @, / and # in
them are covered too."""
_KEYS = re.compile(rf"((?:{'|'.join(_BUCKET)}):/{{1,2}})[^\s/?#:@'\"]*:[^\s'\"]*@", re.IGNORECASE)
"""Pattern of the address of a bucket, then a key and its secret: the name of a key says whose it is,
and is masked with it."""
_WHOLE_KEYS = re.compile(
    rf"((?:{'|'.join(_BUCKET)}):/{{1,2}})[^/?#:@]*:.*@", re.IGNORECASE | re.DOTALL
)
"""Pattern of the same in a text that is an address as a whole: the secret may hold spaces and quotes."""
_TOKEN = re.compile(r"(https?:/{1,2})[^\s/?#:@'\"]+@", re.IGNORECASE)
_NAMES = (
    r"pass|(?:pg)?password|passwd|passphrase|pwd|sig|signature|secret|token|credential|credentials|auth|"
    r"api_?key|access_?key|account_?key|storage_?key|secret_?key|private_?key|shared_?access_?key|shared_?access_?signature"
)
_VALUE = re.compile(
    rf"((?<![a-z])(?:[a-z0-9]+[_-])*(?:aws)?(?:{_NAMES})(?:[_-]?id)?=)[^\s&;'\"]+", re.IGNORECASE
)
"""Pattern of a secret's name and value, as in ?password=…&X-Amz-Signature=… and AccountKey=…;"""
_SECRET = re.compile(rf"(?<![a-z])(?:{_NAMES})(?![a-z])", re.IGNORECASE)


_JDBC = "jdbc:"


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret, like "adbc.snowflake.sql.auth_token"."""
    return _SECRET.search(name.replace("_", " ")) is not None or _SECRET.search(name) is not None


def without_secret_values(value: Any) -> Any:
    """Mask each text that stands under the name of a secret in a table, or in one inside of it."""
    match value:
        case Mapping():
            return {name: _hidden(str(name), each) for name, each in value.items()}
        case list() | tuple():
            return [without_secret_values(each) for each in value]
    return value


def _hidden(name: str, value: Any) -> Any:
    if is_secret(name) and isinstance(value, str):
        return MASK
    return without_secret_values(value)


_QUOTED = re.compile(
    rf"((?<![a-z])(?:{_NAMES})(?:[_-]?id)?[\"']?\s*[=:]\s*)([\"'])(?:(?!\2).)+\2",
    re.IGNORECASE | re.DOTALL,
)
"""Pattern of the name of a secret and its value in quotes, as in TOML and in JSON."""


def without_quoted_secrets(text: str) -> str:
    """Mask the secrets of a setting, like worker.environment={TOKEN = "…"}."""
    return _QUOTED.sub(rf"\1\2{MASK}\2", text)


_QUERY_VALUE = re.compile(
    rf"([?&](?:[a-z0-9]+[_-])*(?:aws)?(?:{_NAMES})(?:[_-]?id)?=)((?!\*)[^&]+)", re.IGNORECASE
)
"""Pattern of a secret behind the ? of an address that is the whole text: it ends at the next &, with
spaces and @ in it."""


def scheme_of(text: str) -> str:
    """The scheme of an address in small letters, like "s3"; empty where the text is a path."""
    found = _SCHEME.match(text) or _ONE_SLASH.match(text)
    if found:
        return found.group(1).lower()
    return ""


def without_secrets(text: str) -> str:
    """Mask the passwords, tokens and keys of addresses in a text: postgresql://user:***@host."""
    text = _KEYS.sub(rf"\1{MASK}@", text)
    text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _TOKEN.sub(rf"\1{MASK}@", text)
    return _VALUE.sub(rf"\1{MASK}", text)


def masked(given: str) -> str:
    """Mask the secrets of a text that may be an address as a whole.

    A password in it may then hold spaces and quotes.  Where an @ may belong to a secret behind the
    ?, and of an address of JDBC, whose form each driver makes up, nothing but the scheme is shown.
    """
    if given[: len(_JDBC)].lower() == _JDBC:
        return f"{_JDBC}{MASK}"
    scheme, slashes, _ = given.partition("://")
    if slashes and any("@" in found[2] for found in _QUERY_VALUE.finditer(given)):
        return f"{scheme}://{MASK}"
    text = _QUERY_VALUE.sub(rf"\1{MASK}", given)
    text = _WHOLE_KEYS.sub(rf"\1{MASK}@", text)
    return without_secrets(_WHOLE.sub(rf"\1:{MASK}@", text))


def file_path(text: str) -> str:
    """The path in a file:// address of this machine; any other text unchanged."""
    found = _FILE.fullmatch(text)
    if found:
        return unquote(found.group(1))
    return text


def reason_to_refuse(text: str, noun: str) -> str:
    """The reason why a text is not a usable path, and the advice; empty where it is one.

    Parameters
    ----------
    text : a path or an address
    noun : the kind of thing at the path, "store", "table" or "file"
    """
    if "\0" in text:
        return "it holds a NUL character, which no path has: leave it out"
    scheme = scheme_of(text)
    if not scheme or _FILE.fullmatch(text):
        return ""
    name = scheme.split("+")[0]
    if name == "file":
        return f"it names a {noun} of another machine: mount its folder, and give the path there"
    if name in BUCKETS and noun in ("store", "table"):
        return (
            f"an address of a bucket is a text with two slashes, '{name}://BUCKET/NAME': give one"
        )
    instead = {"store": f"give a folder, {OR_BUCKET}", "table": TABLES.get(name, COPY)}.get(
        noun, "give a path of a file system"
    )
    return f"{noun}s on {name} are not built yet: {instead}"


def is_of_bucket(text: str) -> bool:
    """Whether a text is an address of an object store, a usable one or not."""
    return scheme_of(text) in _BUCKET and "://" in text


def bucket_shown(text: str) -> str:
    """An address of a bucket without all that may be credentials: user, password and options."""
    scheme, _, rest = text.partition("://")
    before, at, place = rest.rpartition("@")
    shown = re.split(r"[?#]", place)[0]
    hidden = f"{MASK}@" if at else ""
    if not before and ":" in shown.partition("/")[0]:
        shown = MASK
    return f"{scheme}://{hidden}{shown}"


def bucket_fault(text: str, noun: str) -> str:
    """The reason why an address names no place in a bucket, and the advice; empty where it does.

    An address holds no credentials: they would stand in every message, record and log.
    """
    scheme = scheme_of(text)
    if scheme not in BUCKETS:
        return f"{noun}s on {scheme} are not built yet: give a folder, {OR_BUCKET}"
    bucket, _, key = text.partition("://")[2].partition("/")
    if ":" in bucket or any(sign in text for sign in "@?#"):
        return (
            f"an address of a bucket is {scheme}://BUCKET/NAME and no more: leave credentials and "
            "options out of it, and set them in the environment"
        )
    if not is_in_bucket(text) or not key.strip("/"):
        return f"it names no {noun} in a bucket: give {scheme}://BUCKET/NAME"
    if ".." in key.split("/"):
        return "it holds '..', which a bucket does not know: give the name in full"
    return ""
