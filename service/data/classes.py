"""Class labels: any JSON string, integer or boolean. true, 1 and "1" are three labels, although True == 1 in Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from hinged import answers
from hinged.service import limits
from hinged.service.errors import Invalid

Label: TypeAlias = answers.Label

_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder per call


def label_key(label: Label) -> str:
    """Return the label as JSON text. Different labels have different texts."""
    return _encode(label)


def same_label(one: Label, other: Label) -> bool:
    """Return whether two labels are the same; True and 1 are not."""
    return one is other or (type(one) is type(other) and one == other)


def score_name(label: Label) -> str:
    """Return the label as a key of `scores`. A string stays as it is; any other label becomes JSON.

    A string that looks like JSON ("1", "true", or a string that begins with a quote) keeps its quotes. No two labels
    can therefore share a name, whatever the other classes are.
    """
    if not isinstance(label, str):
        return json.dumps(label)
    if label.startswith('"') or label in ("true", "false") or label.lstrip("-").isdigit():
        return json.dumps(label, ensure_ascii=False)
    return label


def check_label(label: Label, place: str, **details: Any) -> None:
    """Refuse a label that is too long or not valid Unicode. `place` is the label's place in the request."""
    if isinstance(label, int) and abs(label) >= 2**63:
        raise Invalid(f"{place}: an integer label may have at most 63 bits", **details)
    if isinstance(label, str) and len(label) > limits.LABEL_CHARS_MAX:
        raise Invalid(
            f"{place}: a label may have at most {limits.LABEL_CHARS_MAX} characters, got {len(label)}", **details
        )
    if isinstance(label, str) and not is_whole(label):
        raise Invalid(f"{place}: a label must be valid Unicode, got a lone surrogate", **details)


def is_whole(text: str) -> bool:
    """Return whether a text is valid Unicode. JSON may contain a lone surrogate, which is half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_labels(labels: Sequence[Label]) -> None:
    """Check the label of each example. Most examples share a few labels, so each distinct label is checked once."""
    try:
        for label in set(labels):  # a set treats True and 1 as equal; both are valid
            check_label(label, "")
    except Invalid:  # find the first example with an invalid label
        for index, label in enumerate(labels):
            check_label(label, f"examples[{index}].y", index=index)


class Labels:
    """The classes of a model, in the order in which they came. The number of a class is its index."""

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def begin_with(self, labels: Sequence[Label]) -> bool:
        """Return whether these labels are the first classes, in the same order."""
        return len(labels) <= len(self) and all(map(same_label, labels, self.labels))

    def add(self, label: Label) -> int:
        """Add a class and return its number."""
        number = self._numbers[label_key(label)] = len(self.labels)
        self.labels.append(label)
        self.names.append(score_name(label))
        return number

    def number(self, label: Label) -> int | None:
        """Return the number of a class. Return None for an unknown label."""
        return self._numbers.get(label_key(label))
