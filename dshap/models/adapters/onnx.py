"""An ONNX model as an estimator: `predict` turns arrays or data frames into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dshap.core.errors import InputError, unknown_name
from dshap.core.records import FloatArray
from dshap.models.adapters.onnx_classes import class_names

DTYPES: Mapping[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}
"""ONNX type of an input -> numpy type."""
NUMBERS = ("tensor(float)", "tensor(double)", "tensor(float16)")
PROBABILITIES = ("probabilities", "output_probability")
"""Names that converters of classifiers give to their probabilities."""
MAPS = "seq(map("
"""The type of probabilities that are a mapping for each row, from class to number, begins so."""


class OnnxModel:
    """An ONNX model, run on one thread of the processor.

    Parameters
    ----------
    content : bytes
        The content of the model file.
    output : str, optional
        Name of the output to explain, for example "probabilities".  By default it is the output
        with probabilities, or the only output that is a table of numbers.

    Raises
    ------
    InputError
        An input has a type that is not in `DTYPES`, or no single output is a table of numbers.
    """

    def __init__(self, content: bytes, output: str | None = None) -> None:
        self.content = content
        self._session: Any = None
        inputs = self.session.get_inputs()
        self.inputs = {each.name: each.type for each in inputs}
        for name, kind in self.inputs.items():
            if kind not in DTYPES:
                raise InputError(
                    f"input {name!r} of the ONNX model is of type {kind}: {', '.join(DTYPES)} are "
                    "taken"
                )
        self.is_of_columns = len(inputs) > 1
        width = inputs[0].shape[-1] if len(inputs[0].shape) == 2 else None
        if self.is_of_columns:
            self.feature_names_in_ = np.array(list(self.inputs), dtype=object)
            self.n_features_in_ = len(inputs)
        elif isinstance(width, int):
            self.n_features_in_ = width
        self.output = self._chosen(output)
        classes = class_names(content, self.output)
        if classes is not None:
            self.classes_ = np.array(classes, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the session; each process makes a new session when it needs one."""
        return {**self.__dict__, "_session": None}

    @property
    def session(self) -> Any:
        """The session of onnxruntime in this process."""
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(
                self.content, options, providers=["CPUExecutionProvider"]
            )
        return self._session

    def _chosen(self, output: str | None) -> str:
        """The name of the output to explain."""
        outputs = {each.name: each.type for each in self.session.get_outputs()}
        usable = {
            name: kind for name, kind in outputs.items() if kind in NUMBERS or kind.startswith(MAPS)
        }
        if output is not None:
            if output not in outputs:
                raise InputError(unknown_name("output", output, outputs))
            if output not in usable:
                raise InputError(
                    f"output {output!r} of the ONNX model is of type {outputs[output]}, which is "
                    f"not a table of numbers: give one of {', '.join(usable) or 'none'}"
                )
            return output
        probabilities = [name for name in usable if name in PROBABILITIES]
        if len(probabilities) == 1:
            return probabilities[0]
        if len(usable) == 1:
            return next(iter(usable))
        raise InputError(
            f"the ONNX model has the outputs {', '.join(outputs)}, of which {len(usable)} are "
            "tables of numbers: name one by output"
        )

    def predict(self, rows: Any) -> FloatArray:
        """The chosen output (n, k) as float64; a model with several inputs needs a data frame."""
        if self.is_of_columns:
            given = {
                name: _column(rows[name].to_numpy(), DTYPES[kind])
                for name, kind in self.inputs.items()
            }
        else:
            ((name, kind),) = self.inputs.items()
            given = {name: np.asarray(rows, dtype=DTYPES[kind])}
        (found,) = self.session.run([self.output], given)
        if isinstance(found, list):  # for each row a mapping from class to probability
            found = [[each[name] for name in self.classes_] for each in found]
        answer: FloatArray = np.asarray(found, dtype=np.float64)
        return answer


def _column(values: Any, dtype: Any) -> Any:
    """A column as an input (n, 1) of the model."""
    if dtype is np.str_:
        return np.array(values, dtype=object)[:, None]
    return np.asarray(values).astype(dtype)[:, None]
