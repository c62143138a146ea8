# SPDX-License-Identifier: GPL-2.0-only
"""Dataclasses as JSON that git shows well: a line for each part, nothing that is by default."""

import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from lab.core.decode import DecodeError, decode, read_json
from lab.core.errors import UsageError

T = TypeVar("T")


def read(kind: type[T], file: Path) -> T:
    """The dataclass that a file holds; UsageError when it is damaged."""
    try:
        return decode(kind, read_json(file.read_text()))
    except (json.JSONDecodeError, DecodeError) as error:
        raise UsageError(f"{file}: {error}.") from None


def as_json(kept: Any) -> str:
    """A dataclass: a line for each row of its tuples and each part of what it holds."""
    lines = []
    for field in fields(kept):
        value = _lean(getattr(kept, field.name))
        if isinstance(value, dict):
            body = ",\n".join(f"  {json.dumps(key)}: {_line(part)}" for key, part in value.items())
            lines.append(f" {json.dumps(field.name)}: {{\n{body}\n }}")
        elif isinstance(value, list) and value:
            body = ",\n".join(f"  {_line(part)}" for part in value)
            lines.append(f" {json.dumps(field.name)}: [\n{body}\n ]")
        else:
            lines.append(f" {json.dumps(field.name)}: {_line(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: object) -> str:
    """Numbers are whole: rounded, some would read otherwise than in the report."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _lean(value: Any) -> Any:
    """For JSON, without fields that are as they are by default."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _lean(own) for field in fields(value)
                if (own := getattr(value, field.name)) != _default(field)}
    if isinstance(value, dict):
        return {key: _lean(one) for key, one in value.items()}
    return [_lean(one) for one in value] if isinstance(value, tuple | list) else value


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
