"""Class labels: any JSON string, integer or boolean. true, 1 and "1" are three labels, although True == 1 in Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from hinged import answers
from hinged.service import limits
from hinged.service.errors import Invalid

Label: TypeAlias = answers.Label

_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: json.dumps with options would make one at each call


def label_key(label: Label) -> str:
    """Return the label as JSON text, which differs for any two labels."""
    return _encode(label)


def same_label(one: Label, other: Label) -> bool:
    """Return whether two labels are the same; True and 1 are not."""
    return one is other or (type(one) is type(other) and one == other)


def score_name(label: Label) -> str:
    """Return the label as a key of `scores`: a string as it is, anything else as JSON.

    A string that looks like JSON ("1", "true", or one that begins with a quote) keeps its quotes, so that no two labels
    share a name, whatever the other classes are.
    """
    if not isinstance(label, str):
        return json.dumps(label)
    if label.startswith('"') or label in ("true", "false") or label.lstrip("-").isdigit():
        return json.dumps(label, ensure_ascii=False)
    return label


def check_label(label: Label, place: str, **details: Any) -> None:
    """Refuse a label that is too long or not valid Unicode; `place` says where in the request it stands."""
    if isinstance(label, int) and abs(label) >= 2**63:
        raise Invalid(f"{place}: an integer label may have at most 63 bits", **details)
    if isinstance(label, str) and len(label) > limits.LABEL_CHARS_MAX:
        raise Invalid(
            f"{place}: a label may have at most {limits.LABEL_CHARS_MAX} characters, got {len(label)}", **details
        )
    if isinstance(label, str) and not is_whole(label):
        raise Invalid(f"{place}: a label must be valid Unicode, got a lone surrogate", **details)


def is_whole(text: str) -> bool:
    """Return whether a text is valid Unicode: JSON may hold a lone surrogate, half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_labels(labels: Sequence[Label]) -> None:
    """Check the label of each example; most examples share a few labels."""
    try:
        for label in set(labels):  # a set takes True and 1 for the same; both are valid
            check_label(label, "")
    except Invalid:  # find the first example with an invalid label
        for index, label in enumerate(labels):
            check_label(label, f"examples[{index}].y", index=index)


class Labels:
    """The classes of a model in the order in which they came; a class's number is its index."""

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, label: Label) -> int:
        """Add a class; return its number."""
        number = self._numbers[label_key(label)] = len(self.labels)
        self.labels.append(label)
        self.names.append(score_name(label))
        return number

    def number(self, label: Label) -> int | None:
        """Return the class's number, or None for an unknown label."""
        return self._numbers.get(label_key(label))
