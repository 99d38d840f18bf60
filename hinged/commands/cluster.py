"""`hinged cluster`: the servers that share a store, and who owns which model; moves one of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hinged.commands.options import asks
from hinged.commands.questions import as_lines, show, tell

if TYPE_CHECKING:
    from hinged.client.client import Client

NODES = {
    "server": lambda node: node["node"],
    "alive": lambda node: "yes" if node["alive"] else "no",
    "models": lambda node: str(node.get("models", "-")),
    "memory, MiB": lambda node: f"{node['memory_bytes'] / 2**20:.1f}" if "memory_bytes" in node else "-",
}
MODELS = {
    "model": lambda model: model["model"],
    "server": lambda model: model["owner"] or "-",
    "epoch": lambda model: str(model["epoch"]),
    "position": lambda model: str(model["position"]),
}


@click.command()
@click.option("--move", "model", metavar="MODEL", help="Let another server have a model.")
@click.option("--to", metavar="URL", help="Which; with --move.")
@as_lines
@asks
def cluster(client: Client, *, model: str | None, to: str | None, as_json: bool) -> None:
    """Show the servers that share a store, and the owner of each model."""
    if (model is None) != (to is None):
        raise click.UsageError("--move and --to go together")
    if model is not None and to is not None:
        found = client.move(model, to=to)
        tell(found, as_json, f"{model} is at {found['owner']}, position {found['position']}")
        return
    shown = client.cluster()
    if as_json or not sys.stdout.isatty():
        tell(shown, True, "")
        return
    show(shown["nodes"], False, NODES)
    show(shown["models"], False, MODELS)
