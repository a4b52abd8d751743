"""Imports point downward only: every module under dshap/ is read, and an arrow up or sideways
fails."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dshap.core import late

PACKAGE = Path(__file__).parent.parent / "dshap"
FLOORS = (
    {"core"},
    {"loops", "storage"},
    {"designs", "kernels", "predictors"},
    {"trees"},
    {"values"},
    {"attributors"},
    {"models", "discrepancy"},
    {"engine", "cube", "tables"},
    {"warehouse", "analysis"},
    {"run"},
    {"sinks", "report"},
    {"jobfile"},
    {"history", "jobinput"},
    {"seals"},
    {"steps"},
    {"erasure"},
    # the faces among them: public names of tables and core
    {"api", "jobs", "sources", "blocks", "records", "errors"},
    {"shap_compat"},
    {"cli"},
    {"", "__main__"},  # "" is dshap/__init__, which re-exports the face
)
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts} | {
    "__version__": 0
}
OWNERS = {
    "dask": {"engine"},
    "distributed": {"engine"},
    "zarr": {"cube"},
    "xarray": {"cube"},
    "obstore": {"storage"},
    "pyarrow": {"tables", "warehouse", "sinks"},
    "adbc_driver_manager": {"warehouse"},
    "deltalake": {"tables"},
    "pyiceberg": {"tables"},
    "matplotlib": {"report"},
    "altair": {"report"},
    "jinja2": {"report"},
}
"""Package -> the only folders that may import it."""
HEAVY = (*OWNERS, "pandas")


def part_of(module: str) -> str:
    """dshap.engine.plan -> engine."""
    return module.split(".")[1] if "." in module else ""


def complaints(module: str, imported: Iterable[str]) -> list[str]:
    """What is wrong with the imports of one module; `imported` are full names of modules."""
    here, found = part_of(module), []
    if here not in FLOOR_OF:
        return [f"{module}: {here!r} stands on no floor"]
    for name in imported:
        top = name.split(".")[0]
        if top != "dshap":
            if top in OWNERS and here not in OWNERS[top]:
                found.append(f"{module} imports {name}: only {', '.join(OWNERS[top])} may")
            continue
        there = part_of(name)
        if there not in FLOOR_OF:
            found.append(f"{module} imports {name}, which stands on no floor")
        elif FLOOR_OF[there] > FLOOR_OF[here]:
            found.append(
                f"{module} imports {name}: up from floor {FLOOR_OF[here]} to {FLOOR_OF[there]}"
            )
        elif FLOOR_OF[there] == FLOOR_OF[here] and there != here:
            found.append(f"{module} imports {name}: sideways on floor {FLOOR_OF[here]}")
    return found


def imports_of(
    module: str, source: str, *, is_package: bool = False, known: frozenset[str] = frozenset()
) -> list[str]:
    """Full names of all modules that the source imports, inside functions too; annotations do not
    count.

    An import under ``if TYPE_CHECKING`` or of a name that only annotations use costs nothing and
    moves nothing, but an arrow between floors counts wherever it stands: only packages of others
    are let through.
    """
    tree = ast.parse(source)
    free = _names_only_annotated(tree)
    under_checking = {id(node) for block in _type_checking_blocks(tree) for node in ast.walk(block)}
    names: list[str] = []
    for node in ast.walk(tree):
        for name, bound in _imported(node, module, is_package, known):
            is_ours = name.split(".")[0] == "dshap"
            if is_ours or (id(node) not in under_checking and bound not in free):
                names.append(name)
    return names


def _imported(
    node: ast.AST, module: str, is_package: bool, known: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """(full module name, name that it is bound to) of one statement or of a call of
    import_module("…")."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = module.split(".") if is_package else module.split(".")[:-1]
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
        for alias in node.names:
            if base == "dshap.core.late":
                yield late_package(alias.name), alias.asname or alias.name
                continue
            inner = f"{base}.{alias.name}"  # from dshap import designs is the module dshap.designs
            yield (
                (inner if inner in known | {"dshap.__version__"} else base),
                alias.asname or alias.name,
            )
    elif isinstance(node, ast.Call):
        function = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if (
            function in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), ""


def late_package(name: str) -> str:
    """The package that `dshap.core.late` has under a name."""
    return str(vars(late)[name].__name__)


def _type_checking_blocks(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from node.body


def _names_only_annotated(tree: ast.Module) -> set[str]:
    """Names that stand in annotations only, in a module whose annotations are never evaluated."""
    is_lazy = any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
    )
    annotations = [
        note
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(note, ast.AST)
    ]
    inside = {id(node) for note in annotations for node in ast.walk(note)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    annotated = {node.id for node in names if id(node) in inside}
    return annotated - {node.id for node in names if id(node) not in inside} if is_lazy else set()


def modules() -> dict[str, Path]:
    """Full name -> file of every module of the package."""
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


MODULES = modules()


def source_of(path: Path) -> str:
    """The text of a module, with that of its stub: the names of a package that are imported late."""
    stub = path.with_suffix(".pyi")
    if path == PACKAGE / "core" / "late.py" or not stub.exists():
        return path.read_text()
    return path.read_text() + stub.read_text()


@pytest.fixture(scope="module")
def imports() -> dict[str, list[str]]:
    """Module -> what it imports."""
    known = frozenset(MODULES)
    return {
        module: imports_of(
            module, source_of(path), is_package=path.name == "__init__.py", known=known
        )
        for module, path in MODULES.items()
    }


def test_imports_point_downward(imports):
    assert [each for module in imports for each in complaints(module, imports[module])] == []


FACES = ("dshap.designs.kriging", "dshap.report.pages")
"""Rooms inside rooms: others import the room itself, no module of it."""
JOINED = {"pairs", "posterior", "pilot", "findings", "tuning"}
"""The doors of the kriging tower, with its record and its numbers: all that its design joins."""


def behind_faces(module: str, imported: Iterable[str]) -> list[str]:
    """What a module outside of a room imports from behind its face."""
    return [
        f"{module} imports {name}, which lies behind {room}"
        for room in FACES
        for name in imported
        if name.startswith(f"{room}.") and not f"{module}.".startswith(f"{room}.")
    ]


def test_rooms_inside_rooms_are_entered_by_their_faces(imports):
    assert [each for module in imports for each in behind_faces(module, imports[module])] == []


def test_a_way_around_a_face_is_seen():
    inside = ["dshap.designs.kriging.pilot"]
    assert behind_faces("dshap.attributors.choice", inside) == [
        "dshap.attributors.choice imports dshap.designs.kriging.pilot, which lies behind "
        "dshap.designs.kriging"
    ]
    assert behind_faces("dshap.designs.kriging.design", inside) == []
    assert behind_faces("dshap.attributors.choice", ["dshap.designs.kriging"]) == []


def test_the_kriging_design_joins_three_doors():
    """List, posterior and pilot; priors, processes and errors lie behind the posterior."""
    room = "dshap.designs.kriging."
    imported = imports_of(f"{room}design", MODULES[f"{room}design"].read_text())
    assert {name.removeprefix(room) for name in imported if name.startswith(room)} <= JOINED


ABOVE_CUBE = ("run", "analysis", "report", "history", "steps", "jobs", "api", "cli", "shap_compat")
PLACES = {"state", "receipts", "notes", "failures", "plan.json", "prepared.json", "zarr.json"}
"""Names of rooms and files of a store, which `cube/` alone puts into paths."""


def places_in(source: str) -> set[str]:
    """Names of a store's rooms and files that a source writes out as parts of paths; a plan shows
    "state/model-*"."""
    texts = (
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in texts if text.split("/")[0] in PLACES and "*" not in text}


def test_paths_inside_a_store_are_written_in_cube_alone():
    above = {name: path for name, path in MODULES.items() if part_of(name) in ABOVE_CUBE}
    found = {name: places_in(path.read_text()) for name, path in above.items()}
    assert {name: places for name, places in found.items() if places} == {}
    assert places_in("path / 'state' / 'plan.json'; path / 'state/receipts'") == {
        "state",
        "plan.json",
        "state/receipts",
    }


PARQUET = re.compile(r"\bpq\.(ParquetFile|ParquetWriter|read_\w+|write_\w+)\(")
"""A call of pyarrow that reads or writes a Parquet file."""


def test_parquet_is_written_and_opened_in_one_place():
    """There checksums of pages are written and checked."""
    found = [name for name, path in MODULES.items() if PARQUET.search(path.read_text())]
    assert found == ["dshap.tables.checksums"]


def test_every_floor_is_there():
    """A renamed folder must be put on its floor, or the walk would watch nothing."""
    assert {part_of(module) for module in MODULES} == set(FLOOR_OF) - {"__version__"}


@pytest.mark.parametrize(
    ("module", "imported", "n_wrong"),
    [
        (
            "dshap.designs.exact",
            ["numpy", "dshap.core.errors", "dshap.core.types", "dshap.designs.coalitions"],
            0,
        ),
        ("dshap.designs.exact", ["dshap.kernels"], 1),  # sideways on floor 1
        ("dshap.values.marginal", ["dshap.models.ridge"], 1),  # sideways on floor 2
        ("dshap.values.marginal", ["dshap.kernels.product", "scipy.linalg"], 0),
        ("dshap.core.types", ["dshap.kernels"], 1),  # up
        ("dshap.core.options", ["dshap.core.errors"], 0),  # the waist is one floor without folders
        ("dshap.models.ridge", ["dshap.engine.learn"], 1),  # up
        # sideways on floor 3, twice
        ("dshap.engine.learn", ["dshap.cube.files", "dshap.tables"], 2),
        ("dshap.engine.cluster", ["dask.base", "distributed", "dshap.values"], 0),
        ("dshap.engine.cluster", ["dshap.api"], 1),  # up
        ("dshap.engine.cluster", ["dshap"], 1),  # the package itself is the face
        ("dshap.cube.reader", ["zarr", "xarray"], 0),
        ("dshap.cube.reader", ["dask.array"], 1),
        ("dshap.tables.parquet", ["pyarrow.parquet", "pandas"], 0),
        ("dshap.values.marginal", ["xarray"], 1),
        (
            "dshap.jobs.store_runs",
            ["dshap.run.explanation", "dshap.run.session", "dshap.cube", "dshap.__version__"],
            0,
        ),
        ("dshap.jobs.store_runs", ["dshap.api", "dshap.report"], 1),  # sideways on the face
        # a run is one floor without folders
        ("dshap.run.quality", ["dshap.run.explanation", "dshap.run.identity"], 0),
        ("dshap.run.quality", ["dshap.jobfile.schema", "dshap"], 2),  # up
        ("dshap.cli", ["dshap.jobs", "dshap.report", "dshap.api"], 0),
        ("dshap.shap_compat", ["dshap.cli"], 1),  # up
        ("dshap.jobs.store_runs", ["distributed"], 1),
        ("dshap.newcomer.part", ["numpy"], 1),  # no floor
        ("dshap.api", ["dshap.newcomer"], 1),
    ],
)
def test_the_rules_can_fail(module, imported, n_wrong):
    assert len(complaints(module, imported)) == n_wrong


def test_the_walk_finds_every_form_of_import():
    source = textwrap.dedent("""
        from __future__ import annotations
        import zarr.storage as zs
        from ..cube import files
        from . import plan
        from dshap import designs, __version__
        if TYPE_CHECKING:
            import pyarrow
            from dshap.api import explain
        import xarray as xr
        import distributed as dd
        def late(x: xr.Dataset) -> dd.Client:
            import dask
            importlib.import_module("pandas")
            return dd.Client()
    """)
    known = frozenset({"dshap.cube.files", "dshap.engine.plan", "dshap.designs"})
    found = imports_of("dshap.engine.run", source, known=known)
    assert sorted(found) == sorted(
        ["__future__", "zarr.storage", "dshap.cube.files", "dshap.engine.plan",
         "dshap.designs", "dshap.__version__", "dshap.api", "distributed", "dask", "pandas"]
    )  # fmt: skip
    assert imports_of("dshap.cube", "from .files import write_new", is_package=True) == [
        "dshap.cube.files"
    ]
    # evaluated
    assert imports_of("dshap.api", "import xarray as xr\ndef f(x: xr.Dataset): ...") == ["xarray"]


def loaded_after(imports: str) -> set[str]:
    """Heavy packages in sys.modules of a fresh process, dshap/__init__ (the face) not run."""
    code = f"""
        import sys, types
        parent = types.ModuleType("dshap")
        parent.__path__ = [{str(PACKAGE)!r}]
        sys.modules["dshap"] = parent
        import {imports}
        print(*[name for name in {HEAVY!r} if name in sys.modules])
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_floors_0_to_2_load_no_cluster_store_or_table_package():
    lower = [f"dshap.{part}" for parts in FLOORS[:4] for part in sorted(parts)]
    assert loaded_after(", ".join(lower)) == set()


def test_the_upper_floors_do_load_them():
    """The test above looks in the right place."""
    assert loaded_after("dshap.cube.methods") >= {"xarray"}
