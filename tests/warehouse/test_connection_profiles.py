"""ADBC connection profiles: where they are found, what is in them, what is named before opening."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.warehouse.connection_profiles import PROFILE_PATH, read_profile

PROFILE = """
profile_version = 1
driver = "adbc_driver_snowflake"
[Options]
username = "{{ env_var(DSHAP_USER) }}"
port = 443
"adbc.snowflake.sql.auth_token" = "tok-1234"
[Options.adbc.snowflake]
keep_alive = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(PROFILE_PATH, str(tmp_path))
    (tmp_path / "warehouse.toml").write_text(PROFILE)
    return tmp_path


def test_a_profile_is_found_by_its_name_and_by_its_path(folder, monkeypatch):
    monkeypatch.setenv("DSHAP_USER", "night-reader")
    profile = read_profile("warehouse")
    assert profile.driver == "snowflake"
    assert profile.options == {
        "username": "night-reader",
        "port": "443",
        "adbc.snowflake.sql.auth_token": "tok-1234",
        "adbc.snowflake.keep_alive": "true",
    }
    assert set(profile.secrets) == {"night-reader", "tok-1234"}
    assert "tok-1234" not in repr(profile)
    by_path = read_profile(str(folder / "warehouse.toml"))
    assert by_path.options == profile.options


def test_a_variable_that_is_not_set_is_named(folder, monkeypatch):
    monkeypatch.delenv("DSHAP_USER", raising=False)
    with pytest.raises(InputError, match=r"warehouse.toml: username: .* DSHAP_USER is not set"):
        read_profile("warehouse")


def test_a_missing_or_broken_profile_says_where_it_was_looked_for(folder):
    with pytest.raises(InputError, match=rf"'other' is not found in {folder}, .*: put other.toml"):
        read_profile("other")
    with pytest.raises(InputError, match="there is no such file"):
        read_profile(str(folder / "other.toml"))
    (folder / "broken.toml").write_text("driver = ")
    with pytest.raises(InputError, match=r"broken.toml: cannot be read"):
        read_profile("broken")
    (folder / "empty.toml").write_text("profile_version = 1\n[Options]\n")
    with pytest.raises(InputError, match="driver is missing"):
        read_profile("empty")
