# SPDX-License-Identifier: GPL-2.0-only
"""Turn parsed TOML or JSON into the dataclasses of `model`, or say what is wrong.

Nothing is coerced: a string is no number, `true` is no integer. The one
freedom is that an integer is taken where a float is wanted. Numbers are finite
and fit into 64 bits, and no key may come twice: the last one would win silently.
"""

import difflib
import json
import math
import tomllib
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = 2**63 - 1


class DecodeError(ValueError):
    """The data does not fit; the message starts with the key's path."""


def read_json(text: str) -> object:
    """Parse JSON; JSONDecodeError for what is none, DecodeError for what is not to be trusted."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (json.JSONDecodeError, DecodeError):
        raise
    except RecursionError:
        raise DecodeError("it is nested too deeply") from None
    except ValueError:  # Python's limit of digits
        raise DecodeError("a number is too long") from None


def read_toml(text: str) -> dict[str, object]:
    """Parse TOML; DecodeError for what is none."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DecodeError("it is nested too deeply") from None
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DecodeError(f"the key '{twice}' comes twice")
    return found


def suggest(word: str, choices: Iterable[str]) -> str:
    """", did you mean 'x'?" when one of the choices is close, else ""."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f", did you mean '{close[0]}'?" if close else ""


def decode(kind: type[T], data: object, *, where: str = "", strict: bool = True,
           unnamed: Collection[str] = ()) -> T:
    """Make a `kind` (a dataclass) of a mapping.

    `where` opens every message. `strict` refuses keys that the dataclass does
    not have; without it they are dropped (a record written by a later version).
    `unnamed` are keys that such a refusal does not offer, as others may not set them.
    Raises DecodeError.
    """
    if not isinstance(data, Mapping):
        raise DecodeError(f"{where or 'the data'} must be a table, not {_name(data)}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    if strict:
        _refuse_unknown(data, known, [key for key in known if key not in unnamed], where)
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, field in known.items():
        key = f"{where}.{name}" if where else name
        if name in data:
            values[name] = _value(hints[name], data[name], key, strict)
        elif not _has_default(field):
            raise DecodeError(f"{key} is missing")
    return kind(**values)


def _refuse_unknown(data: Mapping[Any, Any], known: Collection[str], offered: Collection[str],
                    where: str) -> None:
    for key in data:
        if key not in known:
            place = f" in {where}" if where else ""
            raise DecodeError(
                f"unknown key '{key}'{place}{suggest(str(key), offered)}"
                f" (known: {', '.join(offered)})"
            )


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _name(value: object) -> str:
    names = {bool: "a truth value", int: "an integer", float: "a number", str: "a string"}
    names |= {list: "a list", dict: "a table", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _value(hint: Any, value: object, key: str, strict: bool) -> Any:
    if hint is Any:
        return value
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(hint, value, key, strict)
    if origin is Literal:
        if value not in get_args(hint):
            choices = ", ".join(str(choice) for choice in get_args(hint))
            raise DecodeError(f"{key} must be one of {choices}, not {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise DecodeError(f"{key} must be a list, not {_name(value)}")
        item = get_args(hint)[0]
        return tuple(_value(item, v, f"{key}[{i}]", strict) for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise DecodeError(f"{key} must be a table, not {_name(value)}")
        return {k: _value(get_args(hint)[1], v, f"{key}.{k}", strict) for k, v in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, where=key, strict=strict)
    return _scalar(hint, value, key)


def _union(hint: Any, value: object, key: str, strict: bool) -> Any:
    """`X | None`, or the first kind that takes the value."""
    kinds = [arg for arg in get_args(hint) if arg is not type(None)]
    if value is None and len(kinds) < len(get_args(hint)):
        return None
    refusals = []
    for kind in kinds:
        try:
            return _value(kind, value, key, strict)
        except DecodeError as error:
            refusals.append(str(error))
    raise DecodeError(", or ".join(refusals))


def _scalar(kind: type, value: object, key: str) -> Any:
    wanted = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise DecodeError(f"{key} must be {wanted[kind]}, not {_name(value)}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise DecodeError(f"{key} is out of range")
    if isinstance(value, float) and not math.isfinite(value):
        raise DecodeError(f"{key} must be a finite number, not {value}")
    if isinstance(value, str) and not _whole(value):
        raise DecodeError(f"{key} has half a character in it")
    return float(value) if kind is float else value  # type: ignore[arg-type]


def _whole(text: str) -> bool:
    """Whether it can be written: JSON may hold one half of a surrogate pair."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
