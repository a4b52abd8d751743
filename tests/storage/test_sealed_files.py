"""A file is whole or not there, whoever dies when; the second writer of a name finds it taken."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dshap.core.errors import DamagedError
from dshap.core.records import State
from dshap.cube import verify_cube
from dshap.storage.folder import Folder
from dshap.storage.sealed_files import ReceiptFolder, StateFolder

KILLERS = {
    "before anything is filled": """
        def dying_open(*args, **options):
            real_open(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)
        import dshap.storage.disk_files as files
        real_open, files.open = open, dying_open
    """,
    "filled, not yet on disk": "os.fsync = die",
    "on disk, not yet linked": "os.link = die",
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", KILLERS)
def test_a_process_killed_while_it_writes_leaves_no_false_mark(tmp_path, moment):
    """SIGKILL, for real, in the middle of put_new: the name does not exist, and the next run
    creates it whole."""
    folder = ReceiptFolder(tmp_path)
    code = f"""
        import os, signal
        from pathlib import Path
        from dshap.storage.sealed_files import ReceiptFolder
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        {textwrap.indent(textwrap.dedent(KILLERS[moment]), " " * 8).strip()}
        ReceiptFolder({str(tmp_path)!r}).put("block-00000000", {{"block": 0}})
        print("not killed")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert run.stdout == "", run.stderr
    left = list(tmp_path.iterdir())
    # what it wrote privately is there, and is no mark
    assert len(left) == 1
    assert left[0].name.startswith(".")
    assert not folder.has("block-00000000")
    assert list(folder.names()) == []
    assert folder.put("block-00000000", {"block": 0}) is True
    assert list(folder.names()) == ["block-00000000"]
    assert folder.get("block-00000000") == {"block": 0}


@pytest.mark.slow
def test_killed_just_after_the_link_the_mark_is_whole(tmp_path):
    code = f"""
        import os, signal
        from pathlib import Path
        from dshap.storage.folder import Folder
        link = os.link
        def link_and_die(*args):
            link(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        os.link = link_and_die
        Folder({str(tmp_path)!r}).put_new("mark", b"whole")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert run.returncode == -signal.SIGKILL
    assert (tmp_path / "mark").read_bytes() == b"whole"
    assert Folder(tmp_path).put_new("mark", b"other") is False


def test_the_second_writer_finds_it_taken(tmp_path):
    path = tmp_path / "new folder" / "mark"
    folder = Folder(path.parent)
    assert folder.put_new("mark", b"first") is True
    assert folder.put_new("mark", b"second") is False
    assert path.read_bytes() == b"first"
    assert [entry.name for entry in path.parent.iterdir()] == ["mark"]


def test_of_many_writers_at_once_one_wins(tmp_path):
    """Whatever is there is one writer's content, whole."""
    contents = [bytes([65 + i]) * 100_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: Folder(tmp_path).put_new("mark", content), contents))
    assert sum(won) == 1
    assert (tmp_path / "mark").read_bytes() == contents[won.index(True)]
    assert os.listdir(tmp_path) == ["mark"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        Folder(tmp_path).put_new("mark", b"x")
    assert os.listdir(tmp_path) == []


def test_states_are_arrays_that_numpy_opens(tmp_path):
    states = StateFolder(tmp_path)
    record = State({"weights": np.arange(6.0).reshape(2, 3), "names": np.array(["a", "ü"])})
    states.put("moments-1", record)
    states.put("moments-1", State({"weights": np.zeros(1)}))  # taken: left as it is
    assert states.get("moments-1", State).digest() == record.digest()
    assert list(states.names()) == ["moments-1"]
    with np.load(tmp_path / "moments-1.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["weights"], record["weights"])
    states.remove("moments-1")
    states.remove("moments-1")
    assert not states.has("moments-1")


def test_names_of_a_folder_that_is_not_there(tmp_path):
    assert list(ReceiptFolder(tmp_path / "nothing").names()) == []


def sealed_archive(
    states: StateFolder, name: str, entries: dict[str, bytes], compression: int
) -> None:
    """A file that is sealed as dshap seals, with entries that another program made."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)

    class Made(State):
        def to_bytes(self) -> bytes:
            return buffer.getvalue()

    states.put(name, Made({}))


def header_of(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


LARGE = {
    "more than the file": ({"w.npy": header_of((1 << 32,))}, zipfile.ZIP_STORED, r"'w.npy' states more bytes"),
    "together": (
        {name: header_of((40,)) for name in ("a.npy", "b.npy", "c.npy")}, zipfile.ZIP_STORED, "'c.npy' states"
    ),
    "compressed": ({"w.npy": header_of((1 << 17,)) + bytes(1 << 20)}, zipfile.ZIP_DEFLATED, "'w.npy' is compressed"),
    "no array": ({"w.npy": b"nothing"}, zipfile.ZIP_STORED, "it is not a record of arrays"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LARGE)
def test_a_state_that_says_it_holds_more_than_its_file_is_not_loaded(tmp_path, kind, monkeypatch):
    """34 GB were asked of the system for a file of a kilobyte."""
    entries, compression, said = LARGE[kind]
    states = StateFolder(tmp_path / "state")
    states.put("base-1", State({"sum": np.zeros(3)}))
    sealed_archive(states, "moments-1", entries, compression)
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(DamagedError, match=rf"moments-1.npz is damaged \(.*{said}"):
        states.get("moments-1", State)
    (damage,) = (own for own in verify_cube(tmp_path) if "moments-1" in str(own))
    assert str(damage).startswith("state moments-1: ")
