"""The JSON schema of job files, for editors and for programs that write them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from dshap.jobfile.described_tables import SCHEMAS
from dshap.jobfile.kinds import CODE, Kinds, Table
from dshap.jobfile.schema import SEVERAL, TABLES, Job
from dshap.jobfile.settings import TARGETS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{model}"
Schema = dict[str, Any]


def json_schema() -> Schema:
    """The JSON schema of a job file that is read as TOML.

    It knows tables, kinds, keys, types and bounds.  Rules on several keys at once, and on the
    rows, are checked by `dshap plan`.
    """
    definitions: Schema = {}
    tables = {
        name: SCHEMAS.get(name) or _of_table(name, kinds, definitions)
        for name, kinds in TABLES.items()
    }
    tables[TARGETS] = {
        "type": "object",
        "description": "Target -> the values of --target NAME: places as --set has them -> values.",
        "additionalProperties": {"type": "object"},
    }
    required = [name for name, field in Job.model_fields.items() if field.is_required()]
    return {
        "$schema": DIALECT,
        "title": "A job file of dshap",
        "type": "object",
        "properties": tables,
        "required": required,
        "additionalProperties": False,
        "$defs": definitions,
    }


class _WithDescriptions(GenerateJsonSchema):
    """A schema in which each key has the text below it in the source."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        for each in reversed(schema["cls"].__mro__):
            for name, text in _texts_of(each).items():
                if name in found.get("properties", {}):
                    found["properties"][name].setdefault("description", text)
        return found


@cache
def _texts_of(kind: type[Any]) -> dict[str, str]:
    """Field -> the text below it in the source of its class; none of a class made at run time."""
    if kind.__dict__.get("__module__", "").partition(".")[0] != "dshap":
        return {}
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    found = {}
    for field, below in pairwise(ast.parse(source).body[0].body):  # type: ignore[attr-defined]
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def _of_table(name: str, kinds: Kinds, definitions: Schema) -> Schema:
    """The schema of one table; its kinds go to the definitions."""
    known: list[Schema] = []
    for kind, record in kinds.records.items():
        title = f"{name}.{kind}".strip(".")
        definitions[title] = _of_kind(record, kinds, kind, title, definitions)
        known.append({"$ref": REFERENCE.format(model=title)})
    if kinds.takes_others:
        known.append(_of_others(kinds))
    if "profile" in kinds.base.model_fields:
        known.append(_of_profile(kinds))
    one: Schema = {"oneOf": known}
    if name in SEVERAL:
        least = int(Job.model_fields[name].is_required())
        return {"type": "array", "items": one, "minItems": least}
    return one


def _of_kind(
    record: type[Table], kinds: Kinds, kind: str, title: str, definitions: Schema
) -> Schema:
    """The schema of a table of one kind."""
    schema = record.model_json_schema(ref_template=REFERENCE, schema_generator=_WithDescriptions)
    definitions |= schema.pop("$defs", {})
    schema["title"] = title
    if not kinds.tag or not kind:
        return schema
    schema["properties"][kinds.tag] = {"const": kind}
    required = [key for key in schema.get("required", []) if key != kinds.tag]
    if kind != kinds.default:
        required = [kinds.tag, *required]
    schema["required"] = required
    return schema


def _of_others(kinds: Kinds) -> Schema:
    """The schema of a table whose kind is a class or function of the user's code."""
    return {
        "type": "object",
        "properties": {kinds.tag: {"type": "string", "pattern": CODE}},
        "required": [kinds.tag],
    }


def _of_profile(kinds: Kinds) -> Schema:
    """The schema of a table whose kind, and keys that are left out, are in a profile."""
    keys = {key for record in kinds.records.values() for key in record.model_fields}
    return {
        "type": "object",
        "properties": {key: {} for key in sorted(keys - {kinds.tag})},
        "required": ["profile"],
        "additionalProperties": False,
    }
