"""Class labels: any JSON string, integer or boolean. true, 1 and "1" are three labels, whatever Python thinks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from hinged import answers
from hinged.service import limits
from hinged.service.errors import Invalid

Label: TypeAlias = answers.Label

_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: json.dumps makes one for each call


def label_key(label: Label) -> str:
    """The label as JSON text: what tells labels apart."""
    return _encode(label)


def same_label(one: Label, other: Label) -> bool:
    """Whether two labels are one: True is not 1."""
    return one is other or (type(one) is type(other) and one == other)


def score_name(label: Label) -> str:
    """The label as a key of `scores`: a string as it is, anything else as JSON.

    A string that looks like JSON itself ("1", "true", or one that begins with a quote) keeps its quotes, so that no two
    labels share a name, whatever other classes there are.
    """
    if not isinstance(label, str):
        return json.dumps(label)
    if label.startswith('"') or label in ("true", "false") or label.lstrip("-").isdigit():
        return json.dumps(label, ensure_ascii=False)
    return label


def check_label(label: Label, place: str, **details: Any) -> None:
    """Refuse a label that is too long, or no Unicode; `place` says where in the request it stands."""
    if isinstance(label, int) and abs(label) >= 2**63:
        raise Invalid(f"{place}: an integer label has at most 63 bits", **details)
    if isinstance(label, str) and len(label) > limits.LABEL_CHARS_MAX:
        raise Invalid(f"{place}: a label has at most {limits.LABEL_CHARS_MAX} characters, got {len(label)}", **details)
    if isinstance(label, str) and not is_whole(label):
        raise Invalid(f"{place}: a label is made of whole characters, got half of one", **details)


def is_whole(text: str) -> bool:
    """Whether a text is made of whole characters: JSON may hold one half of two."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_labels(labels: Sequence[Label]) -> None:
    """The same of each example's label, of which most are one of a few."""
    try:
        for label in set(labels):  # True is 1, but both are labels
            check_label(label, "")
    except Invalid:  # which is the first?
        for index, label in enumerate(labels):
            check_label(label, f"examples[{index}].y", index=index)


class Labels:
    """The classes of a model in the order in which they came; a class's number is its place."""

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, label: Label) -> int:
        """Number the next class."""
        number = self._numbers[label_key(label)] = len(self.labels)
        self.labels.append(label)
        self.names.append(score_name(label))
        return number

    def number(self, label: Label) -> int | None:
        """The class's number, None if it has none yet."""
        return self._numbers.get(label_key(label))
