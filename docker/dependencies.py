"""Print what pyproject.toml says the server on either store needs, traces included, one requirement a line."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(given: list[str]) -> Iterator[str]:
    """These, with our own extras replaced by what they hold."""
    for requirement in given:
        own = re.fullmatch(r"hinged\[(.*)\]", requirement)
        if own is None:
            yield requirement
        else:
            for extra in own[1].split(","):
                yield from requirements(project["optional-dependencies"][extra])


print("\n".join(dict.fromkeys(requirements([*project["dependencies"], "hinged[otel,redis]"]))))
