import time

import pytest

from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import parse_learn, parse_predict
from hinged.service.data.features.rows import RowFeatures
from hinged.service.errors import Invalid
from hinged.service.settings import Settings


@pytest.mark.parametrize(
    ("parse", "begin", "part", "end"),
    [
        (parse_learn, '{"y": 1, "x": [', '"",', '""]}'),
        (parse_learn, '{"y": 1, "x": {"values": [], "indices": [', '"",', '""]}}'),
        (parse_learn, '{"examples": [', "{},", "{}]}"),
        (parse_predict, '{"examples": [', "{},", "{}]}"),
        (lambda body, *_: parse_configuration(body, Settings()), '{"classes": [', "1.5,", "1.5]}"),
    ],
)
def test_a_body_full_of_mistakes_costs_no_more_than_its_first_mistake(parse, begin, part, end):
    started = time.process_time()
    with pytest.raises(Invalid):
        parse((begin + 500_000 * part + end).encode(), 10_000, RowFeatures(type="dense", dim=2))
    assert time.process_time() - started < 0.5
