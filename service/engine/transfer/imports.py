"""Read a model from a file that anybody may have written: check it against the server's limits, and rehearse it."""

from __future__ import annotations

import json
import logging
from typing import IO, Any

from hinged.frames import BadFrame, kind_of, peek
from hinged.service import limits
from hinged.service.data.classes import check_label, label_key
from hinged.service.data.configuration import as_written, parse_configuration
from hinged.service.data.examples import check_ids
from hinged.service.data.names import MODEL_NAME
from hinged.service.data.parts import Configuration
from hinged.service.data.times import now_ms
from hinged.service.engine.transfer.estimators import snapshot_of
from hinged.service.engine.transfer.exports import unpack_export
from hinged.service.engine.transfer.rehearsal import examine, rehearse
from hinged.service.errors import Invalid
from hinged.service.model.events.states import ModelImported
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.solvers.estimators.files import KIND as ESTIMATOR
from hinged.solvers.warm import warm_up

log = logging.getLogger(__name__)

CLOCKS_MS = 86_400_000  # maximum milliseconds that the exporting server's clock may be ahead of this server's clock


def read_import(name: str, file: IO[bytes], settings: Settings, sizes: dict[str, int]) -> tuple[Model, ModelImported]:
    """Return the model of a file, and the first event of its log.

    Raise Invalid if this server does not accept the file. sizes: as in Model.begin.
    """
    file.seek(0)
    now = now_ms()
    try:
        data = file.read()
        state = snapshot_of(data, settings, sizes) if kind_of(data) == ESTIMATOR else unpack_export(data)
        for configuration in _configurations(peek(state, SNAPSHOT), settings):
            warm_up(configuration.solver, configuration.dtype)
        model = Model.begin(name, 1, ModelImported(state, now), **sizes)
    except ValueError as error:  # the file may contain anything
        raise Invalid(f"the file is not a valid model: {_first_line(error)}") from error
    _check(model, now, settings)
    # The state is written in this server's form, so that the log can be read again.
    imported = ModelImported(model.snapshot(), model.at_ms, model.answers.given_ids)
    try:
        examine(model, imported.state)
        rehearse(model, imported.state)
    except Exception as error:  # an inconsistent state may raise any error
        log.warning("a file's model failed in rehearsal", exc_info=True)
        raise Invalid(f"the file's model cannot learn: {_first_line(error)}") from error
    return model, imported


def _configurations(facts: dict[str, Any], settings: Settings) -> list[Configuration]:
    """Return the configurations of a file's model and challengers. They are checked before anything large is built from
    them.
    """
    shadows = facts.get("shadows")
    most = limits.SHADOWS_MAX
    if not isinstance(shadows, dict) or len(shadows) > most or not all(map(MODEL_NAME.fullmatch, shadows)):
        raise BadFrame(f"a model has at most {most} challengers, each with a name")
    learners = [facts.get("learner"), *shadows.values()]
    configurations = [learner.get("configuration") if isinstance(learner, dict) else None for learner in learners]
    return [parse_configuration(json.dumps(as_written(configuration)), settings) for configuration in configurations]


def _check(model: Model, now: int, settings: Settings) -> None:
    """Refuse a model beyond the server's limits, or with invalid times, labels or ids."""
    if max([model.at_ms, *(prediction.at_ms for prediction in model.pending)]) > now + CLOCKS_MS:
        raise Invalid("the file's newest event lies in the future; set the clocks of the two servers")
    if len(model.labels) > settings.classes_max:
        raise Invalid(f"a model has at most {settings.classes_max} classes, the file's has {len(model.labels)}")
    for index, label in enumerate(model.labels.labels):
        check_label(label, f"classes[{index}]")
    declared = model.configuration.classes
    if declared is not None and list(map(label_key, declared)) != list(map(label_key, model.labels.labels)):
        raise Invalid("the file's model has other classes than its configuration declares")
    waiting = [given for part in (model.pool, model.pending) for given in (entry.id for entry in part)]
    check_ids((*model.answers.given_ids, *model.old_ids.values(), *waiting))
    for candidate in model.pool:
        for told in (candidate.label, *(label for _, label in candidate.votes)):
            if told is not None:
                check_label(told, f"a label of {candidate.id!r}")


def _first_line(error: Exception) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__)[:200]
