"""Operations on models and their challengers: create, describe, change, delete."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from hinged.answers import (
    Certified,
    Challengers,
    Changed,
    Columns,
    Created,
    Deleted,
    Described,
    Finished,
    History,
    LeftOut,
    Overview,
    Retired,
    Summary,
    Thresholds,
)
from hinged.operations.base import LONG_S, Call, Operation


class RetiredBefore(TypedDict):
    """The answer to a repeated retire. The challenger was already removed."""

    shadow: str
    deleted: Literal[True]


class ModelOperations:
    """The clients' methods for a model as a whole."""

    @Operation("PUT", "/models/{model}", role="admin").asked
    def create_model(self, /, model: str, **configuration: Any) -> Call[Created]:
        """Create a model. Repeating the same configuration changes nothing; a different configuration is a conflict
        (409).
        """
        return Call(configuration)

    @Operation("GET", "/models", role="reader").asked
    def models(self, *, full: bool = False) -> Call[list[Summary]]:
        """List all models of the server. full: whether to include every default of their configurations."""
        return Call(query={"full": full or None}, part="models")

    @Operation("GET", "/overview", role="reader").asked
    def overview(self) -> Call[Overview]:
        """Return a few figures of every model, without waiting for any model."""
        return Call()

    @Operation("GET", "/models/{model}/history", role="reader").asked
    def history(self, model: str, *, after: int | None = None) -> Call[History]:
        """Return the learning curves of a model and its challengers, with their marks, starting after a position of the
        log.
        """
        return Call(query={"from": after})

    @Operation("GET", "/models/{model}", role="reader").asked
    def model(self, model: str, *, full: bool = False) -> Call[Described]:
        """Return the configuration, position and figures of one model. full: whether to include every default of the
        configuration.
        """
        return Call(query={"full": full or None})

    @Operation("GET", "/models/{model}/columns", role="reader").asked
    def columns(self, model: str) -> Call[Columns]:
        """Return what the server made of each name of x, and how much the predictions depend on it."""
        return Call()

    @Operation("GET", "/models/{model}/thresholds", role="reader").asked
    def thresholds(self, model: str, *, label: str | None = None, beta: float | None = None) -> Call[Thresholds]:
        """Return what each threshold on the probability of a class would have meant. label: the name of the class, as
        in `scores`; by default the class whose misses cost more, else the less frequent class. beta: how many times as
        important recall is as precision, in `f_beta`; by default 1.
        """
        return Call(query={"class": label, "beta": beta})

    @Operation("DELETE", "/models/{model}", role="admin").asked
    def delete_model(self, model: str) -> Call[Deleted]:
        """Delete a model and its log."""
        return Call(gone={"model": model, "deleted": True})

    @Operation("PATCH", "/models/{model}", role="admin").asked
    def change_model(self, /, model: str, **changes: Any) -> Call[Changed]:
        """Change parts of a configuration. Return a {"certificate"}, or the {"job"} that retrains the model."""
        return Call(changes, timeout_s=LONG_S)

    @Operation("GET", "/models/{model}/certificate", role="reader").asked
    def certificate(self, model: str) -> Call[Certified]:
        """Return how good the solution is: its duality gap, how far it violates the optimality conditions, and the
        weight degradation that a budget has caused.
        """
        return Call()

    @Operation("GET", "/models/{model}/loo", role="reader").asked
    def leave_one_out(self, model: str) -> Call[LeftOut]:
        """Return the exact solver's leave-one-out error."""
        return Call(timeout_s=LONG_S)

    @Operation("POST", "/models/{model}/finish", role="writer").asked
    def finish(self, model: str, *, epochs: int | None = None, timeout_s: float = LONG_S) -> Call[Finished]:
        """Let the solver optimise over its points until it converges; with epochs, over its whole log."""
        body = None if epochs is None else {"epochs": epochs}
        return Call(body, timeout_s=timeout_s)

    @Operation("GET", "/models/{model}/shadows", role="reader").asked
    def shadows(self, model: str, *, full: bool = False) -> Call[Challengers]:
        """Return the model and its challengers, each with the metrics of its own predictions.

        full: whether to include every default of their configurations.
        """
        return Call(query={"full": full or None})

    @Operation("PUT", "/models/{model}/shadows/{shadow}", role="admin").asked
    def challenge(self, /, model: str, shadow: str, **changes: Any) -> Call[Changed]:
        """Start a challenger, with the model's configuration and these changes. The challenger learns along with the
        model.
        """
        return Call(changes)

    @Operation("DELETE", "/models/{model}/shadows/{shadow}", role="admin").asked
    def retire(self, model: str, shadow: str) -> Call[Retired | RetiredBefore]:
        """Retire a challenger."""
        return Call(gone={"shadow": shadow, "deleted": True})

    @Operation("POST", "/models/{model}/shadows/{shadow}/promote", role="admin").asked
    def promote(self, model: str, shadow: str) -> Call[Changed]:
        """Let a challenger replace the model.

        This request is never retried: a retry would not find the challenger any more.
        """
        return Call(once=True)
