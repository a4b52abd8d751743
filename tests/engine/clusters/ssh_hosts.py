"""Two hosts on loopback: an sshd each, with its own keys, that ends with the test."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.clusters.servers import PATIENCE_S, processes

ADDRESSES = ("127.0.0.1", "127.0.0.2")
CONFIGURATION = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""
START = 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"'
"""sshd wants its folder in /run, which is not made on the machine itself."""


@dataclass(frozen=True)
class Hosts:
    """Addresses like "user@127.0.0.1:2222", and the files that let a client in."""

    names: tuple[str, ...]
    client_key: Path
    known_hosts: Path


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    """Two sshd with a host key and a client key of their own."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    for program, path in (("sshd", sshd), ("ssh-keygen", shutil.which("ssh-keygen"))):
        if path is None:
            pytest.skip(f"{program} is not installed")
    if os.geteuid() != 0:
        pytest.skip("sshd is started as root, in a mount namespace")
    for name in ("host_key", "client_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    names = []
    known = []
    with processes() as started:
        for address in ADDRESSES:
            port = _free_port(address)
            file = folder / f"sshd-{address}"
            file.write_text(CONFIGURATION.format(port=port, address=address, folder=folder))
            command = ["unshare", "--mount", "bash", "-c", START, "sshd", str(sshd), "-D", "-f"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen([*command, str(file)], **quiet))
            names.append(f"{getpass.getuser()}@{address}:{port}")
            known.append(f"[{address}]:{port} {host_key}\n")
            _await(address, port)
        (folder / "known_hosts").write_text("".join(known))
        yield Hosts(tuple(names), folder / "client_key", folder / "known_hosts")


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


def _await(address: str, port: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no sshd at {address}:{port}")
