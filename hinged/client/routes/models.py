"""Models and their challengers: made, described, changed."""

from __future__ import annotations

from typing import Any

from hinged.client.exchange import Call, Exchange, exchange
from hinged.client.methods import route
from hinged.client.routes.asking import FINISH_TIMEOUT_S, Asking
from hinged.client.routes.paths import path_of, path_of_shadow
from hinged.client.shapes import (
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
    RetiredBefore,
    Summary,
)


class ModelRoutes(Asking):
    """What is asked of a model as a whole."""

    @route
    def create_model(self, /, model: str, **configuration: Any) -> Exchange[Created]:
        """Create a model; the same configuration again changes nothing, another one is a conflict (409)."""
        return self._ask("PUT", path_of(model), configuration)

    @route
    def models(self, *, full: bool = False) -> Exchange[list[Summary]]:
        """All models of the server, as it lists them. full: with every default of their configurations."""
        call = Call("GET", "/models", query={"full": full or None}, part="models")
        return exchange(self.url, call, self.tries_max)

    @route
    def overview(self) -> Exchange[Overview]:
        """All models in a few figures, waiting for none of them."""
        return self._ask("GET", "/overview")

    @route
    def history(self, model: str, *, after: int | None = None) -> Exchange[History]:
        """Learning curves of a model and its challengers, behind a position of the log, and what happened."""
        return self._ask("GET", f"{path_of(model)}/history", query={"from": after})

    @route
    def model(self, model: str, *, full: bool = False) -> Exchange[Described]:
        """Configuration, position and figures of one model. full: with every default of its configuration."""
        return self._ask("GET", path_of(model), query={"full": full or None})

    @route
    def delete_model(self, model: str) -> Exchange[Deleted]:
        """Delete a model and its log."""
        return self._ask("DELETE", path_of(model), gone={"model": model, "deleted": True})

    @route
    def change_model(self, /, model: str, **changes: Any) -> Exchange[Changed]:
        """Change parts of a configuration: {"certificate"}, or {"job"} while the model is taught anew."""
        return self._ask("PATCH", path_of(model), changes, timeout_s=FINISH_TIMEOUT_S)

    @route
    def certificate(self, model: str) -> Exchange[Certified]:
        """How good the solution is: gap, violation of the optimality conditions, what the budget cost."""
        return self._ask("GET", f"{path_of(model)}/certificate")

    @route
    def leave_one_out(self, model: str) -> Exchange[LeftOut]:
        """The exact solver's leave-one-out error."""
        return self._ask("GET", f"{path_of(model)}/loo", timeout_s=FINISH_TIMEOUT_S)

    @route
    def finish(
        self, model: str, *, epochs: int | None = None, timeout_s: float = FINISH_TIMEOUT_S
    ) -> Exchange[Finished]:
        """Let the solver work on what it has learned until it has converged, or for so many epochs."""
        body = None if epochs is None else {"epochs": epochs}
        return self._ask("POST", f"{path_of(model)}/finish", body, timeout_s=timeout_s)

    @route
    def shadows(self, model: str, *, full: bool = False) -> Exchange[Challengers]:
        """The model and its challengers, each with the metrics of its own predictions.

        full: with every default of their configurations.
        """
        return self._ask("GET", f"{path_of(model)}/shadows", query={"full": full or None})

    @route
    def challenge(self, /, model: str, shadow: str, **changes: Any) -> Exchange[Changed]:
        """A challenger that learns beside the model, of its configuration with these changes."""
        return self._ask("PUT", path_of_shadow(model, shadow), changes)

    @route
    def retire(self, model: str, shadow: str) -> Exchange[Retired | RetiredBefore]:
        """Give a challenger up."""
        return self._ask("DELETE", path_of_shadow(model, shadow), gone={"shadow": shadow, "deleted": True})

    @route
    def promote(self, model: str, shadow: str) -> Exchange[Changed]:
        """Let a challenger take the model's place.

        Tried once: a second try would find it gone.
        """
        call = Call("POST", f"{path_of_shadow(model, shadow)}/promote")
        return exchange(self.url, call, tries_max=1)
