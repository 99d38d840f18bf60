"""Choices of Label Studio. A labelling configuration uses a <Choices> tag to give a task one label; results contain the
choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from hinged.service.data.classes import Label, score_name
from hinged.service.errors import Invalid

CONFIGURATION_CHARS_MAX, TAGS_MAX = 2**18, 5_000
"""Maximum number of characters, and of tags, in a labelling configuration. This is enough for 1,024 choices of 200
characters. Reading such a configuration takes 10 ms of the event loop.
"""
SINGLE = ("single", "single-radio", "")


@dataclass(slots=True)
class Control:
    """A <Choices> tag. values: the possible choices; empty if each task brings its own choices."""

    name: str
    to: str
    values: list[str] = field(default_factory=list)


class _Controls:
    """Collects the <Choices> tags for a single label while expat parses the configuration."""

    def __init__(self) -> None:
        self.found: list[Control] = []
        self._open = False
        self._tags = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of a tag."""
        self._tags += 1
        if self._tags > TAGS_MAX:
            raise Invalid(f"a labelling configuration may have at most {TAGS_MAX} tags, got more")
        tag = tag.lower()
        if tag not in ("choices", "choice"):
            return
        given = {name.lower(): value for name, value in attributes.items()}
        if tag == "choices":
            self._open = given.get("choice", "") in SINGLE and bool(given.get("name") and given.get("toname"))
            if self._open:
                self.found.append(Control(given["name"], given["toname"].split(",")[0].strip()))
        elif self._open:
            self.found[-1].values.append(given.get("alias") or given.get("value", ""))

    def end(self, tag: str) -> None:
        """Handle the end of a tag."""
        if tag.lower() == "choices":
            self._open = False


def _refuse_declarations(*_: object) -> None:
    """Refuse declarations, because an entity could expand to any size."""
    raise Invalid("a labelling configuration must not have a <!DOCTYPE>")


def control_of(configuration: str) -> Control | None:
    """Return the first control for a single label in a labelling configuration. Return None if there is no such
    control, or if the configuration is not XML.

    Raise Invalid if parsing the configuration would keep the event loop busy for more than a few milliseconds.
    """
    if len(configuration) > CONFIGURATION_CHARS_MAX:
        raise Invalid(
            f"a labelling configuration may have at most {CONFIGURATION_CHARS_MAX} characters, got {len(configuration)}"
        )
    controls, parser = _Controls(), ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = controls.start, controls.end
    parser.StartDoctypeDeclHandler = _refuse_declarations
    try:
        parser.Parse(configuration, True)
    except (ExpatError, UnicodeEncodeError):
        return None
    return controls.found[0] if controls.found else None


def chosen(result: Sequence[Mapping[str, Any]], control: Control | None) -> str | None:
    """Return the choice that an annotation's result makes in this control. If `control` is None, the result must have
    only one control. Return None unless the result has a single choice.
    """
    by_name: dict[str, list[str]] = {}
    for region in result:
        value = region.get("value")
        choices = value.get("choices") if isinstance(value, Mapping) else None
        if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices[:2]):
            # Keep at most two choices: two already mean that there is no single label.
            by_name.setdefault(str(region.get("from_name")), []).extend(choices[:2])
    if control is not None:
        choices = by_name.get(control.name, [])
    else:
        choices = next(iter(by_name.values())) if len(by_name) == 1 else []
    return choices[0] if len(choices) == 1 else None


def label_of(choice: str, known: Sequence[Label]) -> Label:
    """Return the label of a choice. The label is the text itself, unless the text is the name of a number or boolean
    among the model's classes.
    """
    if choice in [label for label in known if isinstance(label, str)]:
        return choice
    return next((label for label in known if not isinstance(label, str) and score_name(label) == choice), choice)


def region_of(label: Label | None, control: Control, score: float) -> list[dict[str, Any]]:
    """Return a predicted label as a Label Studio result. Return an empty list if the control has no such choice."""
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
