"""`hinged verify`: check an exported log against receipts, then whether the state is the fold of the log."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from hinged.commands.options import FILE
from hinged.commands.verify import Wrong, frame, records
from hinged.commands.verify import verify as check
from hinged.commands.writing import write
from hinged.extras import needed

AT_ONCE = 100  # events that are written at once; more need more memory


@click.command()
@click.argument("export", type=FILE)
@click.argument("receipts", type=FILE)
@click.option("--key", "keys", metavar="HEX", multiple=True, help="Public key that must have signed; may be repeated.")
@click.option("--fold/--no-fold", default=True, show_default=True, help="Also compute the state from the log.")
def verify(export: Path, receipts: Path, keys: tuple[str, ...], *, fold: bool) -> None:
    """Check EXPORT, a file of `hinged export --log`, against RECEIPTS.

    RECEIPTS has answers of the server, one JSON object a line. The first step uses no code of the server; you can run
    it alone, as a program: hinged/commands/verify.py. The second step computes the state with the server's own code.
    """
    try:
        with needed("receipts", "a check of signatures"):
            write(check(export, receipts, keys))
        if fold:
            with needed("server", "hinged verify --fold"):
                write(folded(export))
    except Wrong as error:
        raise click.ClickException(str(error)) from error


def folded(export: Path) -> str:
    """Return what is known about the exported state, as a sentence. Raise Wrong if it is not the fold of the log."""
    from hinged.service.engine.history import ModelHistory  # noqa: PLC0415  only this step imports the server
    from hinged.service.store.base import Event  # noqa: PLC0415
    from hinged.service.store.sqlite import SQLiteStore  # noqa: PLC0415

    log = records(export)
    facts, arrays = frame(next(log)[2], "export")
    name, position = facts["model"], facts["position"]
    with TemporaryDirectory() as folder, closing(SQLiteStore(Path(folder) / "store")) as store:
        for first, kind, payload in islice(log, 1):
            if first != 1:
                return f"the state is not checked, because the log begins with event {first}"
            store.create(name, Event(kind, payload))
        for batch in iter(lambda: [*islice(log, AT_ONCE)], []):
            store.append(name, batch[0][0] - 1, [Event(kind, payload) for _, kind, payload in batch])
        state = ModelHistory(store, name, **facts["sizes"]).at(position).snapshot()
    if state != arrays["snapshot"]:
        raise Wrong(f"the state at {position} is not the fold of the log")
    return f"the state at {position} is the fold of the log, to the bit"
