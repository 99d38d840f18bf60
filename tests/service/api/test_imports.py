"""Files that claim to be models. Each file either is refused or creates a model, and the process survives."""

import asyncio
import json
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hinged.frames import BadFrame, decode, encode
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import inputs_state, read_inputs
from hinged.service.engine.creation import import_file
from hinged.service.engine.registry import Registry
from hinged.service.engine.transfer.exports import pack_export, unpack_export
from hinged.service.errors import Invalid
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers import models
from tests.helpers.imported_models import KINDS, NOW, SIZES, take
from tests.helpers.limits import limited
from tests.helpers.states import digest_of


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_model_is_imported_and_learns_on_to_the_bit(registry, states, kind):
    original = Model.restore("m", states[kind], **SIZES)
    copy = take(registry, states[kind])
    assert copy is not None
    assert (copy.position, copy.undone) == (1, [])
    assert digest_of(copy) == digest_of(original)
    inputs = next(iter(original.pool)).x
    for model in (original, copy):
        models.learn(model, models.request_of(inputs, ["p"], ["new"]), now_ms=NOW)
    assert digest_of(copy) == digest_of(original)


class Choices:
    """Choices drawn in advance, so that their number does not depend on how many are used."""

    def __init__(self, numbers):
        self.left = list(numbers)

    def below(self, n):
        return self.left.pop() % n

    def one(self, several):
        return several[self.below(len(several))]


CHOICES = st.lists(st.integers(0, 2**20), min_size=12, max_size=12).map(Choices)
ODD = [None, True, False, 0, -1, 7, 2**65, -(2**65), 0.5, -1.0, float("nan"), float("inf"), 1e308, "", "a", "\x00",
       "@1", [], [None], [1, 2], ["a", [0]], [[0, "a"]], {}, {"a": 1}, {"dim": 2**40}, [{}], [[], []]]  # fmt: skip


@pytest.mark.long
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=CHOICES, kind=st.sampled_from(sorted(KINDS)))
def test_a_file_with_changed_arrays_and_a_valid_checksum_is_refused_or_is_a_model(registry, states, choices, kind):
    facts, arrays = decode(states[kind], SNAPSHOT)
    name = choices.one(sorted(arrays))
    array = arrays[name]
    how = choices.one(["bits", "shape", "dtype", "gone", "empty", "extreme"])
    if how == "bits" and array.size:
        raw = bytearray(array.tobytes())
        for _ in range(choices.below(4) + 1):
            raw[choices.below(len(raw))] ^= choices.below(255) + 1
        arrays[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    elif how == "shape":
        arrays[name] = np.resize(array, [choices.below(8) for _ in range(choices.below(4))])
    elif how == "dtype":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(choices.one(["int8", "int32", "int64", "float32", "float64"]))
    elif how == "gone":
        del arrays[name]
    elif how == "empty":
        arrays[name] = array[:0]
    elif array.size:
        wild = {"f": [np.inf, -np.inf, np.nan, 1e38, -1e38], "i": [-1, -100, 100], "u": [0, 255]}
        values = array.copy()
        values.flat[choices.below(array.size)] = choices.one(wild[array.dtype.kind])
        arrays[name] = values
    take(registry, encode(SNAPSHOT, facts, arrays))


@pytest.mark.parametrize("factor", [1e-200, 1e200])
@pytest.mark.parametrize("name", ["faded", "faded_losses", "weight", "losses"])
def test_a_file_with_impossible_weights_of_examples_is_refused_or_has_figures(registry, states, name, factor):
    facts, arrays = decode(states["lasvm"], SNAPSHOT)
    (full,) = [array for array in arrays if array.endswith(f"all.{name}")]
    arrays[full] = arrays[full] * factor
    take(registry, encode(SNAPSHOT, facts, arrays))


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=CHOICES, kind=st.sampled_from(sorted(KINDS)))
def test_a_file_with_changed_facts_and_a_valid_checksum_is_refused_or_is_a_model(registry, states, choices, kind):
    facts, arrays = decode(states[kind], SNAPSHOT)
    part = facts
    while True:
        inner = sorted(key for key, value in part.items() if isinstance(value, dict) and value)
        if not inner or not choices.below(2):
            break
        part = part[choices.one(inner)]
    name = choices.one(sorted(part))
    value = part[name]
    if isinstance(value, list) and value and choices.below(2):
        value[choices.below(len(value))] = choices.one(ODD)
    else:
        part[name] = choices.one(ODD)
    take(registry, encode(SNAPSHOT, facts, arrays))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_not_a_file_are_refused(data):
    with pytest.raises(BadFrame):
        unpack_export(data)


@pytest.mark.parametrize(
    ("settings", "limits", "word"),
    [
        ({"dim_max": 2}, {}, "features.dim"),
        ({"points_max": 10}, {}, "points_max"),
        ({"classes_max": 2}, {"label_chars_max": 1, "id_chars_max": 2}, "an id has"),
    ],
)
def test_a_file_beyond_this_servers_limits_is_refused(tmp_path, states, settings, limits, word):
    store = SQLiteStore(tmp_path / "data")

    async def make():
        return Registry(store, Settings(**settings))

    registry = asyncio.run(make())
    with limited(**limits), pytest.raises(Invalid, match=word):
        import_file(registry.store, "m", BytesIO(pack_export("m", 1, states["lasvm"])), registry.settings)
    assert store.models() == []
    store.close()


DENSE_CONFIGURATION = parse_configuration(json.dumps(KINDS["lasvm"]), Settings())
ROWS = to_inputs([[1, 0, 2], [0, 3, 0], [0, 0, 0], [4, 5, 6]], DENSE_CONFIGURATION)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda a: a[:-1]),
        ("indptr", lambda a: a + 1),
        ("indptr", lambda a: a[[0, 2, 1, 3, 4]]),
        ("indptr", lambda a: a.astype(np.int32)),
        ("indices", lambda a: a - 1),
        ("indices", lambda a: a + 1),
        ("indices", lambda a: np.array([2, 0, 1, 0, 1, 2], np.int32)),
        ("indices", lambda a: np.array([0, 2, 1, 0, 0, 2], np.int32)),
        ("indices", lambda a: a[:-1]),
        ("values", lambda a: a * np.inf),
        ("values", lambda a: a.astype(np.int64)),
        ("values", lambda a: a[:, None]),
        ("norms", lambda a: a * np.nan),
        ("norms", lambda a: -a),
        ("selves", lambda a: a[1:]),
        ("selves", lambda a: a.astype(np.float64)),
    ],
)
def test_rows_that_compiled_code_must_not_see_are_refused(name, change):
    facts, arrays = inputs_state(ROWS)
    assert read_inputs(facts, arrays).dim == 3
    with np.errstate(all="ignore"):
        changed = change(arrays[name])
    with pytest.raises(BadFrame):
        read_inputs(facts, arrays | {name: changed})


@pytest.mark.parametrize("dim", [None, 0, 2, 2.5, "3", 2**40])
def test_rows_of_width_zero_are_refused(dim):
    _, arrays = inputs_state(ROWS)
    with pytest.raises(BadFrame):
        read_inputs({"dim": dim}, arrays)
