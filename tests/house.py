"""How the house stands: numbers of the package that a reader feels.

`python -m tests.house` prints them as a table, `--list` the docstrings and names that are counted.

Each has a bound that the tests hold it to (`tests/test_house.py`), so that none grows unseen.
"""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "dshap"
ROOM = re.compile(r"dshap(\.\w+)?")


def files() -> list[Path]:
    """All modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module; of a package with a stub that of both."""
    stub = path.with_suffix(".pyi")
    return ast.parse(path.read_text() + (stub.read_text() if stub.exists() else ""))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of a module."""
    return tuple(ast.walk(tree_of(path)))


def members(protocol: str) -> int:
    """Members of a protocol of `core/types.py` or `core/capabilities.py`, those of the protocols
    that it extends counted."""
    trees = (tree_of(PACKAGE / name) for name in ("core/types.py", "core/capabilities.py"))
    classes = {
        node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)
    }
    node = classes[protocol]
    bases = (base.id for base in node.bases if isinstance(base, ast.Name) and base.id in classes)
    return sum(isinstance(each, ast.FunctionDef | ast.AnnAssign) for each in node.body) + sum(
        map(members, bases)
    )


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """(statements, name) of every function of a module, those of functions inside it counted."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            n_statements = sum(isinstance(each, ast.stmt) for each in ast.walk(node)) - 1
            yield n_statements, f"{path.relative_to(PACKAGE)}:{node.name}"


def longest_function() -> tuple[int, str]:
    """The function with most statements, outside `loops/`."""
    outside = (path for path in files() if path.parent.name != "loops")
    return max(each for path in outside for each in functions(path))


def asked_kinds() -> int:
    """Calls of isinstance, hasattr and getattr."""
    calls = (node for path in files() for node in nodes_of(path) if isinstance(node, ast.Call))
    return sum(
        isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "hasattr", "getattr")
        for call in calls
    )


@cache
def imports(with_typing: bool = False) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, inside functions too; `with_typing` those
    that only a type checker reads as well."""
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
             for path in files()}  # fmt: skip
    out: dict[str, set[str]] = {}
    for name, path in names.items():
        found = out.setdefault(name, set())
        blocks = (node for node in nodes_of(path) if isinstance(node, ast.If))
        checking = [
            block
            for block in blocks
            if "TYPE_CHECKING" in ast.unparse(block.test) and not with_typing
        ]
        free = {id(node) for block in checking for node in ast.walk(block)}
        for node in nodes_of(path):
            if id(node) in free:
                continue
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dshap"):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {each if each in names else node.module for each in inner}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name in names}
    return out


def circles(with_typing: bool = False) -> int:
    """How many modules import themselves through others; what only `dshap/__init__` closes does not
    count."""
    graph = {
        name: targets - {"dshap", name}
        for name, targets in imports(with_typing).items()
        if name != "dshap"
    }

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(graph[start])
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += graph.get(here, ())
        return seen

    return sum(name in reaches(name) for name in graph)


FACE = {"", "api", "attributors", "cli", "designs", "jobfile", "jobs", "report", "run"}
"""Rooms that may import designs."""


def importers_of_designs() -> list[str]:
    """Modules outside attributors and the face that import designs."""
    return sorted(
        name
        for name, targets in imports().items()
        if any(target.startswith("dshap.designs") for target in targets)
        and room_of(name) not in FACE
    )


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def frames(call: Callable[[Any], Any], is_there: Callable[[str], bool]) -> int:
    """Frames of the package that stand between a call of `explain` and the first place that
    `is_there`."""
    deepest: list[int] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        if (
            event == "call"
            and not deepest
            and is_there(frame.f_code.co_filename + ":" + frame.f_code.co_name)
        ):
            stack = [each.filename for each in traceback.extract_stack(frame)]
            deepest.append(sum(str(PACKAGE) in filename for filename in stack) - 1)

    sys.setprofile(watch)
    try:
        call(None)
    finally:
        sys.setprofile(None)
    return deepest[0]


def frames_to_predict() -> int:
    """From `explain` of a black box to its evaluation on mixes of rows."""
    import numpy as np

    import dshap

    x = np.random.default_rng(0).normal(size=(20, 4))
    seen: list[int] = []

    def predict(rows: np.ndarray) -> np.ndarray:
        stack = [each.filename for each in traceback.extract_stack()]
        if any(name.endswith("masking.py") for name in stack):
            seen.append(sum(str(PACKAGE) in name for name in stack))
        return rows.sum(axis=1)

    dshap.explain(dshap.values.Marginal(predict, x), x[:3], progress=False)
    return max(seen)


def frames_to_a_loop() -> int:
    """From `explain` of a kernel model to the compiled sums over its table."""
    import numpy as np

    import dshap

    x = np.random.default_rng(0).normal(size=(60, 5))
    model = dshap.models.KernelRidge(dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(10), 1e-3).fit(
        x, x.sum(axis=1)
    )
    value = dshap.values.KernelInterventional(model, x)
    design = dshap.designs.exact(5)

    def explain(_: Any) -> None:
        dshap.explain(value, x[:3], design=design, progress=False)

    explain(None)  # imports and compiles, which would be watched for seconds
    return frames(explain, lambda place: place.endswith("member_sums.py:__call__"))


FRAGMENT = re.compile(
    r"(Of|That of|Those of|What|By what|By whom|With which|Whose|The same|From which|How many of)\b"
)
"""The first words of a docstring that has no subject."""


def prose(path: Path) -> list[ast.Constant]:
    """Strings that stand alone as statements: docstrings, and the lines under fields and
    constants."""
    alone = (node.value for node in nodes_of(path) if isinstance(node, ast.Expr))
    return [
        each for each in alone if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def fragments() -> list[str]:
    """Docstrings that open as a fragment, with their places."""
    return [
        f"{path.relative_to(PACKAGE)}:{each.lineno} {each.value.strip()[:80]}"
        for path in files()
        for each in prose(path)
        if FRAGMENT.match(each.value.strip())
    ]


def assigns_several(node: ast.AST) -> bool:
    """Whether a statement assigns several things at once from a tuple that is written there: `a, b
    = c, d`."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple)


def is_protocol(node: ast.AST) -> bool:
    """Whether a statement defines a `Protocol`."""
    if not isinstance(node, ast.ClassDef):
        return False
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def syntax() -> dict[str, int]:
    """Counts over the syntax trees of the package, `Load` and `Store` left out."""
    nodes = [
        node
        for path in files()
        for node in nodes_of(path)
        if not isinstance(node, ast.Load | ast.Store)
    ]
    ternaries = [node for node in nodes if isinstance(node, ast.IfExp)]
    nested = [
        node
        for node in ternaries
        if sum(isinstance(each, ast.IfExp) for each in ast.walk(node)) > 1
    ]
    n_statements = sum(isinstance(node, ast.stmt) for node in nodes)
    return {
        "syntax nodes": len(nodes),
        "syntax nodes in a hundred statements": round(100 * len(nodes) / n_statements),
        "assignments of several things at once": sum(map(assigns_several, nodes)),
        "ternaries": len(ternaries),
        "ternaries with another inside": len(nested),
        "fmt: skip": sum(path.read_text().count("fmt: skip") for path in files()),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "protocols": sum(map(is_protocol, nodes)),
    }


def defined_twice() -> dict[str, list[str]]:
    """Public classes and functions that several modules define -> these modules."""
    homes: dict[str, list[str]] = {}
    for path in files():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def beside_the_folders() -> list[str]:
    """Modules that lie in no room."""
    return [
        path.name for path in files() if path.parent == PACKAGE and not path.name.startswith("__")
    ]


def measured() -> dict[str, int]:
    """Name -> number, in the order of the table."""
    return {
        **syntax(),
        "docstrings that open as a fragment": len(fragments()),
        "files beside the folders": len(beside_the_folders()),
        "names that several modules define": len(defined_twice()),
        "members of ValueFunction": members("ValueFunction"),
        "members of Design": members("Design"),
        "frames from explain to a compiled loop": frames_to_a_loop(),
        "frames from explain to predict": frames_to_predict(),
        "statements of the longest function outside loops/": longest_function()[0],
        "isinstance, hasattr, getattr": asked_kinds(),
        "modules in circles": circles(),
        "modules in circles with typing imports": circles(with_typing=True),
        "modules that import designs outside attributors and the face": len(importers_of_designs()),
    }


if __name__ == "__main__":
    for name, number in measured().items():
        print(f"{number:>8,}  {name}")
    print("longest function:", longest_function()[1])
    print("importers of designs:", ", ".join(importers_of_designs()) or "none")
    if "--list" in sys.argv:
        print(*fragments(), sep="\n")
        for name, where in defined_twice().items():
            print(f"{name}: {', '.join(where)}")
