"""The columns of a sink's table: their names, types and comments, and those that name a line."""

from __future__ import annotations

from collections.abc import Mapping

from dshap.core.late import pa
from dshap.core.scales import MEANINGS
from dshap.sinks.line_forms import LineForm, text_columns
from dshap.sinks.records import CubeFacts, Sink

RUN_ID = "run_id"
"""The column with the run that computed a row, or marked it deleted."""
CLASS = "class"
"""The column with the class that a line is of, or the output of a model without classes."""
REASON_TEXT = "reason_text"
"""The column with reasons in words: of the row, or of the feature that a line is of."""
DELETED = "deleted"
"""The status of lines whose key is no longer in the cube."""
TIME = pa.timestamp("us")  # PostgreSQL stores times in microseconds, and no finer
MOMENT = pa.timestamp("us", "UTC")
"""The type of times with a zone."""
KEY_TYPES = {"int64": pa.int64(), "string": pa.string(), "datetime64[ns]": TIME}
TAIL_TYPES = {
    "prediction": pa.float64(),
    "base_value": pa.float64(),
    "scale": pa.string(),
    "status": pa.string(),
    "model_version": pa.string(),
    "computed_at": MOMENT,
    "as_of": pa.date32(),
    RUN_ID: pa.string(),
}
"""Column -> its type, of the last columns of every sink."""
TAIL = tuple(TAIL_TYPES)
YIELDING = ("scale", "model_version", "computed_at", "as_of")
"""Columns that are left out if a key column has the same name."""
OF_FEATURES = {
    "feature": pa.string(),
    "value": pa.string(),
    "value_number": pa.float64(),
    "attribution": pa.float64(),
    "std_error": pa.float64(),
}
"""Column of a table with one line a feature -> its type."""
OLD_RUN_ID = "_dshap_run_id"
RENAMED: Mapping[str, str] = {OLD_RUN_ID: RUN_ID, "output": CLASS}
"""Column of a table that an earlier version made -> its name now."""

COMMENTS: Mapping[str, str] = {
    CLASS: "the class that is explained, or the output of a model without classes",
    "feature": "the column, or the group of columns, that receives the attribution",
    "value": "the value of the feature in this row, as text",
    "value_number": "the value of the feature in this row, if it is a number",
    "attribution": "the part of prediction - base_value that the feature or code receives",
    "std_error": "the standard error of the attribution; null where it is exact",
    REASON_TEXT: "the reason of this line in words",
    "rank": "1 for the strongest reason; 0 in the line of a row without a reason",
    "code": "the reason code",
    "undone": "the prediction minus the prediction without the columns of the code",
    "certainty": "whether the place is certain at 95 %, or the code cannot be told apart from others",
    "first_place": "the best place that the errors allow",
    "last_place": "the worst place that the errors allow",
    "prediction": "the prediction of the model for this row, on the scale of the line",
    "base_value": "the mean prediction over the background: the attributions add up to prediction",
    "scale": "the scale of attribution, prediction and base_value",
    "status": "ok, skipped, failed, or deleted for a key that is no longer in the cube",
    "model_version": "the version of the model, or else the digest of the method",
    "computed_at": "the start of the run that computed the row",
    "as_of": "the date of the run that wrote the line",
    RUN_ID: "the run that computed the row; a run is a line of _dshap_runs",
}
"""Column -> the comment on it, where a dictionary of columns has none."""
OF_ROWS: Mapping[str, str] = {REASON_TEXT: "the reasons of the row as a sentence"}
"""Column -> the comment on it in a table whose lines have all reasons of a row."""


def key_columns(form: LineForm, facts: CubeFacts) -> Mapping[str, str]:
    """key column -> its name in the table, with `key_` before a name that the table has itself."""
    columns = {CLASS, *_columns_of_shape(form, facts), *TAIL} - set(YIELDING)
    taken = {name.casefold() for name in columns}
    names = {name: name for name in facts.keys}
    return names | {name: f"key_{name}" for name in names if name.casefold() in taken}


def table_schema(form: LineForm, facts: CubeFacts) -> pa.Schema:
    """The names and Arrow types of the columns of a sink, in their order."""
    names = key_columns(form, facts)
    keys = [pa.field(names[name], KEY_TYPES[kind]) for name, kind in facts.keys.items()]
    of_keys = {name.casefold() for name in names.values()}
    types = {CLASS: pa.string(), **_columns_of_shape(form, facts), **TAIL_TYPES}
    others = [
        pa.field(name, kind)
        for name, kind in types.items()
        if not (name in YIELDING and name in of_keys)
    ]
    return pa.schema([*keys, *others])


def key_schema(sink: Sink, facts: CubeFacts) -> pa.Schema:
    """The columns that a line is replaced by: the keys and, in a history, the run."""
    schema = table_schema(sink.lines, facts)
    names = list(key_columns(sink.lines, facts).values())
    if sink.write == "append":
        names.append(RUN_ID)
    return pa.schema([schema.field(name) for name in names])


def primary_key(sink: Sink, facts: CubeFacts) -> list[str]:
    """The columns that name one line of a table."""
    names = list(key_columns(sink.lines, facts).values())
    if not facts.classes:  # if each row has its own class, a row that failed has none
        names.append(CLASS)
    match sink.shape:
        case "long":
            names.append("feature")
        case "top_k" | "reasons":
            names.append("rank")
    if sink.write == "append":
        names.append(RUN_ID)
    return names


def filled_columns(sink: Sink, facts: CubeFacts) -> list[str]:
    """The columns of a table that are never null: those that name a line, and its status."""
    return [*primary_key(sink, facts), "status"]


def comments_of(
    form: LineForm, facts: CubeFacts, labels: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Column of a table -> the comment on it; `labels` describe the columns of the model."""
    labels = labels or {}
    comments = COMMENTS
    if form.shape == "wide":
        comments = {**COMMENTS, **OF_ROWS}
    found = {}
    for key, name in key_columns(form, facts).items():
        found[name] = labels.get(key) or f"key of the row ({key})"
    for each in table_schema(form, facts):
        name = each.name
        if name in found:
            continue
        if name in text_columns(form):
            found[name] = f"the text of the code ({name})"
        elif name in comments:
            found[name] = comments[name]
        for start, noun in (("phi_", "attribution"), ("std_error_", "standard error")):
            feature = name.removeprefix(start)
            if form.shape == "wide" and name.startswith(start):
                found[name] = f"{noun} of {labels.get(feature) or feature}"
    if meaning := MEANINGS.get(facts.scale, ""):
        found["scale"] = f"{COMMENTS['scale']} ({facts.scale}): {meaning}"
    return {name: found[name] for name in table_schema(form, facts).names if name in found}


def _columns_of_shape(form: LineForm, facts: CubeFacts) -> Mapping[str, pa.DataType]:
    """Column -> its type, of the columns that a shape has for the features."""
    in_words = {REASON_TEXT: pa.string()} if form.in_words else {}
    if form.shape == "long":
        return OF_FEATURES
    if form.shape == "top_k":
        return {"rank": pa.int64(), **OF_FEATURES, **in_words}
    if form.shape == "reasons":
        return _columns_of_reasons(form)
    types = {f"phi_{name}": pa.float64() for name in facts.features}
    if facts.has_errors:
        types |= {f"std_error_{name}": pa.float64() for name in facts.features}
    return types | in_words


def _columns_of_reasons(form: LineForm) -> Mapping[str, pa.DataType]:
    """Column -> its type, of the columns that lines of reasons have."""
    types = {"rank": pa.int64(), "code": pa.string()}
    types |= dict.fromkeys(text_columns(form), pa.string())
    types |= {"attribution": pa.float64(), "std_error": pa.float64()}
    if form.undo:
        types["undone"] = pa.float64()
    return types | {
        "certainty": pa.string(),
        "first_place": pa.int64(),
        "last_place": pa.int64(),
    }
