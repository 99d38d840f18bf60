"""Print the server's requirements from pyproject.toml, for both stores and for traces, one requirement on each line."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(given: list[str]) -> Iterator[str]:
    """Replace this project's extras in a list of requirements by their requirements."""
    for requirement in given:
        own = re.fullmatch(r"hinged\[(.*)\]", requirement)
        if own is None:
            yield requirement
        else:
            for extra in own[1].split(","):
                yield from requirements(project["optional-dependencies"][extra])


print("\n".join(dict.fromkeys(requirements([*project["dependencies"], "hinged[otel,redis]"]))))
