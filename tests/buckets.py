"""Object stores for tests: S3 by moto in this process, with errors and delays on request."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import os
import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

import pytest

BUCKET = "attributions"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The account of every azurite, and its key, as its makers publish them."""
CHANGES = ("PUT", "POST", "DELETE")
"""Methods of requests that change an object."""
SECRET = "s3cretOfTheTests"
"""The secret key of the tests, which stands in no message."""


@dataclass
class Service:
    """A running service that speaks S3, and what it does wrong."""

    url: str = ""
    rate: float = 0.0
    """The share of requests that are answered by an error, or late."""
    is_conditional: bool = True
    """Whether it obeys If-None-Match."""
    compares: bool = True
    """Whether it obeys If-Match."""
    is_closed: bool = False
    """Whether it refuses all credentials, and shows them."""
    delay_s: float = 0.2
    n_requests: int = 0
    n_faults: int = 0
    n_changes: int = 0
    """The number of requests that change an object."""
    strike: Callable[[], bool] = lambda: False
    """Called at each of them; where it gives True, the request is answered by an error, undone."""
    asked: Counter[str] = field(default_factory=Counter)
    """Request, such as "GET team/cube/zarr.json" or "LIST team/cube/", -> how often it came."""
    _random: random.Random = field(default_factory=lambda: random.Random(0))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a process reaches it."""
        return {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def note(self, environ: dict[str, Any]) -> None:
        """Count a request by its kind and its object."""
        method = environ["REQUEST_METHOD"]
        key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").lstrip("/")
        query = parse_qs(environ.get("QUERY_STRING", ""))
        if "list-type" in query:
            method = "LIST"
            key = query.get("prefix", [""])[0]
        with self._lock:
            self.asked[f"{method} {key}"] += 1

    @contextlib.contextmanager
    def striking(self, strike: Callable[[], bool]) -> Iterator[None]:
        """Call a function at each request that changes an object, while the block goes on."""
        before = self.strike
        self.strike = strike
        try:
            yield
        finally:
            self.strike = before

    def refuses_change(self, method: str) -> bool:
        """Count a request that changes an object, and say whether it is to fail."""
        if method not in CHANGES:
            return False
        with self._lock:
            self.n_changes += 1
            return self.strike()

    def fault(self) -> str:
        """What goes wrong with the next request: "", "late", "before" or "after" it is done."""
        with self._lock:
            self.n_requests += 1
            if self._random.random() >= self.rate:
                return ""
            self.n_faults += 1
            return self._random.choice(["late", "before", "before", "after"])


@contextlib.contextmanager
def running_s3() -> Iterator[Service]:
    """A service on loopback with an empty bucket, ended with the block."""
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server")
    serving = pytest.importorskip("werkzeug.serving")
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    service = Service()
    app = server.DomainDispatcherApplication(server.create_backend_app)
    httpd = serving.make_server("127.0.0.1", 0, _faulty(app, service), threaded=True)
    service.url = f"http://127.0.0.1:{httpd.port}"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        with mock.patch.dict(os.environ, service.environment):
            reset = urllib.request.Request(f"{service.url}/moto-api/reset", method="POST")
            urllib.request.urlopen(reset, timeout=30).close()  # all of a process are one to moto
            boto3.client("s3", endpoint_url=service.url).create_bucket(Bucket=BUCKET)
        yield service
    finally:
        httpd.shutdown()
        thread.join(10)


@contextlib.contextmanager
def running_azure() -> Iterator[dict[str, str]]:
    """Azurite on loopback with an empty container, by the variables of its environment."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not installed (npm install -g azurite)")
    pytest.importorskip("obstore")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    server = subprocess.Popen([program, *place, *options], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    try:
        _await_port(port)
        with urllib.request.urlopen(_new_container(url), timeout=30):
            pass
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
            "AZURE_STORAGE_ENDPOINT": url,
        }
    finally:
        server.terminate()
        server.wait(30)


def _await_port(port: int, patience_s: float = 60.0) -> None:
    """Return once a port of this machine answers."""
    end = time.monotonic() + patience_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _new_container(url: str) -> urllib.request.Request:
    """The signed request that makes the container of the tests."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
    sent = "".join(f"{name}:{given}\n" for name, given in headers.items())
    path = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = f"PUT{12 * chr(10)}{sent}{path}".encode()
    digest = hmac.new(base64.b64decode(AZURE_KEY), text, hashlib.sha256).digest()
    signed = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    return urllib.request.Request(
        f"{url}/{BUCKET}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": signed, "Content-Length": "0"},
    )


def _faulty(app: Any, service: Service) -> Callable[..., Iterable[bytes]]:
    """The application with the faults of a service."""

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if not service.is_conditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if not service.compares:
            environ.pop("HTTP_IF_MATCH", None)
        if service.is_closed:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [f"<Error><Code>InvalidAccessKeyId</Code><Key>{SECRET}</Key></Error>".encode()]
        service.note(environ)
        if service.refuses_change(environ["REQUEST_METHOD"]):
            return _broken(start)
        fault = service.fault()
        if fault == "late":
            time.sleep(service.delay_s)
        if fault == "before":
            return _broken(start)
        if fault == "after":
            with contextlib.closing(_Kept(app, environ)):
                return _broken(start)
        found: Iterable[bytes] = app(environ, start)
        return found

    return answer


class _Kept:
    """A request that is carried out, and whose answer is thrown away."""

    def __init__(self, app: Any, environ: dict[str, Any]) -> None:
        self._body = app(environ, lambda *_: None)
        for _ in self._body:
            pass

    def close(self) -> None:
        if hasattr(self._body, "close"):
            self._body.close()


def _broken(start: Any) -> list[bytes]:
    start("503 Slow Down", [("Content-Type", "application/xml")])
    return [
        b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    ]
