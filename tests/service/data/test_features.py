"""Only the kinds of features and of columns decide which x are valid: service/data/features/."""

import ast

import pytest

from hinged.service.data.features.base import Features
from hinged.service.data.features.catalogue import KINDS as FEATURES
from hinged.service.data.features.catalogue import _known as known_features
from hinged.service.data.features.columns.base import ColumnKind
from hinged.service.data.features.columns.catalogue import DECLARED, KINDS
from hinged.service.data.features.columns.catalogue import _known as known_columns
from hinged.service.data.features.columns.categories import Categories
from hinged.service.data.features.columns.moments import Moments
from hinged.service.data.features.named import NamedFeatures
from hinged.service.data.features.vocabulary import Vocabulary
from tests.helpers.server import ROOT

KNOWN_BY_NAME = {
    "service/api/inference/routes.py": {"RecordFeatures"},  # one tensor per column, or one tensor of rows
    "service/engine/transfer/estimators.py": {"Scaling"},  # the scale of an estimator becomes the scale of a model
}
"""Other modules that name a kind of features, each with the reason."""


class Open(ColumnKind):
    NAME = "open"


class Again(Categories):
    EXAMPLE = "again"


class Later(Moments):
    NAME = "later"


def test_a_kind_of_column_that_is_incomplete_or_repeats_another_is_refused_at_import():
    with pytest.raises(TypeError, match="Open must declare: told, MEANING, EXAMPLE, SQUARE_MAX"):
        known_columns(Open)
    with pytest.raises(TypeError, match="Again has the name or an aspect of another kind"):
        known_columns(Categories, Again)
    with pytest.raises(TypeError, match="Later has the name or an aspect of another kind"):
        known_columns(Moments, Later)


def test_an_incomplete_kind_of_features_is_refused_at_import():
    with pytest.raises(TypeError, match=r"Features must declare: .*encoder.*inputs.*shown.*, X, ONE"):
        known_features(Features)


@pytest.mark.long
def test_no_other_module_tests_for_a_kind_of_features_or_column():
    kinds = {kind.__name__ for kind in (*FEATURES, *KINDS.values())}
    kinds |= {"RecordFeatures", "Vocabulary", "Scaling", "RecordReader", "ScaleReader"}
    found = {}
    for path in sorted((ROOT / "service").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("service/data/features/"):
            tree = ast.parse(path.read_text())
            named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & kinds
            asked = any(
                isinstance(node, ast.Attribute)
                and node.attr == "type"
                and isinstance(node.value, ast.Attribute)
                and node.value.attr == "features"
                for node in ast.walk(tree)
            )
            if named or asked:
                found[name] = named | ({"features.type"} if asked else set())
    assert found.pop("service/data/configuration.py") == {"features.type"}  # it checks whether both have the same type
    assert found == KNOWN_BY_NAME


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_column_reads_its_example_and_survives_save_and_load(kind):
    def vocabulary():
        declared = {"a": kind.NAME} if kind.DECLARED else {}
        return Vocabulary(60, 50, declared, found=[] if kind.DECLARED else [kind.NAME], since=["a"])

    one, other = vocabulary(), vocabulary()
    one.observe([{"a": kind.EXAMPLE if kind.DECLARED else f"{n}", "n": n} for n in range(60)])
    one.freeze()
    other.load(*one.state())
    asked = [{"a": kind.EXAMPLE}, {"a": kind.EXAMPLE}, {"a": ""}]
    assert [part.tobytes() for part in one.encode(asked)] == [part.tobytes() for part in other.encode(asked)]
    assert one.figures() == other.figures()
    rows, outside = one.reader().read(asked[:1])
    assert outside == {}
    assert rows[1].size == 0 or kind.DECLARED  # a kind without columns cannot be declared for a name


def test_the_kinds_that_a_configuration_may_name_are_documented():
    column = NamedFeatures.model_json_schema()["$defs"]["Column"]["properties"]["type"]
    assert column["enum"] == list(DECLARED)
    assert column["description"] == "; ".join(f"{name}: {KINDS[name].MEANING}" for name in DECLARED)
