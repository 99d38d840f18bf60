"""A single command streams ordinary tables into a real server."""

import csv
import random

import pytest

from tests.helpers.command import hinged
from tests.helpers.http_client import Asking

pytestmark = pytest.mark.long

HEADER = "PassengerId Survived Pclass Name Sex Age SibSp Parch Ticket Fare Cabin Embarked".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def titanic(tmp_path_factory):
    """A table of passengers. The passengers' names contain commas and quotes, and some ages and cabins are missing."""
    draw = random.Random(1)
    path = tmp_path_factory.mktemp("files") / "titanic.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for k in range(300):
            sex, first = draw.choice(["male", "female"]), draw.choice([1, 2, 3])
            name = f'Doe {k}, {"Mr." if sex == "male" else "Mrs."} Jan ("Jo") van der {chr(97 + k % 26)}'
            survived = int(draw.random() < (0.9 if sex == "female" else 0.1))
            age = "" if draw.random() < 0.2 else draw.randint(1, 80)
            ticket, cabin = draw.choice([f"{k}", f"PC {k}"]), f"C{k}" if first == 1 else ""
            fare = f"{draw.uniform(5, 100 / first):.4f}"
            writer.writerow([k, survived, first, name, sex, age, 0, 1, ticket, fare, cabin, draw.choice("SCQ")])
    return path


def test_a_table_of_passengers_streams_without_preparation(real, titanic):
    said = hinged("replay", titanic, "--label", "Survived", "--url", real.url).stdout
    assert "column 'Name' has a different text in nearly every row" in said
    with Asking(real.url) as ask:
        figures = ask("GET", "/models/replay").json()
    assert figures["configuration"]["features"]["type"] == "named"
    assert figures["examples"] == 300
    assert figures["classes"] == [0, 1]
    assert figures["metrics"]["window"]["accuracy"] > 0.6
    assert figures["features"]["left_out"].keys() == {"Name", "Ticket", "Cabin"}
    assert figures["features"]["warnings"][0].startswith("'Name' is left out: its 300 different strings")
    assert {"Name", "Ticket"}.isdisjoint(field["name"] for field in figures["features"]["fields"])


def test_the_option_category_keeps_a_column_whose_texts_all_differ(real, titanic):
    options = ["--label", "Survived", "--category", "Name", "--category", "Pclass", "--model", "forced"]
    said = hinged("replay", titanic, *options, "--url", real.url).stdout
    assert "column 'Name'" not in said
    with Asking(real.url) as ask:
        features = ask("GET", "/models/forced").json()["features"]
    values = {field["name"]: field["values"] for field in features["fields"]}
    assert (values["Name"], values["Pclass"]) == (300, 3)
    assert features["left_out"].keys() == {"Ticket", "Cabin"}
    hinged("predict", "forced", titanic, "--drop", "Survived", "--url", real.url)


def test_dropping_columns_removes_the_note_and_improves_the_model(real, titanic):
    options = ["--label", "Survived", "--id", "PassengerId", "--model", "chosen"]
    for column in ("Name", "Ticket", "Cabin"):
        options += ["--drop", column]
    said = hinged("replay", titanic, *options, "--url", real.url).stdout
    assert "nearly every row" not in said
    assert "named features, 7 names" in said
    with Asking(real.url) as ask:
        figures = ask("GET", "/models/chosen").json()
    assert figures["metrics"]["window"]["accuracy"] > 0.75
    again = hinged("replay", titanic, *options, "--url", real.url).stdout
    assert "300 of 300 examples had been learned before" in again


def test_predict_predicts_the_rows_of_a_table(real, titanic):
    options = ["--features", "Sex", "--features", "Fare", "--url", real.url]
    hinged("replay", titanic, "--label", "Survived", "--model", "asked", *options)
    lines = hinged("predict", "asked", titanic, *options, "--id", "PassengerId", "--json").stdout.splitlines()
    assert len(lines) == 300
    assert '"id": "0"' in lines[0]
    again = hinged("predict", "asked", titanic, "--drop", "Nmae", "--url", real.url, code=1).stderr
    assert "no column 'Nmae'" in again
