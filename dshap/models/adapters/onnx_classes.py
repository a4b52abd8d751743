"""The names of the classes of an ONNX classifier, read from its graph of operators.

The names are an attribute of the operator that classifies, or an array from which the graph selects
the predicted label.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dshap.core.errors import InputError

ATTRIBUTES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
"""Attributes of operators that list classes."""
MAPPING = "ZipMap"
"""The operator that turns probabilities into a mapping from class to probability, for each row."""
LOOKUP = "ArrayFeatureExtractor"
"""The operator that selects an element of an array by its position."""


def class_names(content: bytes, output: str) -> tuple[str | int, ...] | None:
    """The classes of the columns of an output, in order; None if the model has no classes.

    Raises
    ------
    InputError
        The onnx package, which reads the graph, is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise InputError(
            "a model in ONNX needs the onnx package: pip install 'dshap[models]'"
        ) from error
    graph = onnx.load_from_string(content).graph
    makers = {name: node for node in graph.node for name in node.output}
    for node in _upward(makers, output):
        if node.op_type == MAPPING:
            return _listed(node)
    arrays = {each.name: each for each in graph.initializer}
    # a classifier has the predicted label as another output: its operators list the classes
    for other in graph.output:
        if other.name == output or _is_float(onnx, other):
            continue
        for node in _upward(makers, other.name):
            if named := _listed(node):
                return named
            if node.op_type == LOOKUP and node.input[0] in arrays:
                return _values(onnx, arrays[node.input[0]])
    return None


def _upward(makers: dict[str, Any], name: str) -> Iterator[Any]:
    """Yield the operators that compute a value, the last operator first."""
    waiting = [name]
    seen = {name}
    for value in waiting:
        node = makers.get(value)
        if node is None:
            continue
        yield node
        before = [each for each in node.input if each not in seen]
        seen.update(before)
        waiting += before


def _listed(node: Any) -> tuple[str | int, ...] | None:
    """The classes in the attributes of an operator; None if it has no such attribute."""
    for attribute in node.attribute:
        if attribute.name in ATTRIBUTES and attribute.strings:
            return tuple(each.decode() for each in attribute.strings)
        if attribute.name in ATTRIBUTES and attribute.ints:
            return tuple(attribute.ints)
    return None


def _values(onnx: Any, array: Any) -> tuple[str | int, ...]:
    """The elements of an array of classes."""
    found = onnx.numpy_helper.to_array(array).ravel().tolist()
    return tuple(each.decode() if isinstance(each, bytes) else each for each in found)


def _is_float(onnx: Any, output: Any) -> bool:
    """Whether an output is an array of floating-point numbers, which cannot be labels."""
    kind = output.type.tensor_type.elem_type
    return kind in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
