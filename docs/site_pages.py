"""The site of docs/ (mkdocs.yml). Documents outside of docs/ become pages too, and links lead to these pages.

In the repository, and on GitHub, links lead to the files themselves.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).parent.parent
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Their pages."""
LINK = re.compile(r"```.*?```|(!?)\[([^\]]*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)|`[^`\n]*`", re.DOTALL)
"""A link, or code, in which none is."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of folders that have many, the index first."""
    for title, folder in (("Changing it", "contributing"), ("Decisions", "adr"), ("Laboratory", "lab")):
        names = (path.name for path in (ROOT / "docs" / folder).glob("*.md"))
        pages = sorted(names, key=lambda name: (name != "index.md", name))
        config.nav.append({title: [f"{folder}/{name}" for name in pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents beside docs/."""
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  its names
    """Let each link lead to the page of its file; what the site does not have is named without a link."""
    at = page.file.src_uri
    here = next((name for name, beside in BESIDE.items() if beside == at), f"docs/{at}")

    def moved(link: re.Match[str]) -> str:
        mark, text, target, anchor = link.groups()
        if target is None:
            return link[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        page_of = BESIDE.get(place) or place.removeprefix("docs/")
        if files.get_file_from_path(page_of) is None and (ROOT / place).exists():
            return text
        return f"{mark}[{text}]({posixpath.relpath(page_of, posixpath.dirname(at) or '.')}{anchor})"

    return LINK.sub(moved, markdown)
