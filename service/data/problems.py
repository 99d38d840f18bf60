"""Describe a problem of a body in one sentence: where it is, what is allowed, and what was got."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

GOT_CHARS_MAX, NAME_CHARS_MAX, LISTED_MAX = 80, 80, 30
"""Maximum numbers of characters of a value, of characters of a name, and of names that a message repeats. The limits
prevent clients from filling a log.
"""
UNKNOWN, MISSING = "extra_forbidden", "missing"
NO_TAG, OTHER_TAG = "union_tag_not_found", "union_tag_invalid"

Loc = tuple[int | str, ...]
_json = json.JSONEncoder(ensure_ascii=False)


def refusal(kind: str, message: str) -> PydanticCustomError:
    """Return an error that a validator raises with this message, whatever characters the message has."""
    return PydanticCustomError(kind, "{message}", {"message": message})


def first_problem(error: ValidationError, adapter: TypeAdapter[Any], skip: int = 0) -> str:
    """Return the first problem that the adapter found. skip: number of leading parts of the place that do not occur in
    the body.
    """
    problem = _telling(error.errors(include_url=False))
    loc = problem["loc"][skip:]
    if loc[:1] in (("kernel",), ("features",)):  # the next part is the type, which is not in the body
        loc = loc[:1] + loc[2:]
    return sentence_of(problem, loc, adapter)


def _telling(problems: list[Any]) -> Any:
    """Return the first problem. If a part is missing, prefer an unknown part at the same place: its name may be
    misspelt.
    """
    first = problems[0]
    if first["type"] != MISSING:
        return first
    return next((p for p in problems if p["type"] == UNKNOWN and p["loc"][:-1] == first["loc"][:-1]), first)


def sentence_of(problem: Mapping[str, Any], loc: Loc, adapter: TypeAdapter[Any]) -> str:
    """Return what is wrong, what is allowed, and what was got. loc: the place in the body."""
    if problem["type"] == UNKNOWN:
        name, of = str(loc[-1])[:NAME_CHARS_MAX], f" of {place(loc[:-1])}" if loc[:-1] else ""
        return f"unknown part {name!r}{of}{meant(name, parts_at(adapter, problem['loc'][:-1]))}"
    if problem["type"] == MISSING:
        return f"{place(loc) or 'body'} is missing"
    if problem["type"] == NO_TAG:
        return f"{place((*loc, 'type'))} is missing"
    if problem["type"] == OTHER_TAG:
        known = problem["ctx"]["expected_tags"].replace("'", "")
        tag = problem["ctx"]["tag"]
        close = get_close_matches(tag, known.split(", "), n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        return f"{place((*loc, 'type'))} must be one of {known}, got {shown(tag)}{hint}"
    return f"{place(loc) or 'body'}: {problem['msg']}, got {shown(problem['input'])}"


def meant(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: either the name that was probably meant, or all known names."""
    names = list(known)
    if name in names:  # the place has several kinds, and another kind has this part
        return "; only another solver or type has it"
    close = get_close_matches(name, names, n=1) or [other for other in names if other.lower() == name.lower()]
    if close:
        return f", did you mean {close[0]!r}?"
    return f"; allowed are {', '.join(names[:LISTED_MAX])}" if names else ""


def place(loc: Loc) -> str:
    """Return a place in a body as text, for example a.b[3]."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def shown(value: Any) -> str:
    """Return a value as JSON, cut to the maximum length in a message. Only this part of the value is read."""
    if isinstance(value, str | bytes):
        value = value[: GOT_CHARS_MAX + 1]
    got = ""
    try:
        for part in _json.iterencode(value):
            got += part
            if len(got) > GOT_CHARS_MAX:
                break
    except (TypeError, ValueError):  # bytes, or values that no client can send
        got = str(value)
    got = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in got[: GOT_CHARS_MAX + 1])
    return got if len(got) <= GOT_CHARS_MAX else got[: GOT_CHARS_MAX - 3] + "..."


@lru_cache(maxsize=128)
def parts_at(adapter: TypeAdapter[Any], loc: Loc) -> tuple[str, ...]:
    """Return the names of the parts that are allowed at a place. The place is in pydantic's form."""
    schema = _schema(adapter)
    defined = schema.get("$defs", {})
    here = [schema]
    for step in loc:
        here = list(_below(here, step, defined))
    return tuple(dict.fromkeys(name for found in _plain(here, defined) for name in found.get("properties", ())))


@lru_cache(maxsize=128)
def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    return adapter.json_schema()


def _below(schemas: list[Any], step: int | str, defined: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas one step down. If the step names no part, it is the tag of a union and selects a member, or all
    members.
    """
    plain = list(_plain(schemas, defined))
    if isinstance(step, int):
        yield from (found["items"] for found in plain if "items" in found)
        return
    parts = [found["properties"][step] for found in plain if step in found.get("properties", ())]
    tagged = [m[step] for m in (s.get("discriminator", {}).get("mapping", {}) for s in schemas) if step in m]
    if parts:
        yield from parts
    elif tagged or step in defined:
        yield from ({"$ref": tag} for tag in tagged or [f"#/$defs/{step}"])
    else:
        yield from schemas


def _plain(schemas: Iterable[Any], defined: Mapping[str, Any]) -> Iterator[Any]:
    """Yield these schemas after resolving references and unions."""
    for schema in schemas:
        if "$ref" in schema:
            yield from _plain([defined[schema["$ref"].rpartition("/")[2]]], defined)
        elif any(kind in schema for kind in ("anyOf", "oneOf")):
            yield from _plain([*schema.get("anyOf", ()), *schema.get("oneOf", ())], defined)
        else:
            yield schema
