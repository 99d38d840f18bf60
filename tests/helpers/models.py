"""Models without a worker, a store or a server. Events come to them through the bytes of a log."""

import json

from hinged.service.commands.change import Configure
from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import new_configuration
from hinged.service.data.examples import digests
from hinged.service.model.events import decode_event
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers.worker import SIZES


def created(configuration, sizes=SIZES, now_ms=0):
    """Return a new model "m"."""
    model = Model("m", configuration, **sizes)
    model.apply(1, ModelCreated(configuration.model_dump(mode="json"), now_ms))
    return model


def new_model(body, sizes=SIZES):
    """Return a new model of the body of a request."""
    return created(new_configuration(json.dumps(body), Settings()), sizes)


def take(model, events):
    for event in events:
        model.apply(model.position + 1, decode_event(event.KIND, event.record().payload))


def request_of(inputs, labels, ids=None, **parts):
    return LearnRequest(ids or [None] * len(labels), labels, inputs, digests(inputs, labels), **parts)


def learn(model, *requests, now_ms=0):
    """Learn requests as one micro-batch; return the plan."""
    plan = make_plan(model, requests, lambda _: {}, 8, now_ms)
    take(model, plan.events)
    return plan


def change(model, **changes):
    """Change the configuration at once; return the event."""
    (event,) = Configure(changes, Settings()).plan(model, 0).events
    assert event.KIND == "reconfigured"
    take(model, [event])
    return event
