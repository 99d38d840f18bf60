"""Judge a random history at its end: compare the logs with the notes, and the models with each other."""

import traceback
from contextlib import closing

import numpy as np

from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.features.records import canonical
from hinged.service.data.inputs import Records
from hinged.service.engine.history import ModelHistory
from hinged.service.errors import Conflict
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ExampleForgotten
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.events.states import EventErased, EventSetAside, ModelImported, ModelRolledBack, StateSwapped
from hinged.service.model.model import Model
from tests.faults.history_clients import annotated
from tests.helpers.states import digest_of

SIZES = {"cache_bytes": 2**20, "answers_kept": 12}
FAULTS = ("raised", "hung", "lost", "invented", "misread", "unequal", "reverted")


def judge(open_store, lines, form):
    """Count the faults at the end, and describe them."""
    found = dict.fromkeys(FAULTS, 0)
    said = []
    sent, waits, learned, forgotten, deleted = {}, {}, {}, set(), set()
    for line in lines:
        match line["kind"]:
            case "sent":
                for example in line["examples"]:
                    sent.setdefault(line["model"], []).append(example)
            case "waits":
                waits.update((e["id"], e["x"]) for e in line["examples"])
            case "learned":
                learned.setdefault(line["model"], set()).update(i for i in line["ids"] if not i.startswith("@"))
            case "forget":
                forgotten.add(line["id"])
            case "deleted":
                deleted.add(line["model"])
            case "error":
                found["raised"] += 1
                said.append(line["message"] + "\n" + line["trace"])
    everything = [example for examples in sent.values() for example in examples]
    with closing(open_store()) as store:
        for name in store.models():
            try:
                _judge_model(store, name, form, everything, waits, found, said)
            except Exception:  # noqa: BLE001  any error is a fault
                found["raised"] += 1
                said.append(f"{name}: {traceback.format_exc()[-3000:]}")
                continue
            ids = _ids_of(store, name)
            if name not in deleted and ids is not None:
                lost = learned.get(name, set()) - ids - forgotten
                found["lost"] += len(lost)
                said += [f"{name}: lost {i}" for i in lost]
        _judge_annotations(store, lines, found, said)
        running = next((line["digests"] for line in reversed(lines) if line["kind"] == "running"), {})
        if lines and lines[-1]["kind"] == "running":
            for name, (at, digest) in running.items():
                there, obstacle = ModelHistory(store, name, **SIZES).reached()
                if there.position == at and digest_of(there) != digest and obstacle is None:
                    found["unequal"] += 1
                    said.append(f"{name}: the running one at {at} is another")
    return found, said


class WithoutSnapshots:
    """A store of which only the log is read."""

    def __init__(self, store):
        self._store = store

    def snapshots(self, _):
        return []

    def __getattr__(self, name):
        return getattr(self._store, name)


def _judge_model(store, name, form, everything, waits, found, said):
    recovered, obstacle = ModelHistory(store, name, **SIZES).reached()
    if obstacle is not None:
        found["raised"] += 1
        said.append(f"{name} stands: {obstacle.message}")
    try:
        folded = ModelHistory(WithoutSnapshots(store), name, **SIZES).newest()
    except Conflict:
        folded = None  # not comparable: the log is trimmed, or an example was forgotten and an event contains the state
    if folded is not None and _compared(folded) != _compared(recovered):
        found["unequal"] += 1
        said.append(f"{name}: folded from the log alone it is another")
    for at, event, configuration in _along(store, name):
        for r, given in enumerate(event.ids):
            label = _label(event, r, configuration[1])
            meant = [e for e in everything if e.get("id") == given and _same(e["y"], label)]
            if not meant:
                found["invented"] += 1
                said.append(f"{name}: event {at} has {given}, {label!r}")
            elif configuration[0] is not None and not _as_read(
                event, r, label, meant, waits, given, configuration[0], form
            ):
                found["misread"] += 1
                said.append(
                    f"{name}: event {at}: {given} is not as {configuration[0].kernel} {configuration[0].precision}"
                )


def _judge_annotations(store, lines, found, said):
    """Check that each annotation is as in a sent version, and not older than the newest acknowledged version."""
    sent, newest, name = {}, {}, "annotated"
    for line in lines:
        if line["kind"] == "annotating":
            sent.setdefault(line["id"], []).append(line["version"])
        elif line["kind"] == "annotated":
            newest[line["id"]] = max(line["version"], newest.get(line["id"], 0))
    if name not in store.models():
        if newest:
            found["lost"] += 1
            said.append("the model of annotations is lost")
        return
    model, _ = ModelHistory(store, name, **SIZES).reached()
    for _, record in store.read(name, 0):
        event = decode_event(record.kind, record.payload)
        for r, given in enumerate(event.ids if isinstance(event, ExamplesLearned) else ()):
            number = int(given.removeprefix("ls-"))
            label = model.labels.labels[model.corrections.get(int(event.keys[r]), int(event.classes[r]))]
            allowed = [v for v in sent[number] if v >= newest.get(number, 0)]
            if label not in [annotated(number, version) for version in allowed]:
                found["reverted"] += 1
                said.append(f"{given} is {label!r}, its versions {allowed} are not; acknowledged: {newest.get(number)}")


def _compared(model):
    """Return everything that must be equal after the same log was applied twice."""
    return model.position, digest_of(model), model.curves.state()[0], model.curves.own.points


def _label(event, r, labels):
    number = int(event.classes[r])
    return labels[number] if number < len(labels) else None


def _same(y, label):
    return label is None or (type(y) is type(label) and y == label)


def _along(store, name):
    """Yield the learned batches of a log whose state can be followed, with (configuration, labels) at each batch."""
    history, model = ModelHistory(store, name, **SIZES), None
    records = [(at, decode_event(record.kind, record.payload)) for at, record in store.read(name, 0)]
    aside = {event.event for _, event in records if isinstance(event, EventSetAside)}
    begin = 0
    for index, (_, event) in enumerate(records):
        if isinstance(event, StateSwapped) and index not in aside:
            erased = any(isinstance(e, EventErased | ExampleForgotten) for _, e in records[:index])
            begin = index if erased else begin
    if not records or (records[0][0] != 1 and not isinstance(records[begin][1], StateSwapped)):
        return
    for at, event in records[begin:]:
        if model is None:
            model = Model.begin(name, at, event, **SIZES)
            continue
        if isinstance(event, ExamplesLearned):
            yield at, event, (model.configuration, list(model.labels.labels))
        try:
            if at in aside:
                model.pass_over(at, "")
            elif isinstance(event, ModelRolledBack | StateSwapped):
                model = history.successor(at, event)
            else:
                history.apply(model, at, event)
        except Conflict:
            if records[0][0] == 1:
                raise
            return  # epochs, or a state to return to, that were trimmed later


def _as_read(event, r, label, meant, waits, given, configuration, form):
    """Return whether row r is what the configuration makes of one of the sent examples."""
    spelled = [e["x"] for e in meant if "x" in e] + ([waits[given]] if given in waits else [])
    kept = any("x" not in e for e in meant)  # x was read, and perhaps rounded, when the prediction began to wait
    for x in spelled:
        inputs = to_inputs([canonical(x) if form == "named" else x], configuration)
        if label is not None and digests(inputs, [label])[0] != event.contents[r] and not kept:
            continue
        if isinstance(inputs, Records) or _equal(inputs, event.inputs.take(np.array([r])), exactly=not kept):
            return True
    return False


def _equal(expected, got, *, exactly):
    pairs = [(expected.values, got.values), (expected.norms, got.norms), (expected.selves, got.selves)]
    if expected.values.dtype != got.values.dtype or not np.array_equal(expected.indices, got.indices):
        return False
    return all(np.array_equal(a, b) if exactly else np.allclose(a, b, 1e-3) for a, b in pairs)


def _ids_of(store, name):
    """Return every id in a log; None if the beginning of the log was trimmed."""
    ids = set()
    for at, record in store.read(name, 0):
        if not ids and at != 1 and record.kind != ModelImported.KIND:
            return None
        event = decode_event(record.kind, record.payload)
        if isinstance(event, ModelImported):
            return None
        if isinstance(event, ExamplesLearned):
            ids.update(event.given_ids)
    return ids
