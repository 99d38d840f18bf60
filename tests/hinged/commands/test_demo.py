import numpy as np

from hinged.commands.demo import batch_standing, load_digits


def test_the_digits_come_in_the_same_order_and_the_last_quarter_is_held_out():
    digits, again = load_digits(), load_digits()
    assert digits.X_train.shape == (1347, 64)
    assert digits.X_test.shape == (450, 64)
    assert 0.0 <= digits.X_train.min() < digits.X_train.max() <= 1.0
    for name in ("X_train", "y_train", "X_test", "y_test"):
        assert np.array_equal(getattr(digits, name), getattr(again, name))


def test_the_batch_machine_is_a_good_one():
    standing = batch_standing(load_digits())
    assert standing.held_out_accuracy > 0.98
    assert 0 < standing.support_vectors < 1347
