"""The messages of `hinged consume`: a message as an example, and a message that cannot be learned as a dead letter."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hinged.commands.broker import Message
from hinged.extras import needed
from hinged.readers import UnreadableRow
from hinged.readers.lines import json_of

CONFLUENT_BYTES = 5
"""Length of Confluent's header before a message in Avro: a zero byte, and the id of the schema."""


class Fields:
    """The fields of a message that are the id, the label and the features of its example.

    Parameters
    ----------
    id : field of the id. None: the field `id`, or else the place of the message.
    label : field of the label. A message without a label is predicted.
    features : fields of x. Empty: all other fields except `drop`.
    kind : kind of the model's features, None if messages have the form that the server takes.
    """

    def __init__(
        self, id: str | None, label: str | None, features: Sequence[str], drop: Sequence[str], kind: str | None  # noqa: A002
    ) -> None:  # fmt: skip
        self._id, self._label, self._features, self._kind = id or "id", label, features, kind
        self._out = {self._id, label, *drop}
        self._needs_id = id is not None

    def example(self, message: Message, value: Any) -> dict[str, Any]:
        """Return the example of a message. Raise UnreadableRow if the message has no id or another form."""
        if not isinstance(value, dict):
            raise UnreadableRow(message.place, f"expected an object, found {str(value)[:60]}")
        given = value.get(self._id)
        if given in (None, ""):
            if self._needs_id or message.id is None:
                raise UnreadableRow(message.place, "the id is missing, and --id NAME names its field", column=self._id)
            given = message.id
        given = given if isinstance(given, str) else json.dumps(given)
        if self._kind is None:
            return {
                **{name: part for name, part in value.items() if name != self._id and part is not None},
                "id": given,
            }
        label = None if self._label is None else value.get(self._label)
        return {"id": given, "x": self._x(message, value), **({} if label is None else {"y": label})}

    def _x(self, message: Message, value: Mapping[str, Any]) -> Any:
        names = self._features or [name for name in value if name not in self._out]
        if self._kind == "named":
            return {name: value[name] for name in names if value.get(name) is not None}
        values = [value.get(name) for name in names]
        if self._kind == "text":
            if len(values) != 1:
                raise UnreadableRow(
                    message.place, f"the model learns from one text, found the fields {', '.join(names)}"
                )
            return values[0]
        return values


def dead_letter(message: Message, reason: str) -> bytes:
    """Return a message that cannot be learned, with its place and the reason. Bytes that are no text are in base64."""
    try:
        body = {"message": message.body.decode()}
    except UnicodeDecodeError:
        body = {"base64": base64.b64encode(message.body).decode()}
    return json.dumps({"place": str(message.place), "reason": reason, **body}, ensure_ascii=False).encode()


def reader(fields: Fields, schema: Path | None, *, confluent: bool = False) -> Callable[[Message], dict[str, Any]]:
    """Return the function that reads the example of a message: JSON, or Avro by a schema. confluent: whether
    Confluent's header stands before the Avro.
    """
    if schema is None:
        decode: Callable[[bytes], Any] = json_of
    else:
        with needed("consume", "--schema"):
            import fastavro  # noqa: PLC0415

        try:
            parsed = fastavro.schema.load_schema(str(schema))
        except Exception as error:
            raise click.BadParameter(f"{schema} is no Avro schema: {error}", param_hint="'--schema'") from error

        def decode(body: bytes) -> Any:
            if confluent:
                if len(body) < CONFLUENT_BYTES or body[0] != 0:
                    raise ValueError(f"the header of Confluent is missing, found {body[:CONFLUENT_BYTES].hex(' ')}")
                body = body[CONFLUENT_BYTES:]
            return fastavro.schemaless_reader(io.BytesIO(body), parsed, None)

    def read(message: Message) -> dict[str, Any]:
        try:
            value = decode(message.body)
        except Exception as error:
            form = "JSON" if schema is None else "Avro of this schema"
            raise UnreadableRow(message.place, f"expected {form}: {error}") from error
        return fields.example(message, value)

    return read
