"""`hinged reconcile`: bring a model up to date with the annotations of Label Studio."""

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
    help="Number of a Label Studio project in which MODEL is connected. May be given several times.",
)
@as_lines
@asks
def reconcile(client: Client, *, model: str, projects: tuple[int, ...], as_json: bool) -> None:
    """Bring MODEL up to date with a project of Label Studio.

    MODEL learns annotations that no webhook has brought, for example while the server was down. It corrects changed
    annotations and forgets deleted annotations. The server's settings HINGED_LABELSTUDIO_URL and
    HINGED_LABELSTUDIO_TOKEN say how to reach Label Studio.
    """
    for project in projects:
        done = client.reconcile(model, project)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in done["outcomes"].items() if count)
        tell(done, as_json, f"{model} is up to date with project {project}: {counts or 'it has no annotations'}")
