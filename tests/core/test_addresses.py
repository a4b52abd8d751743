"""Addresses: what is one, which are taken, and that no message shows a secret of one."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dshap
from dshap.core.addresses import (
    file_path,
    masked,
    reason_to_refuse,
    scheme_of,
    without_quoted_secrets,
    without_secret_values,
    without_secrets,
)
from dshap.core.errors import InputError, shown
from dshap.sources import ParquetSource
from dshap.values import Marginal

X = np.random.default_rng(0).normal(size=(20, 3))


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("s3://bucket/a.zarr", "s3"),
        ("S3://bucket/a.zarr", "s3"),
        ("s3:/bucket/a.zarr", "s3"),  # what pathlib.Path makes of it
        ("postgresql+psycopg://u@host/db", "postgresql+psycopg"),
        ("custom://x", "custom"),
        ("file:///data/a", "file"),
        (r"C:\data\a.zarr", ""),
        ("C:/data/a.zarr", ""),
        ("C://data/a.zarr", ""),
        ("data:/a", ""),
        ("a/s3://b", ""),
        ("/data/x=1/b.parquet", ""),
    ],
)
def test_what_is_an_address(text, scheme):
    assert scheme_of(text) == scheme


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///data/a%20b.zarr", "/data/a b.zarr"),
        ("file://localhost/data/a", "/data/a"),
        ("FILE:/data/a", "/data/a"),
        ("file://other/data/a", "file://other/data/a"),
        ("/data/a%20b", "/data/a%20b"),
    ],
)
def test_files_of_this_machine_are_paths(text, path):
    assert file_path(text) == path


@pytest.mark.parametrize(
    ("text", "noun", "said"),
    [
        ("s3:/bucket/a", "store", "a text with two slashes, 's3://BUCKET/NAME'"),
        ("hdfs://bucket/a", "store", "stores on hdfs are not supported: give a folder"),
        (
            "s4://bucket/a",
            "store",
            "stores on s4 are not supported: give a folder, or an address with s3://, gs://, az://",
        ),
        ("r2://bucket/a", "table", "tables on r2 are not supported: copy it"),
        (
            "mysql+pymysql://h/a",
            "table",
            "tables on mysql are not supported: read it first, pandas.read_sql",
        ),
        (
            "https://h/a.png",
            "picture",
            "pictures on https are not supported: give a path of a file system",
        ),
        ("file://nas/a", "store", "a store of another machine: mount its folder"),
        ("a\0b", "store", "NUL"),
    ],
)
def test_what_is_refused(text, noun, said):
    assert said in reason_to_refuse(text, noun)
    assert not reason_to_refuse("/data/a", noun)
    assert not reason_to_refuse("file:///data/a", noun)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("postgresql://user:SECRET@host/db", "postgresql://user:***@host/db"),
        ("say 'mysql://u:SEC@RET/#?@h/d', then", "say 'mysql://u:***@h/d', then"),
        ("redis://:SECRET@h:6379/0", "redis://:***@h:6379/0"),
        ("no table at postgresql:u:SECRET@h/d, or", "no table at postgresql:***@h/d, or"),
        ("at //u:SECRET@h/x", "at //***@h/x"),
        ("https://h/a//b:c, me@home", "https://h/a//b:c, me@home"),
        ("postgresql:/user:SECRET@host", "postgresql:/user:***@host"),
        ("https://SECRET@github.com/a", "https://***@github.com/a"),
        ("https://h/a?sv=1&sig=SECRET&x=2", "https://h/a?sv=1&sig=***&x=2"),
        ("s3://b/k?X-Amz-Signature=SECRET", "s3://b/k?X-Amz-Signature=***"),
        ("?AWSAccessKeyId=SECRET", "?AWSAccessKeyId=***"),
        ("AccountName=a;AccountKey=SECRET==;", "AccountName=a;AccountKey=***;"),
        ("host=h user=u password=SECRET dbname=d", "host=h user=u password=*** dbname=d"),
        ("?access_token=SECRET&db_password=SECRET", "?access_token=***&db_password=***"),
        ("s3://KEYID:SECRET/+=@bucket/a", "s3://***@bucket/a"),
        ("at 'gs://KEYID:SECRET@b', then me@home", "at 'gs://***@b', then me@home"),
        ("s3:/KEYID:SECRET@bucket", "s3:/***@bucket"),
        (
            "s3://bucket/me@home:5, abfss://box@account/a",
            "s3://bucket/me@home:5, abfss://box@account/a",
        ),
        ("tcp://10.0.0.5:8786, me@home", "tcp://10.0.0.5:8786, me@home"),
        ("postgresql://user@host/db", "postgresql://user@host/db"),
        (
            "key=id, passes = 3, compass=north, design=auto",
            "key=id, passes = 3, compass=north, design=auto",
        ),
    ],
)
def test_secrets_are_masked(text, safe):
    assert without_secrets(text) == safe
    assert without_secrets(safe) == safe


@given(
    st.text(st.characters(blacklist_categories=("Cs",)), min_size=6).filter(
        lambda text: "***" not in text and text not in "no table at postgresql://me:***@host/table"
    )
)
def test_no_password_of_an_address_is_shown(password):
    """Whatever is in it, spaces, quotes, @ and / too."""
    address = f"postgresql://me:{password}@host/table"
    for told in (
        masked(address),
        shown(address),
        str(InputError(f"no table at {masked(address)}")),
    ):
        assert password not in told
        assert repr(password)[1:-1] not in told


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("postgresql://host/db?user=me&password=a b", "postgresql://host/db?user=me&password=***"),
        (
            "postgresql://host/db?password=a b&sslmode=off",
            "postgresql://host/db?password=***&sslmode=off",
        ),
        # the tail of a password was taken for the host
        ("postgresql://host:5432/db?user=me&password=a b@c", "postgresql://***"),
        ("postgresql://me:a@host/db?password=b@c", "postgresql://***"),
        ("postgresql://me:a?token=b@host", "postgresql://***"),
        ("postgresql://me:a/b?c#d@host/db", "postgresql://me:***@host/db"),
        ("https://TO?KEN@host/a", "https://***"),
        ("https://TOKEN@host/a?code=b&region=c", "https://***@host/a?code=***&region=c"),
        ("https://host/a?TOKEN", "https://host/a?***"),
        ("tls://TOKEN@host:8786", "tls://***@host:8786"),
        ("tls://10.0.0.5:8786", "tls://10.0.0.5:8786"),
        ("postgresql:me:a@host/db", "postgresql:***"),
        ("postgresql+psycopg:me:a@host/db", "postgresql+psycopg:***"),
        ("jdbc:postgresql://me:a@host/db", "jdbc:***"),
        ("//me:a@host/db", "***"),
        ("me:a b@host/db", "***"),
        ("host=h password='a b' user=me", "***"),
        ("data/country=DE/auth=1/a.parquet", "data/country=DE/auth=***"),
        ("country=DE/token=3/a.parquet", "country=DE/token=***"),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            "abfss://box@account.dfs.core.windows.net/a",
        ),
        ("abfss://box:SECRET@account/a", "abfss://***@account/a"),
        ("/data/10:15@v2.parquet", "/data/10:15@v2.parquet"),
        ("./me:a@host", "./me:a@host"),
        ("//server/share/a.parquet", "//server/share/a.parquet"),
        ("select a::int, '@' from t", "select a::int, '@' from t"),
        ("postgresql://me:a b@host/db?sslmode=off", "postgresql://me:***@host/db?sslmode=off"),
        ("s3://KEYID:a b'c@bucket/d", "s3://***@bucket/d"),
        ("duckdb:////a b/c@d.duckdb?access_mode=x", "duckdb:////a b/c@d.duckdb?access_mode=x"),
    ],
)
def test_a_whole_address_with_a_secret_behind_its_question_mark(address, safe):
    assert masked(address) == safe
    assert masked(safe) == safe


def test_values_under_the_name_of_a_secret():
    """Of variables of the environment, and of the options of other programs."""
    environment = {
        "AWS_SECRET_ACCESS_KEY": "a",
        "AZURE_STORAGE_KEY": "b",
        "PGPASSWORD": "c",
        "LC_ALL": "C",
        "inner": [{"token": "d", "tokens": "e"}],
    }
    assert without_secret_values(environment) == {
        "AWS_SECRET_ACCESS_KEY": "***",
        "AZURE_STORAGE_KEY": "***",
        "PGPASSWORD": "***",
        "LC_ALL": "C",
        "inner": [{"token": "***", "tokens": "e"}],
    }
    assert without_secret_values("token") == "token"


@pytest.mark.parametrize(
    ("setting", "safe"),
    [
        ('worker.environment={ AWS_SECRET_ACCESS_KEY = "a b", LC_ALL = "C" }',
         'worker.environment={ AWS_SECRET_ACCESS_KEY = "***", LC_ALL = "C" }'),
        ("worker.environment.PGPASSWORD='a'", "worker.environment.PGPASSWORD='***'"),
        ('explain.a.compass="north"', 'explain.a.compass="north"'),
    ],
)  # fmt: skip
def test_a_setting_with_a_secret_in_quotes(setting, safe):
    assert without_quoted_secrets(setting) == safe


def test_an_error_masks_the_messages_of_others_and_travels():
    error = InputError("driver said: cannot reach postgresql://me:SECRET@host")
    assert str(error) == "driver said: cannot reach postgresql://me:***@host"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert shown(["postgresql://me:" + "SECRET" * 20 + "@host"]) == "['postgresql://me:***@host']"


ADDRESS = "postgresql://user:SECRET@host/db"


@pytest.mark.parametrize(
    "call",
    [
        lambda place: dshap.explain(Marginal(lambda x: x[:, 0], X[:5]), X, store=place),
        lambda place: dshap.explain(Marginal(lambda x: x[:, 0], X[:5]), place),
        lambda place: dshap.prepare(Marginal(lambda x: x[:, 0], X[:5]), X, store=place),
        lambda place: dshap.open_cube(place),
        lambda place: dshap.open_prepared(place, Marginal(lambda x: x[:, 0], X[:5])),
        lambda place: ParquetSource(place),
        lambda place: ParquetSource([place]),
    ],
)
@pytest.mark.parametrize("place", [ADDRESS, Path(ADDRESS), "a\0b"])
def test_every_door_of_python_refuses_them_in_one_line(
    call, place, tmp_path, monkeypatch, in_this_process
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"not supported|NUL") as caught:
        call(place)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_address_is_taken(tmp_path, in_this_process):
    cube = dshap.explain(
        Marginal(lambda x: x[:, 0], X[:5]), X, store=f"file://{tmp_path}/a%20b.zarr"
    )
    assert (tmp_path / "a b.zarr").is_dir()
    assert dshap.open_cube(f"file://localhost{tmp_path}/a%20b.zarr").identical(cube)


def test_a_home_that_there_is_not(tmp_path):
    with pytest.raises(InputError, match="there is no such home folder"):
        dshap.open_cube("~no-such-user/a.zarr")
