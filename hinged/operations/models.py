"""Operations on models and their challengers: create, describe, change, delete."""

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
from hinged.operations.base import LONG_S, Call, Operation


class RetiredBefore(TypedDict):
    """The answer to a repeated retire: the challenger is gone already."""

    shadow: str
    deleted: Literal[True]


class ModelOperations:
    """The clients' methods for a model as a whole."""

    @Operation("PUT", "/models/{model}", role="admin").asked
    def create_model(self, /, model: str, **configuration: Any) -> Call[Created]:
        """Create a model; the same configuration again changes nothing, a different one is a conflict (409)."""
        return Call(configuration)

    @Operation("GET", "/models", role="reader").asked
    def models(self, *, full: bool = False) -> Call[list[Summary]]:
        """List all models of the server. full: with every default of their configurations."""
        return Call(query={"full": full or None}, part="models")

    @Operation("GET", "/overview", role="reader").asked
    def overview(self) -> Call[Overview]:
        """Return a few figures of every model, without waiting for any of them."""
        return Call()

    @Operation("GET", "/models/{model}/history", role="reader").asked
    def history(self, model: str, *, after: int | None = None) -> Call[History]:
        """Return the learning curves of a model and its challengers, with their marks, from after a position of the
        log.
        """
        return Call(query={"from": after})

    @Operation("GET", "/models/{model}", role="reader").asked
    def model(self, model: str, *, full: bool = False) -> Call[Described]:
        """Return configuration, position and figures of one model. full: with every default of its configuration."""
        return Call(query={"full": full or None})

    @Operation("DELETE", "/models/{model}", role="admin").asked
    def delete_model(self, model: str) -> Call[Deleted]:
        """Delete a model and its log."""
        return Call(gone={"model": model, "deleted": True})

    @Operation("PATCH", "/models/{model}", role="admin").asked
    def change_model(self, /, model: str, **changes: Any) -> Call[Changed]:
        """Change parts of a configuration. Returns a {"certificate"}, or a {"job"} that retrains the model."""
        return Call(changes, timeout_s=LONG_S)

    @Operation("GET", "/models/{model}/certificate", role="reader").asked
    def certificate(self, model: str) -> Call[Certified]:
        """Return how good the solution is: gap, violation of the optimality conditions, what the budget cost."""
        return Call()

    @Operation("GET", "/models/{model}/loo", role="reader").asked
    def leave_one_out(self, model: str) -> Call[LeftOut]:
        """Return the exact solver's leave-one-out error."""
        return Call(timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/finish", role="writer").asked
    def finish(self, model: str, *, epochs: int | None = None, timeout_s: float = LONG_S) -> Call[Finished]:
        """Let the solver work on what it has learned until it has converged, or for a number of epochs."""
        body = None if epochs is None else {"epochs": epochs}
        return Call(body, timeout_s=timeout_s)

    @Operation("GET", "/models/{model}/shadows", role="reader").asked
    def shadows(self, model: str, *, full: bool = False) -> Call[Challengers]:
        """Return the model and its challengers, each with the metrics of its own predictions.

        full: with every default of their configurations.
        """
        return Call(query={"full": full or None})

    @Operation("PUT", "/models/{model}/shadows/{shadow}", role="admin").asked
    def challenge(self, /, model: str, shadow: str, **changes: Any) -> Call[Changed]:
        """Start a challenger that learns beside the model, with the model's configuration and these changes."""
        return Call(changes)

    @Operation("DELETE", "/models/{model}/shadows/{shadow}", role="admin").asked
    def retire(self, model: str, shadow: str) -> Call[Retired | RetiredBefore]:
        """Retire a challenger."""
        return Call(gone={"shadow": shadow, "deleted": True})

    @Operation("POST", "/models/{model}/shadows/{shadow}/promote", role="admin").asked
    def promote(self, model: str, shadow: str) -> Call[Changed]:
        """Let a challenger take the model's place.

        Never retried: a retry would find the challenger gone.
        """
        return Call(once=True)
