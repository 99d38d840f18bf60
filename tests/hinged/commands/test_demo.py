import numpy as np
import pytest

from hinged.commands.demo import batch_standing, load_digits
from tests.helpers.command import hinged


def test_the_digits_have_a_fixed_order_and_the_last_quarter_is_held_out():
    digits, again = load_digits(), load_digits()
    assert digits.X_train.shape == (1347, 64)
    assert digits.X_test.shape == (450, 64)
    assert 0.0 <= digits.X_train.min() < digits.X_train.max() <= 1.0
    for name in ("X_train", "y_train", "X_test", "y_test"):
        assert np.array_equal(getattr(digits, name), getattr(again, name))


def test_the_batch_svm_is_accurate():
    standing = batch_standing(load_digits())
    assert standing.held_out_accuracy > 0.98
    assert 0 < standing.support_vectors < 1347


@pytest.mark.long
def test_the_output_of_a_server_that_ended_by_itself_keeps_its_lines(tmp_path):
    told = ("--port", "0", "--data-dir", tmp_path)
    done = hinged("demo", "--no-stay", *told, code=1, env={"HINGED_CACHE_MB": "none"})
    first, second = done.stderr.splitlines()
    assert first == "hinged: the server ended by itself; its last output:"
    assert second.startswith("hinged: HINGED_CACHE_MB: ")


@pytest.mark.long
def test_the_demonstration_uses_the_settings_of_a_server(tmp_path):
    settings = {"HINGED_PORT": "0", "HINGED_DATA_DIR": str(tmp_path / "there"), "HINGED_CACHE_MB": "none"}
    done = hinged("demo", "--no-stay", code=1, env=settings)
    started, _, folder = done.stdout.splitlines()[0].partition(", data in ")
    assert started.startswith("starting a server on http://127.0.0.1:")
    assert not started.endswith(":8000")
    assert folder == settings["HINGED_DATA_DIR"]
