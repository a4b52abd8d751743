"""Addresses, like s3://bucket/table: which texts are one, and masking secrets in them and in options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from dshap.core.environment import is_shown
from dshap.core.places import BUCKETS, is_in_bucket

MASK = "***"
"""The sign that replaces a secret."""
_BUCKET = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "r2", "hdfs")
_SHOWS_USER = ("abfs", "abfss")
"""Schemes of buckets whose addresses have the name of a container in the place of a user."""
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
"""Schemes recognised if an address lost a slash, as in pathlib.Path("s3://bucket")."""
# at least two letters, as C:/ is a drive of Windows
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEMES)})(?:\+[a-z0-9]+)?:/", re.IGNORECASE)

_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/[^/]))(/.*)", re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(r"([a-z][a-z0-9+.-]+:/{1,2}[^/?#:@]*):.*@", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]+:/{1,2}[^\s/?#:@'\"]*):[^\s'\"]*@", re.IGNORECASE)
"""Pattern of the scheme and user, then the password up to the last @: passwords with @, / and # in
them are covered too."""
_KEYS = re.compile(rf"((?:{'|'.join(_BUCKET)}):/{{1,2}})[^\s/?#:@'\"]*:[^\s'\"]*@", re.IGNORECASE)
"""Pattern of the address of a bucket, then a key and its secret: the name of a key identifies its
owner, and is masked with the secret."""
_WHOLE_KEYS = re.compile(
    rf"((?:{'|'.join(_BUCKET)}):/{{1,2}})[^/?#:@]*:.*@", re.IGNORECASE | re.DOTALL
)
"""Pattern of the same in a text that is an address as a whole: the secret may contain spaces and
quotes."""
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


def is_secret(name: str) -> bool:
    """Whether an option of this name is a secret, like "adbc.snowflake.sql.auth_token"."""
    return _SECRET.search(name.replace("_", " ")) is not None or _SECRET.search(name) is not None


ENVIRONMENT = "environment"
"""The name of a table of variables, whose values are shown if `is_shown` allows it."""
_EXPORT = re.compile(r"(\bexport\s+([A-Za-z_]\w*)=).+", re.DOTALL)


def without_secret_values(value: Any) -> Any:
    """Mask secrets in a value of a job: those under a secret name, and variables of the environment."""
    match value:
        case Mapping():
            return {name: safe_value(str(name), each) for name, each in value.items()}
        case list() | tuple():
            return [without_secret_values(each) for each in value]
        case str():
            return _EXPORT.sub(_exported, value)
    return value


def safe_value(name: str, value: Any) -> Any:
    """The value of a key of a job without its secrets."""
    match value:
        case Mapping() if name == ENVIRONMENT:
            hidden = {each: MASK for each in value if not is_shown(str(each))}
            return {**value, **hidden}
        case None:
            return None
        case _ if name == ENVIRONMENT:
            return MASK
        case bool():
            return value
        case str() | int() | float() if is_secret(name):
            return MASK
    return without_secret_values(value)


def _exported(found: re.Match[str]) -> str:
    """A line of a script that sets a variable."""
    if is_shown(found[2]):
        return found[0]
    return found[1] + MASK


_QUOTED = re.compile(
    rf"((?<![a-z])(?:{_NAMES})(?:[_-]?id)?[\"']?\s*[=:]\s*)([\"'])(?:(?!\2).)+\2",
    re.IGNORECASE | re.DOTALL,
)
"""Pattern of the name of a secret and its value in quotes, as in TOML and in JSON."""


def without_quoted_secrets(text: str) -> str:
    """Mask the secrets of a setting, like worker.environment={TOKEN = "…"}."""
    return _QUOTED.sub(rf"\1\2{MASK}\2", text)


_KNOWN = "|".join((*SCHEMES, "jdbc", "redis", "tcp", "tls", "ucx", "ws", "wss"))
_NO_SLASHES = re.compile(
    rf"(?<![\w.-])((?:{_KNOWN})(?:\+[a-z0-9]+)?):(?![/\s])[^\s'\"]*@", re.IGNORECASE
)
"""Pattern of an address without slashes, like postgresql:user:password@host, up to its host."""
_NO_SCHEME = re.compile(r"(?<![:/\w])//[^\s/'\"@]*:[^\s'\"]*@")
"""Pattern of an address without a scheme, like //user:password@host, up to its host."""
_USER = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/?#@:]+)@", re.IGNORECASE)
"""Pattern of the beginning of an address with a user and no password."""
_NO_ADDRESS = re.compile(rf"(?:{_KNOWN})(?:\+[a-z0-9]+)?:(?!/)|jdbc:", re.IGNORECASE)
"""Pattern of the beginning of a text with the scheme of an address and no slash behind it, or of an
address of JDBC, whose form each driver makes up."""
_USER_AT = re.compile(r"(?![a-zA-Z]:[/\\])[^/\\\s]*:.*@", re.DOTALL)
"""Pattern of a text that begins with a user and a password, like user:password@host."""
_LIST = re.compile(rf"\s*\w+\s*=.*?(?<![\w/])(?:{_NAMES})\s*=", re.IGNORECASE | re.DOTALL)
"""Pattern of a list of options with a secret, like host=… password=… of libpq; the folders of a path,
like country=DE/token=3, are no list."""
SHOWN_OPTIONS = frozenset(
    (
        *("access_mode", "application_name", "connect_timeout", "dbname", "endpoint", "gssencmode"),
        *("host", "hostaddr", "mode", "port", "region", "sslmode", "target_session_attrs", "user"),
    )
)
"""The options of addresses whose values are shown: they describe where a server is and how to reach
it."""


def scheme_of(text: str) -> str:
    """The scheme of an address in small letters, like "s3"; empty if the text is a path."""
    found = _SCHEME.match(text) or _ONE_SLASH.match(text)
    if found:
        return found.group(1).lower()
    return ""


_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END).)*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    re.DOTALL,
)
"""Pattern of a private key in PEM text, also if its end is cut off."""


def without_secrets(text: str) -> str:
    """Mask the passwords, tokens and keys of addresses in a text: postgresql://user:***@host."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _KEYS.sub(rf"\1{MASK}@", text)
    text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _TOKEN.sub(rf"\1{MASK}@", text)
    text = _NO_SLASHES.sub(rf"\1:{MASK}@", text)
    text = _NO_SCHEME.sub(rf"//{MASK}@", text)
    return _VALUE.sub(rf"\1{MASK}", text)


def is_understood(given: str) -> bool:
    """Whether a text is a path, or an address whose parts can be identified.

    Not understood are an address without slashes (postgresql:user:password@host) or without a scheme
    (//user:password@host, user:password@host), options with an @, which may end a password, and
    lists of options (host=… password=…).
    """
    if _NO_ADDRESS.match(given):
        return False
    if scheme_of(given):
        options, at, _ = given.partition("?")[2].rpartition("@")
        is_of_password = "=" not in options and _WHOLE.match(given) is not None
        return not at or is_of_password
    if given.startswith("//"):
        return "@" not in given and "?" not in given
    return not (_USER_AT.match(given) or _LIST.match(given))


def masked(given: str) -> str:
    """Show a text that may be an address as a whole, without its secrets.

    A path is shown as it is.  Of an address its scheme, user, host and path are shown, and the names
    of its options.  Of a text that looks like an address and is not understood as one nothing is
    shown but the scheme, as any part of it may be a secret.
    """
    if not is_understood(given):
        if scheme_of(given):
            return f"{given.partition('://')[0]}://{MASK}"
        if _NO_ADDRESS.match(given):
            return f"{given.partition(':')[0]}:{MASK}"
        return MASK
    text = _WHOLE_KEYS.sub(rf"\1{MASK}@", given)
    text = _WHOLE.sub(rf"\1:{MASK}@", text)
    if "://" in text:
        text = _with_shown_options(_with_shown_user(text))
    return without_secrets(text)


def _with_shown_user(address: str) -> str:
    """Mask the user of an address without a password, which may be a token.

    The user of a database and the container of an Azure address are shown.
    """
    found = _USER.match(address)
    if found is None or found[1].partition("+")[0].lower() in (*_DATABASE, *_SHOWS_USER):
        return address
    return f"{address[: found.start(2)]}{MASK}{address[found.end(2) :]}"


def _with_shown_options(address: str) -> str:
    """Mask the values of options behind the ? that may be secrets."""
    before, mark, options = address.partition("?")
    if not mark:
        return address
    return f"{before}?{'&'.join(map(_shown_option, options.split('&')))}"


def _shown_option(option: str) -> str:
    name, equals, value = option.partition("=")
    if name.lower() in SHOWN_OPTIONS or not (name or value):
        return option
    if not equals:
        return MASK
    return f"{name}={MASK}"


def file_path(text: str) -> str:
    """The path in a file:// address of this machine; any other text unchanged."""
    found = _FILE.fullmatch(text)
    if found:
        return unquote(found.group(1))
    return text


def reason_to_refuse(text: str, noun: str) -> str:
    """The reason why a text is not a usable path, and the advice; empty if it is one.

    Parameters
    ----------
    text : a path or an address
    noun : the kind of thing at the path, "store", "table" or "file"
    """
    if "\0" in text:
        return "it contains a NUL character, which no path has: leave it out"
    if not is_understood(text):
        return (
            "it looks like an address but is not a valid one, and it is not shown because it may "
            f"contain a secret: give the {noun} as a path, which may begin with ./, or as "
            "SCHEME://HOST/NAME without secrets"
        )
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
    return f"{noun}s on {name} are not supported: {instead}"


def is_of_bucket(text: str) -> bool:
    """Whether a text is an address of an object store, a usable one or not."""
    return scheme_of(text) in _BUCKET and "://" in text


def bucket_shown(text: str) -> str:
    """An address of a bucket without all that may be credentials: user, password and options."""
    scheme, _, rest = text.partition("://")
    before, at, place = rest.rpartition("@")
    shown = re.split(r"[?#]", place)[0]
    hidden = f"{MASK}@" if at else ""
    if scheme.lower() in _SHOWS_USER and ":" not in before:
        hidden = before + at
    if not before and ":" in shown.partition("/")[0]:
        shown = MASK
    return f"{scheme}://{hidden}{shown}"


def bucket_fault(text: str, noun: str) -> str:
    """The reason why an address names no place in a bucket, and the advice; empty if it does.

    An address has no credentials: they would appear in every message, record and log.
    """
    scheme = scheme_of(text)
    if scheme not in BUCKETS:
        return f"{noun}s on {scheme} are not supported: give a folder, {OR_BUCKET}"
    bucket, _, key = text.partition("://")[2].partition("/")
    if ":" in bucket or any(sign in text for sign in "@?#"):
        return (
            f"an address of a bucket is {scheme}://BUCKET/NAME and no more: leave credentials and "
            "options out of it, and set them in the environment"
        )
    if not is_in_bucket(text) or not key.strip("/"):
        return f"it names no {noun} in a bucket: give {scheme}://BUCKET/NAME"
    if ".." in key.split("/"):
        return "it contains '..', which has no meaning in a bucket: give the name in full"
    return ""
