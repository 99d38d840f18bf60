"""An operation is declared once: what cannot be meant is refused where it stands, before any server or client runs."""

import pytest

from hinged.operations import DECLARED, FRAMES, LabelOperations
from hinged.operations.base import Call, Operation


@pytest.mark.parametrize(
    ("method", "path", "facts", "problem"),
    [
        ("LOOK", "/models", {"role": "reader"}, "the method must be one of GET"),
        ("GET", "models", {"role": "reader"}, "the path must begin with a slash"),
        ("GET", "/models", {"role": "owner"}, "the role must be one of reader, .*, or None, got 'owner'"),
        ("GET", "/models/{model}", {"role": "reader", "small": True}, "small and replicas are for a POST"),
        ("POST", "/models/{model}/{what}", {"role": "reader", "replicas": True}, "no path parameter but the model"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(method, path, facts, problem):
    with pytest.raises(ValueError, match=problem):
        Operation(method, path, **facts)


def test_a_role_must_be_said():
    with pytest.raises(TypeError, match="role"):
        Operation("GET", "/models")


def test_a_method_of_the_client_takes_every_part_of_the_path():
    with pytest.raises(ValueError, match=r"POST /models/{model}/sing/{song}: .*sing takes no song"):

        @Operation("POST", "/models/{model}/sing/{song}", role="reader").asked
        def sing(self, model):  # noqa: ARG001
            return Call()


def test_what_is_asked_is_the_path_with_its_parts_and_the_rest_as_declared():
    call = LabelOperations.skip.call("a b", "l/1", whom="all")
    assert (call.method, call.path, call.body) == ("POST", "/models/a%20b/queries/l%2F1/skip", {"for": "all"})


def test_each_frame_asks_for_one_operation():
    assert list(FRAMES) == ["learn", "predict", "pool", "query", "subscribe"]
    assert len(FRAMES) == sum(found.frame is not None for found in DECLARED)
