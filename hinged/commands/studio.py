"""`hinged reconcile`: a model level with the annotations of Label Studio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hinged.commands.options import asks
from hinged.commands.questions import as_lines, tell

if TYPE_CHECKING:
    from hinged.client.client import Client


@click.command()
@click.argument("model")
@click.option(
    "--project",
    "projects",
    type=click.IntRange(0),
    multiple=True,
    required=True,
    metavar="NUMBER",
    help="Of Label Studio, where MODEL is connected; as often as needed.",
)
@as_lines
@asks
def reconcile(client: Client, *, model: str, projects: tuple[int, ...], as_json: bool) -> None:
    """Bring MODEL level with a project of Label Studio.

    Annotations that no webhook has brought, because the server was away, are learned, changed ones corrected, deleted
    ones forgotten. The server's settings say where Label Studio is: HINGED_LABELSTUDIO_URL, HINGED_LABELSTUDIO_TOKEN.
    """
    for project in projects:
        done = client.reconcile(model, project)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in done["outcomes"].items() if count)
        tell(done, as_json, f"{model} is level with project {project}: {counts or 'it has no annotations'}")
