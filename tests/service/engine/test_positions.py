"""Where models are, for those who follow all of them."""

from hinged.service.engine.positions import LogPosition, Positions


def test_listeners_are_told_of_each_move_and_of_the_end():
    positions, told = Positions(), []
    positions.listeners.add(lambda name: told.append((name, positions.newest.get(name))))
    moved = positions.begin("m", 1)
    birth = positions.newest["m"].birth
    moved(1)  # no move
    moved(4)
    positions.end("m")
    positions.end("m")
    assert told == [("m", LogPosition(birth, 1)), ("m", LogPosition(birth, 4)), ("m", None), ("m", None)]


def test_a_model_that_has_ended_is_not_there_again_whatever_its_worker_still_says():
    positions = Positions()
    former = positions.begin("m", 1)
    birth = positions.newest["m"].birth
    positions.end("m")
    former(2)
    assert positions.newest == {}
    positions.begin("m", 1)
    former(3)
    assert positions.newest == {"m": LogPosition(birth + 1, 1)}
