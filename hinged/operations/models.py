"""Models and their challengers: made, described, changed."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from hinged.answers import (
    Certified,
    Challengers,
    Changed,
    Created,
    Deleted,
    Described,
    Finished,
    History,
    LeftOut,
    Overview,
    Retired,
    Summary,
)
from hinged.operations.base import LONG_S, Call, operation


class RetiredBefore(TypedDict):
    """The challenger is gone already."""

    shadow: str
    deleted: Literal[True]


class ModelOperations:
    """What is asked of a model as a whole."""

    @operation("PUT", "/models/{model}", role="admin")
    def create_model(self, /, model: str, **configuration: Any) -> Call[Created]:
        """Create a model; the same configuration again changes nothing, another one is a conflict (409)."""
        return Call(configuration)

    @operation("GET", "/models", role="reader")
    def models(self, *, full: bool = False) -> Call[list[Summary]]:
        """All models of the server, as it lists them. full: with every default of their configurations."""
        return Call(query={"full": full or None}, part="models")

    @operation("GET", "/overview", role="reader")
    def overview(self) -> Call[Overview]:
        """All models in a few figures, waiting for none of them."""
        return Call()

    @operation("GET", "/models/{model}/history", role="reader")
    def history(self, model: str, *, after: int | None = None) -> Call[History]:
        """Learning curves of a model and its challengers, behind a position of the log, and what happened."""
        return Call(query={"from": after})

    @operation("GET", "/models/{model}", role="reader")
    def model(self, model: str, *, full: bool = False) -> Call[Described]:
        """Configuration, position and figures of one model. full: with every default of its configuration."""
        return Call(query={"full": full or None})

    @operation("DELETE", "/models/{model}", role="admin")
    def delete_model(self, model: str) -> Call[Deleted]:
        """Delete a model and its log."""
        return Call(gone={"model": model, "deleted": True})

    @operation("PATCH", "/models/{model}", role="admin")
    def change_model(self, /, model: str, **changes: Any) -> Call[Changed]:
        """Change parts of a configuration: {"certificate"}, or {"job"} while the model is taught anew."""
        return Call(changes, timeout_s=LONG_S)

    @operation("GET", "/models/{model}/certificate", role="reader")
    def certificate(self, model: str) -> Call[Certified]:
        """How good the solution is: gap, violation of the optimality conditions, what the budget cost."""
        return Call()

    @operation("GET", "/models/{model}/loo", role="reader")
    def leave_one_out(self, model: str) -> Call[LeftOut]:
        """The exact solver's leave-one-out error."""
        return Call(timeout_s=LONG_S)

    @operation("POST", "/models/{model}/finish", role="writer")
    def finish(self, model: str, *, epochs: int | None = None, timeout_s: float = LONG_S) -> Call[Finished]:
        """Let the solver work on what it has learned until it has converged, or for so many epochs."""
        body = None if epochs is None else {"epochs": epochs}
        return Call(body, timeout_s=timeout_s)

    @operation("GET", "/models/{model}/shadows", role="reader")
    def shadows(self, model: str, *, full: bool = False) -> Call[Challengers]:
        """The model and its challengers, each with the metrics of its own predictions.

        full: with every default of their configurations.
        """
        return Call(query={"full": full or None})

    @operation("PUT", "/models/{model}/shadows/{shadow}", role="admin")
    def challenge(self, /, model: str, shadow: str, **changes: Any) -> Call[Changed]:
        """A challenger that learns beside the model, of its configuration with these changes."""
        return Call(changes)

    @operation("DELETE", "/models/{model}/shadows/{shadow}", role="admin")
    def retire(self, model: str, shadow: str) -> Call[Retired | RetiredBefore]:
        """Give a challenger up."""
        return Call(gone={"shadow": shadow, "deleted": True})

    @operation("POST", "/models/{model}/shadows/{shadow}/promote", role="admin")
    def promote(self, model: str, shadow: str) -> Call[Changed]:
        """Let a challenger take the model's place.

        Tried once: a second try would find it gone.
        """
        return Call(once=True)
