"""Several annotators label one candidate: which label is learned, and who is asked next."""

from tests.helpers.http_client import refusal
from tests.helpers.questions import LINE, asked, label, offered, taught, until_over


def test_with_overlap_the_majority_is_learned_at_the_last_label(ask):
    model = ask.new_model(labels={"overlap": 3, "explore": 0})
    offered(model, [[0, 0], [1, 1]])
    leases = {name: {q["id"]: q["lease"] for q in asked(model, name, n=2)} for name in ("ann", "bob", "eve")}
    assert all(set(held) == {"c0", "c1"} for held in leases.values())
    assert asked(model, "dan", n=2) == []

    def vote(name, given, y):
        (result,) = label(model, {"id": given, "y": y, "lease": leases[name][given]}).json()["results"]
        return result

    first = vote("ann", "c0", "ham")
    assert (first["collected"], first["needed"], first["duplicate"]) == (1, 3, False)
    assert vote("ann", "c0", "ham")["duplicate"]
    assert vote("bob", "c0", "spam")["collected"] == 2
    assert model.figures()["examples"] == 0
    last = vote("eve", "c0", "spam")
    assert last["votes"] == [{"label": "spam", "count": 2}, {"label": "ham", "count": 1}]
    assert model.figures()["classes"] == ["spam"]
    for name in ("ann", "bob", "eve"):
        vote(name, "c1", "ham")
    figures = model.figures()
    assert figures["examples"] == 2
    assert figures["pool"] == {
        "size": 0, "size_max": 10_000, "leased": 0, "votes": 0, "conflicts": 0, "answered": 2, "disagreement": 0.5
    }  # fmt: skip


def test_the_most_reliable_annotator_decides_if_the_configuration_says_so(ask):
    """Ann is always right; bob and eve are each wrong in a third of the cases, and in the end together."""
    for combine, learned in (("majority", "spam"), ("reliability", "ham")):
        model = ask.new_model(labels={"overlap": 3, "explore": 0, "combine": combine})
        offered(model, [[k, 0] for k in range(31)])
        leases = {name: {q["id"]: q["lease"] for q in asked(model, name, n=31)} for name in ("ann", "bob", "eve")}
        for k in range(31):
            wrong = {0: ["bob"], 1: ["eve"], 2: []}[k % 3] if k < 30 else ["bob", "eve"]
            for name, held in leases.items():
                y, given = "spam" if name in wrong else "ham", f"c{k}"
                (result,) = label(model, {"id": given, "y": y, "lease": held[given]}).json()["results"]
        assert result["votes"] == [{"label": "spam", "count": 2}, {"label": "ham", "count": 1}]
        annotators = ask("GET", f"{model.path}/answers").json()["annotators"]
        assert annotators["ann"]["agreed"] == (31 if learned == "ham" else 30)
        assert ("spam" in model.figures()["classes"]) == (learned == "spam")


def conflicts(ask, model):
    """Return the number of open conflicts. The overview and the description of the model must agree on it."""
    (found,) = [m["conflicts"] for m in ask("GET", "/overview").json()["models"] if m["model"] == model.name]
    assert found == model.figures()["pool"]["conflicts"]
    return found


def vote(model, name, y):
    """Let an annotator ask for a question and answer it."""
    (question,) = asked(model, name)
    (result,) = label(model, {"id": question["id"], "y": y, "lease": question["lease"]}).json()["results"]
    return result


def test_a_third_annotator_decides_where_two_differ(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0], [1, 1]])
    first = vote(model, "ann", "ham")
    assert (first["collected"], first["needed"]) == (1, 2)
    second = vote(model, "bob", "spam")
    assert (second["id"], second["collected"], second["needed"]) == (first["id"], 2, 3)
    assert (model.figures()["examples"], conflicts(ask, model)) == (0, 1)
    assert [q["id"] for q in asked(model, "ann", n=2)] == [q["id"] for q in asked(model, "bob", n=2)] != [first["id"]]
    last = vote(model, "eve", "spam")
    assert (last["id"], last["collected"], last["needed"]) == (first["id"], 3, 3)
    assert conflicts(ask, model) == 0
    assert last["votes"] == [{"label": "spam", "count": 2}, {"label": "ham", "count": 1}]
    assert model.ask("GET", f"{model.path}/examples/{first['id']}").json()["label"] == "spam"


def test_without_a_majority_the_earliest_label_is_learned(ask):
    for tie_breakers, names in ((0, ("ann", "bob")), (1, ("ann", "bob", "eve")), (2, ("ann", "bob", "eve", "dan"))):
        model = ask.new_model(labels={"overlap": 2, "tie_breakers": tie_breakers})
        offered(model, [[0, 0]])
        results = [vote(model, name, f"of {name}") for name in names]
        assert [r["needed"] for r in results] == [max(2, min(k + 1, len(names))) for k in range(1, len(names) + 1)]
        assert model.figures()["examples"] == 1
        assert model.ask("GET", f"{model.path}/examples/c0").json()["label"] == "of ann"


def test_a_candidate_with_more_labels_than_needed_is_asked_once_more(ask):
    model = ask.new_model(labels={"overlap": 3})
    offered(model, [[0, 0]])
    assert vote(model, "ann", "ham")["needed"] == vote(model, "bob", "ham")["needed"] == 3
    model.ask("PATCH", model.path, json={"labels": {"overlap": 2}})
    (result,) = [vote(model, "eve", "spam")]
    assert result["votes"] == [{"label": "ham", "count": 2}, {"label": "spam", "count": 1}]


def test_candidates_with_labels_are_asked_first_and_keep_their_reason(ask):
    model = taught(ask, labels={"overlap": 2, "explore": 0})
    offered(model, LINE)
    drawn = {q["id"] for q in asked(model, "ann", n=5, strategy="random")}
    label(model, *({"id": q["id"], "y": "left", "lease": q["lease"]} for q in asked(model, "ann", n=3)))
    begun = {a["id"] for a in model.ask("GET", f"{model.path}/answers").json()["answers"]}
    questions = asked(model, "bob", n=4)
    assert begun == {q["id"] for q in questions[:3]} < drawn
    assert [q["reason"] for q in questions] == ["random"] * 3 + ["active"]
    assert all(q["score"] is not None for q in questions)


def test_all_votes_may_come_in_one_request(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    ann, bob = (asked(model, name)[0]["lease"] for name in ("ann", "bob"))
    results = label(model, {"id": "c0", "y": 1, "lease": ann}, {"id": "c0", "y": 1, "lease": bob}).json()["results"]
    assert [r["collected"] for r in results] == [1, 2]
    assert model.figures()["examples"] == 1


def test_an_annotator_is_not_asked_again_for_a_candidate_they_labelled(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    (early,) = asked(model, lease_s=0.1)
    until_over(early)
    (late,) = asked(model)
    assert late["lease"] != early["lease"]
    (result,) = label(model, {"id": "c0", "y": 1, "lease": early["lease"]}).json()["results"]
    assert result["collected"] == 1
    assert asked(model) == []
    refusal(model.ask("POST", f"{model.path}/queries/{late['lease']}/heartbeat"), 404, "not_found")
