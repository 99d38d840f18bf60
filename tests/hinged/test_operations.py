"""Each operation is declared only once. An invalid declaration is refused at import, before a server or client runs."""

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
def test_an_invalid_declaration_is_refused(method, path, facts, problem):
    with pytest.raises(ValueError, match=problem):
        Operation(method, path, **facts)


def test_a_declaration_needs_a_role():
    with pytest.raises(TypeError, match="role"):
        Operation("GET", "/models")


def test_a_method_must_take_every_parameter_of_its_path():
    with pytest.raises(ValueError, match=r"POST /models/{model}/sing/{song}: .*sing takes no song"):

        @Operation("POST", "/models/{model}/sing/{song}", role="reader").asked
        def sing(self, model):  # noqa: ARG001
            return Call()


def test_a_call_has_its_path_filled_in_and_its_body_as_declared():
    call = LabelOperations.skip.call("a b", "l/1", whom="all")
    assert (call.method, call.path, call.body) == ("POST", "/models/a%20b/queries/l%2F1/skip", {"for": "all"})


def test_each_kind_of_frame_belongs_to_one_operation():
    assert list(FRAMES) == ["learn", "predict", "decide", "pool", "query", "subscribe"]
    assert len(FRAMES) == sum(found.frame is not None for found in DECLARED)
