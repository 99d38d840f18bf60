"""Choices of Label Studio: the control of a labelling configuration by which a task gets one label, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from hinged.service.data.classes import Label, score_name

SINGLE = ("single", "single-radio", "")


@dataclass(slots=True)
class Control:
    """A <Choices> tag. values: what can be chosen; none where they come from the task."""

    name: str
    to: str
    values: list[str] = field(default_factory=list)


class _Controls(HTMLParser):
    """The <Choices> of one label each. A reader of HTML does for it: names are wanted alone, and no entity grows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Control] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "choices":
            self._open = given.get("choice", "") in SINGLE and bool(given.get("name") and given.get("toname"))
            if self._open:
                self.found.append(Control(given["name"], given["toname"].split(",")[0].strip()))
        elif tag == "choice" and self._open:
            self.found[-1].values.append(given.get("alias") or given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "choices":
            self._open = False


def control_of(configuration: str) -> Control | None:
    """The first control of a labelling configuration that gives one label; None where there is none."""
    reader = _Controls()
    reader.feed(configuration)
    reader.close()
    return reader.found[0] if reader.found else None


def chosen(result: Sequence[Mapping[str, Any]], control: Control | None) -> str | None:
    """What an annotation's result chooses in this control, or in its only one; None where it is not one thing."""
    by_name: dict[str, list[str]] = {}
    for region in result:
        value = region.get("value")
        choices = value.get("choices") if isinstance(value, Mapping) else None
        if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
            by_name.setdefault(str(region.get("from_name")), []).extend(choices)
    if control is not None:
        choices = by_name.get(control.name, [])
    else:
        choices = next(iter(by_name.values())) if len(by_name) == 1 else []
    return choices[0] if len(choices) == 1 else None


def label_of(choice: str, known: Sequence[Label]) -> Label:
    """The label of a choice: the text itself, unless it names a number or a boolean that the model knows."""
    if choice in [label for label in known if isinstance(label, str)]:
        return choice
    return next((label for label in known if not isinstance(label, str) and score_name(label) == choice), choice)


def region_of(label: Label | None, control: Control, score: float) -> list[dict[str, Any]]:
    """A predicted label as a result; empty where it is none that could be chosen."""
    choice = label if isinstance(label, str) or label is None else score_name(label)
    if choice is None or (control.values and choice not in control.values):
        return []
    return [
        {
            "from_name": control.name,
            "to_name": control.to,
            "type": "choices",
            "value": {"choices": [choice]},
            "score": score,
        }
    ]
