"""The file of predictions if the model changes while `hinged predict` reads a file."""

from hinged.commands.answered import write_answers


def test_an_answer_without_a_cell_of_the_first_answer_leaves_it_empty(capsys):
    """Somebody took back the promise, and a class came, between two requests."""
    known = {"id": "a", "prediction": "x", "probability": 0.5, "probabilities": {"x": 0.5, "y": 0.5}, "set": ["x"]}
    later = {"id": "b", "prediction": "z", "probability": 0.4, "probabilities": {"x": 0.3, "y": 0.3, "z": 0.4}}
    write_answers([[known], [later], [{"id": "c", "prediction": None, "probability": None}]], None)
    assert capsys.readouterr().out.splitlines() == [
        "id,prediction,probability,probability of x,probability of y,set,outside",
        'a,x,0.5,0.5,0.5,"[""x""]",',
        "b,z,0.4,0.3,0.3,,",
        "c,,,,,,",
    ]
