"""`hinged mcp`: a server of the Model Context Protocol, whose tools are calls of a hinged server."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, ParamSpec, TypeVar

import click

from hinged.answers import Label, Learned, Predicted, Queries, Summary
from hinged.client.client import Client, HingedError
from hinged.commands.options import asks, sentence
from hinged.extras import needed
from hinged.version import __version__

if TYPE_CHECKING:
    from mcp.server import MCPServer

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

NAME = "hinged"
INSTRUCTIONS = "The models of this server learn one example at a time, and predict at any moment. Begin with `models`."
UNNAMED = "agent"
"""The name of the annotator if there is no key."""
DESCRIBED = ("model", "state", "examples", "classes", "support_vectors", "pool", "error")
MEASURED = ("window", "newest_half", "estimate", "drift")
"""The parts of a model's description, and of its metrics, that `figures` returns."""


class ListedModel(Summary):
    """A model of the list. accuracy: the accuracy on its newest examples, each predicted before it was learned."""

    accuracy: NotRequired[float | None]


class Tools:
    """The tools. The agent reads their docstrings as descriptions, and their annotations as schemas.

    Parameters
    ----------
    annotator : name under which the agent asks. None: the name of the key, or "agent" if the server has no keys.
    """

    def __init__(self, client: Client, annotator: str | None, *, keyed: bool) -> None:
        self._client = client
        self._annotator = annotator or (None if keyed else UNNAMED)

    def models(self) -> list[ListedModel]:
        """List the models: name, configuration with the kind of features, classes, number of examples and accuracy.

        `configuration.features.type` is the form of x. dense: a list of `dim` numbers. sparse: {"indices": [...],
        "values": [...]}. named: an object of names and values. text: a string.
        """
        accuracies = {glance["model"]: glance.get("accuracy") for glance in self._client.overview()["models"]}
        return [{**model, "accuracy": accuracies.get(model["model"])} for model in self._client.models()]

    def predict(self, model: str, examples: list[Any], probabilities: bool = False) -> Predicted:
        """Predict the class of each example. Nothing is stored.

        examples: a list of x, even for one x. For a dense model with two features: [[0.1, 0.9]].
        probabilities: true to return the probability of each class, if the model knows probabilities.
        """
        return self._client.predict(model, [{"x": x} for x in examples], probabilities=probabilities or None)

    def explain(self, model: str, examples: list[Any], n: int = 5) -> Predicted:
        """Predict each example, and return the learned examples that decide: the `n` support vectors with the largest
        contributions to the score.

        examples: a list of x, even for one x.
        """
        return self._client.predict(model, [{"x": x} for x in examples], explain=n)

    def ask(self, model: str, n: int = 1, annotator: str | None = None) -> Queries:
        """Ask for the questions whose labels teach the model most. Each question has an id, an x and a lease.

        Nobody else gets these questions until `expires_at`. Answer with `answer`, and only if you know the label.
        annotator: who will answer. Omit it to answer as yourself.
        """
        return self._client.query(model, n=n, annotator=annotator or self._name())

    def answer(self, model: str, id: str, label: Label, lease: str) -> Learned:  # noqa: A002
        """Answer a question of `ask`: the model learns this label at once.

        id and lease: as in the question. label: a class of the model, or a new class. The lease names the annotator.
        """
        return self._client.learn(model, [{"id": id, "y": label, "lease": lease}])

    def figures(self, model: str) -> dict[str, Any]:
        """Return how well a model does: examples, classes, accuracy and balanced accuracy of the newest examples
        (`window`), whether the world has changed (`drift`), and the unlabelled examples that wait (`pool`).
        """
        described: dict[str, Any] = {**self._client.model(model)}
        metrics = described.get("metrics", {})
        return {
            **{name: described[name] for name in DESCRIBED if name in described},
            **{name: metrics[name] for name in MEASURED if name in metrics},
        }

    def _name(self) -> str:
        if self._annotator is None:
            self._annotator = self._client.key()["name"]
        return self._annotator


def server_of(tools: Tools) -> MCPServer[Any]:
    """Return the server of these tools. It calls each tool in a thread."""
    with needed("mcp", "hinged mcp"):
        from mcp.server import MCPServer  # noqa: PLC0415
        from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
        from mcp.types import ToolAnnotations  # noqa: PLC0415

    def refusing(call: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        @functools.wraps(call)
        def tool(*args: Arguments.args, **named: Arguments.kwargs) -> Answer:
            try:
                return call(*args, **named)
            except HingedError as error:
                raise ToolError(sentence(error)) from error

        return tool

    server = MCPServer(NAME, instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    reading: Sequence[Callable[..., Any]] = (tools.models, tools.predict, tools.explain, tools.figures)
    changing: Sequence[Callable[..., Any]] = (tools.ask, tools.answer)
    for call in (*reading, *changing):
        hints = ToolAnnotations(read_only_hint=call in reading, destructive_hint=False)
        server.add_tool(refusing(call), annotations=hints)
    return server


@click.command(epilog="Example: HINGED_KEY=... hinged mcp --url http://127.0.0.1:8000")
@click.option("--annotator", metavar="NAME", help="Name under which the agent answers.  [the key's name, or agent]")
@asks
def mcp(client: Client, *, annotator: str | None) -> None:
    """Offer the models of a server to an agent, over stdin and stdout.

    The command speaks the Model Context Protocol until its input ends. The agent has the rights of the key.
    """
    server_of(Tools(client, annotator, keyed=bool(os.environ.get("HINGED_KEY")))).run()
