"""`hinged create`, `show`, `delete` and `finish`: commands for the life of a model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hinged.commands.options import FILE, PARTS, asks, positive
from hinged.commands.options import gamma as parsed_gamma
from hinged.commands.questions import as_lines, names, show, tell, width_of
from hinged.commands.showing import number, table
from hinged.commands.writing import PlainConsole
from hinged.solvers.core.families import KERNELS

if TYPE_CHECKING:
    from pathlib import Path

    from hinged.client.client import Client


@click.command(epilog="Example: hinged create spam --features dense --dim 57 --C 10")
@click.argument("model")
@click.option("--config", type=FILE, help="A configuration as a JSON file; options override it.")
@click.option("--features", type=click.Choice(["dense", "sparse", "named", "text"]), help="The form of x.")
@click.option("--dim", type=click.IntRange(1), help="Width of a dense or sparse x.")
@click.option(
    "--kernel",
    type=click.Choice([*KERNELS]),
    help="Its kernel; rbf, or linear for texts, unless a file says otherwise.",
)
@click.option("--gamma", type=parsed_gamma, metavar="scale|NUMBER", help="Width of the kernel.")
@click.option("--solver", metavar="NAME", help="Its solver.  [the server's choice]")
@click.option("--C", "C", type=positive, metavar="NUMBER", help="Cost of an error.  [the server's choice]")
@PARTS
@as_lines
@asks
def create(
    client: Client,
    *,
    model: str,
    config: Path | None,
    features: str | None,
    dim: int | None,
    kernel: str | None,
    gamma: float | str | None,
    solver: str | None,
    C: float | None,
    parts: tuple[tuple[str, Any], ...],
    as_json: bool,
) -> None:
    """Create MODEL. An existing model with the same configuration is kept.

    The server chooses every part that you leave out.
    """
    wanted: dict[str, Any] = {} if config is None else read_configuration(config)
    for name, options in (
        ("features", {"type": features, "dim": dim}),
        ("kernel", {"type": kernel, "gamma": gamma}),
    ):
        given = {key: value for key, value in options.items() if value is not None}
        if given:
            if "gamma" in given and "kernel" not in wanted:
                given = {"type": "rbf", **given}
            former = wanted.get(name)
            wanted[name] = {**(former if isinstance(former, dict) else {}), **given}
    wanted |= {key: value for key, value in (("solver", solver), ("C", C)) if value is not None}
    made = client.create_model(model, **{**wanted, **dict(parts)})
    has = made["configuration"]
    if made.get("state") == "waiting":
        tell(made, as_json, f"{model}: its first examples determine its features")
        return
    later = "; it answers once its solver is compiled" if "state" in made else ""
    tell(made, as_json, f"{model}: {has['solver']}, {has['kernel']['type']} kernel, {width_of(has)} features{later}")


def read_configuration(file: Path) -> dict[str, Any]:
    """Return the JSON object that a file contains."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise click.ClickException(f"{file}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.ClickException(f"{file}: expected a JSON object, found {json.dumps(found)[:40]}")
    return found


@click.command("show", epilog="Example: hinged show spam")
@click.argument("model")
@click.option("--full", is_flag=True, help="Show every default of its configuration, as JSON.")
@as_lines
@asks
def show_model(client: Client, *, model: str, full: bool, as_json: bool) -> None:
    """Show the figures of MODEL: size, accuracy, pool."""
    as_json = as_json or full
    found = client.model(model, full=full)
    if as_json or not sys.stdout.isatty():
        show([found], as_json, {})
        return
    metrics, pool, configuration = found["metrics"], found["pool"], found["configuration"]
    kernel = ", ".join(f"{key} {value}" if key != "type" else value for key, value in configuration["kernel"].items())
    figures = {
        "solver": configuration["solver"],
        "kernel": kernel,
        "features": width_of(configuration),
        "examples": f"{found['examples']:,}",
        "position": f"{found['position']:,}",
        "classes": names(found["classes"]),
        "accuracy": f"{number(metrics['accuracy'])}, of the newest 1,000 {number(metrics['accuracy_window'])}",
        **({"warning": metrics["warning"]} if metrics.get("warning") else {}),
        "points": f"{found['points']:,}, {found['support_vectors']:,} support vectors",
        "duality gap": number(found["duality_gap"]),
        "pool": f"{pool['size']:,} candidate{'' if pool['size'] == 1 else 's'}, {pool['leased']:,} leased",
        "pending": f"{found['pending']:,} predictions wait for their labels",
        "memory": f"{found['memory_bytes'] / 2**20:.1f} MiB",
        "jobs": ", ".join(f"{job['kind']} {job['progress']:.0%}" for job in found["jobs"]) or "none",
    }
    PlainConsole().print(table([model, ""], [[name, value] for name, value in figures.items()]))


@click.command(epilog="Example: hinged delete spam --yes")
@click.argument("model")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_lines
@asks
def delete(client: Client, *, model: str, yes: bool, as_json: bool) -> None:
    """Delete MODEL with all that it has learned. Only a backup can bring it back."""
    if not yes:
        if not sys.stdin.isatty():
            raise click.ClickException(f"this deletes {model} for good: confirm with --yes")
        examples = next((m.get("examples") for m in client.models() if m["model"] == model), None)
        click.confirm(f"delete {model}{'' if examples is None else f' with {examples:,} examples'}?", abort=True)
    tell(client.delete_model(model), as_json, f"{model} is deleted")


@click.command(epilog="Example: hinged finish spam --epochs 1")
@click.argument("model")
@click.option("--epochs", type=click.IntRange(0, 100), help="First learn the whole log again, this many times.")
@as_lines
@asks
def finish(client: Client, *, model: str, epochs: int | None, as_json: bool) -> None:
    """Optimise MODEL over the points that it holds until it converges. With --epochs, optimise over its whole log."""
    found = client.finish(model, epochs=epochs)
    gap = "" if found["duality_gap"] is None else f", gap {found['duality_gap']:.3g}"
    text = f"{model}: {found['steps']:,} steps, {found['support_vectors']:,} support vectors{gap}"
    why = f": points_max leaves no room for {found['missing']:,} examples that violate" if found["missing"] else ""
    tell(found, as_json, text if found["converged"] else f"{text}; not converged{why}")
