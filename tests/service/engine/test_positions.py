"""Log positions of models, for followers of all models."""

from hinged.service.engine.positions import LogPosition, Positions


def test_listeners_are_called_for_each_move_and_for_the_end():
    positions, told = Positions(), []
    positions.listeners.add(lambda name: told.append((name, positions.newest.get(name))))
    moved = positions.begin("m", 1)
    birth = positions.newest["m"].birth
    moved(1)  # the same position
    moved(4)
    positions.end("m")
    positions.end("m")
    assert told == [("m", LogPosition(birth, 1)), ("m", LogPosition(birth, 4)), ("m", None), ("m", None)]


def test_a_model_that_has_ended_does_not_reappear_whatever_its_worker_reports():
    positions = Positions()
    former = positions.begin("m", 1)
    birth = positions.newest["m"].birth
    positions.end("m")
    former(2)
    assert positions.newest == {}
    positions.begin("m", 1)
    former(3)
    assert positions.newest == {"m": LogPosition(birth + 1, 1)}
