"""`hinged cluster`: show the servers that share a store and the owner of each model, and move models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hinged.commands.balance import balance
from hinged.commands.options import asks
from hinged.commands.questions import as_lines, show, tell
from hinged.commands.raycluster import start, stop

if TYPE_CHECKING:
    from hinged.client.client import Client

NODES = {
    "server": lambda node: node["node"],
    "alive": lambda node: "yes" if node["alive"] else "no",
    "seen, s ago": lambda node: f"{node['beat_age_s']:.1f}",
    "models": lambda node: str(node.get("models", "-")),
    "loading": lambda node: str(node.get("loading", "-")),
    "memory, MiB": lambda node: _mib(node.get("memory_bytes")),
    "of": lambda node: _mib(node.get("memory_max_bytes")),
    "processors": lambda node: f"{node['load']:.2f} of {node['processors']}" if "load" in node else "-",
}
MODELS = {
    "model": lambda model: model["model"],
    "server": lambda model: model["owner"] or "-",
    "state": lambda model: model.get("state", "-"),
    "epoch": lambda model: str(model["epoch"]),
    "position": lambda model: str(model["position"]),
    "lag": lambda model: "-" if model.get("lag") is None else str(model["lag"]),
    "memory, MiB": lambda model: _mib(model.get("memory_bytes")),
    "processors": lambda model: f"{model['load']:.3f}" if "load" in model else "-",
}


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**20:.1f}"


@click.group(invoke_without_command=True)
@click.option("--move", "model", metavar="MODEL", help="Move a model to another server.")
@click.option("--to", metavar="URL", help="Which; with --move.")
@as_lines
@asks
@click.pass_context
def cluster(context: click.Context, client: Client, *, model: str | None, to: str | None, as_json: bool) -> None:
    """Show the servers that share a store, and the owner of each model."""
    if context.invoked_subcommand is not None:
        return
    if (model is None) != (to is None):
        raise click.UsageError("--move and --to must be given together")
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


for command in (balance, start, stop):
    cluster.add_command(command)
