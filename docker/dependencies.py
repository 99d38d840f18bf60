"""Print what pyproject.toml says the server needs, one requirement a line."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
print("\n".join(project["dependencies"]))
