import json

import pytest

from service.configuration import parse_configuration
from service.errors import Invalid
from service.settings import Settings

BASE = {"kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}


def parse(**changes):
    return parse_configuration(json.dumps(BASE | changes), Settings())


@pytest.mark.parametrize(("label", "complaint"), [("x" * 300, "at most 256 characters"), (2**63, "at most 63 bits")])
def test_declared_classes_are_held_to_what_examples_are(label, complaint):
    with pytest.raises(Invalid, match=rf"classes\[1\]: .*{complaint}"):
        parse(classes=["a", label])
