"""`hinged replay`: stream the rows of a file into a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click
import httpx

from hinged.client.client import HingedError
from hinged.commands.rows import PlacedExample
from hinged.commands.stream import (
    Waiting,
    await_model,
    say,
    show_curl,
    show_table,
    stream_and_finish,
)
from hinged.readers import STOP, BadRows, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from hinged.client.client import Client
    from hinged.readers.base import Example, Source


def replay(
    client: Client,
    source: Source,
    held_out: Source | None,
    options: Any,
    console: Console,
    bad_rows: BadRows = STOP,
) -> None:
    """Create the model if needed, stream the file, finish, and print the result.

    options: the options of the command; `prefix`, of generated ids; `given`, the names of the options that the user
    gave, and with which an existing model must agree.
    """
    first = next(iter(source), None)
    if first is None:
        raise click.ClickException(f"{source.name} holds no examples")
    for note in source.notes:
        say(console, note)
    await_server(client, console)
    ensure_model(client, source, held_out, options, console)
    examples = source.shuffled(options.seed) if options.shuffle else source
    rows = source.rows if options.limit is None else min(source.rows, options.limit)
    try:
        standings = stream_and_finish(
            client,
            options.model,
            identified(itertools.islice(examples, options.limit), source.name, options.prefix),
            rows=rows,
            held_out=held_out,
            batch=options.batch,
            finish=options.finish,
            console=console,
            bad_rows=bad_rows,
        )
    except HingedError as error:
        if error.code != "conflict":
            raise
        raise click.ClickException(
            f"{error.message}; the model {options.model!r} has learned another example with this id: "
            "choose another --model or delete this model"
        ) from error
    show_table(console, standings)
    if warning := client.model(options.model)["metrics"].get("warning"):
        say(console, warning)
    show_curl(console, client.url, options.model, x=first.x, y=first.y)


def await_server(client: Client, console: Console) -> None:
    """Wait until the server accepts requests. If there is no server, say how to start it."""
    try:
        if client.ready():
            return
    except HingedError as error:
        if error.code != "unreachable":
            raise
        port = httpx.URL(client.url).port
        command = "hinged serve" if port in {None, 8000} else f"hinged serve --port {port}"
        raise click.ClickException(f"{error.message}; start a server with: {command}") from error
    with Waiting(console, "waiting for the server to be ready"):
        client.wait_until_ready()


def ensure_model(client: Client, source: Source, held_out: Source | None, options: Any, console: Console) -> None:
    """Create the model. If the model exists, check that the model fits this stream and the options."""
    try:
        existing = client.model(options.model)["configuration"]
    except HingedError as error:
        if error.code != "not_found":
            raise
        wanted = configuration(source, held_out, options)
        made = client.create_model(options.model, **wanted)
        gamma = wanted["kernel"].get("gamma")
        say(
            console,
            f"created model {options.model}: {made['configuration']['solver']}, {options.kernel} kernel"
            + ("" if gamma is None else f", gamma {gamma}")
            + "".join(f", {name} {value}" for name, value in own_parts(options).items())
            + f", {wanted['features']['type']} features"
            + (
                ""
                if wanted["features"]["type"] == "text"
                else f", {source.dim:,} {'names' if source.named else 'columns'}"
            ),
        )
        await_model(client, options.model, made, console)
        return
    refuse_other_model(existing, source, options)
    say(console, f"continuing with the existing model {options.model}")


def refuse_other_model(existing: dict[str, Any], source: Source, options: Any) -> None:
    """Raise an error if an existing model does not fit the options."""
    features = existing["features"]
    fits = features["type"] == source.features["type"] and (
        source.named or (source.dim <= features["dim"] if source.sparse else source.dim == features["dim"])
    )
    if not fits:
        raise click.ClickException(
            f"the model {options.model!r} has {features['type']} features of dim {features.get('dim')}, "
            f"{source.name} has {source.features['type']} features of dim {source.dim}: choose another --model"
        )
    kernel = existing["kernel"]
    pairs = {
        "solver": (options.solver, existing.get("solver")),
        "kernel": (options.kernel, kernel.get("type")),
        "gamma": (options.gamma, kernel.get("gamma")),
    }
    asked_for = {name: pair for name, pair in pairs.items() if name in options.given and pair[0] not in (None, "scale")}
    asked_for |= {name: (value, existing.get(name)) for name, value in own_parts(options).items()}
    for name, (asked, has) in asked_for.items():
        if asked != has:
            raise click.ClickException(
                f"the model {options.model!r} exists with {name} = {has}, not {asked}: choose another --model"
            )


def configuration(source: Source, held_out: Source | None, options: Any) -> dict[str, Any]:
    """Return the configuration that results from the options and the file."""
    features = source.features
    if source.sparse and held_out is not None:
        features["dim"] = max(source.dim, held_out.dim)
    if options.scale is not None and not source.named:
        features["scale"] = None if options.scale == "none" else options.scale
    kernel: dict[str, Any] = {"type": options.kernel}
    if options.kernel != "linear":
        kernel["gamma"] = options.gamma
    return {
        **({"solver": options.solver} if options.solver is not None else {}),
        "kernel": kernel,
        "features": features,
        "classes": None,
        "seed": 0,
        **own_parts(options),
    }


def own_parts(options: Any) -> dict[str, Any]:
    """Return those parts of the configuration that the user gave and that only some solvers have."""
    named = {"C": options.C, "tol": options.tol, **dict(options.parts)}
    return {name: value for name, value in named.items() if value is not None}


def identified(examples: Iterable[Example], name: str, prefix: str) -> Iterator[PlacedExample]:
    """Yield the examples of the file `name` in the form in which they are sent to the server.

    A row has the same id in each run, so a second run continues where the first run was interrupted.
    """
    for example in examples:
        key = f"{prefix}:{example.row}" if example.id is None else example.id
        weight = {} if example.weight is None else {"weight": example.weight}
        facts = {"id": key, "x": example.x, "y": example.y, **weight}
        yield PlacedExample(Place(name, example.row, "row"), facts)
