"""The classifier for River that needs no settings: a model of the server inside this program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from river import base

from hinged.local.inputs import NAMED, TEXT, inputs_of
from hinged.local.model import LocalModel
from hinged.local.parts import label_of, parts_of
from hinged.service.data.classes import score_name
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.view import Decided
from hinged.solvers.core.parameters import check, number

X = dict[base.typing.FeatureName, Any] | str
"""An x: values by name, or a text."""

WEIGHT = {"w": number(least=0.0)}


@dataclass(eq=False, repr=False)
class RiverClassifier(base.Classifier):
    """A classifier that finds its settings itself, with the same result as a server's model without settings.

    x is a dictionary of numbers, strings, booleans, dates and None, or a text. Names and labels may appear at any time.
    A missing number counts as the mean.

    Parameters
    ----------
    solver : str or None, default None
        Name of a solver, such as 'lasvm', 'bsca' or 'auto' (a race). None: 'lasvm' if C or a number for gamma is given,
        else 'auto'.
    C : float or None, default None
        Upper bound of a dual coefficient: the price of an error. None: found by the race, or the solver's default.
    kernel : {'rbf', 'laplacian', 'linear', 'polynomial'} or None, default None
        Kernel. None: 'rbf', or 'linear' for texts.
    gamma : float, 'scale' or None, default None
        Factor of the kernel, > 0. 'scale' and None: found from the first 1,000 examples.
    columns : dict or None, default None
        Kinds of features of strings by name: 'text', 'category' or 'time'. Other strings are categories, dates, or left
        out if nearly all strings differ.
    class_weight : dict or None, default None
        Factor of C for each label; 1 for labels without an entry.
    half_life : int or None, default None
        Number of examples after which an example counts half. None: never, except in machines of the race.
    seed : int, default 0
        Seed of the solver's random draws.
    configuration : dict or None, default None
        Further parts of a server's configuration, such as ``{'points_max': 5000}``.

    See Also
    --------
    hinged.sklearn.HingedClassifier : The same model for scikit-learn.

    Examples
    --------
    >>> from hinged.river import HingedClassifier
    >>> model = HingedClassifier()
    >>> for amount, shop, label in [(12.5, "bakery", "fine"), (900, "jeweller", "fraud"), (None, "baker", "fine")] * 20:
    ...     model.learn_one({"amount": amount, "shop": shop}, label)
    >>> model.predict_one({"amount": 870, "shop": "jeweller"})
    'fraud'
    """

    solver: str | None = None
    C: float | None = None
    kernel: str | None = None
    gamma: float | str | None = None
    columns: dict[str, str] | None = None
    class_weight: dict[base.typing.ClfTarget, float] | None = None
    half_life: int | None = None
    seed: int = 0
    configuration: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid parameter."""
        self._local: LocalModel | None = None
        self._new(NAMED)

    def _new(self, form: str) -> LocalModel:
        """Return a model without examples."""
        weights = self.class_weight and {score_name(label_of(y)): w for y, w in self.class_weight.items()}
        return LocalModel.create(parts_of(self, {"type": form}, seed=self.seed, class_weight=weights))

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: X, y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x : dict or str
            Values by name, or a text. The first x decides which of the two.
        y : str, int or bool
            Label.
        w : float, default 1.0
            Weight, >= 0: a factor of the example's C, or of its step if the solver has no C. With 0 the example is not
            learned.

        Raises
        ------
        ValueError
            The example or its weight is invalid; then nothing has changed.
        """
        check({"w": w}, WEIGHT)
        local = self._local or self._new(NAMED if isinstance(x, Mapping) else TEXT)
        inputs, labels = inputs_of([x], local.configuration), [label_of(y)]
        if w > 0:
            local.learn(inputs, labels, () if w == 1 else [w])
            self._local = local

    def predict_one(self, x: X, **_: Any) -> base.typing.ClfTarget | None:
        """Predict a label.

        Parameters
        ----------
        x : dict or str
            Values by name, or a text.

        Returns
        -------
        label or None
            None before the first example.
        """
        if self._local is None:
            return None
        number = int(self._decided(self._local, x).numbers[0])
        return None if number == UNKNOWN else self._local.labels[number]

    def predict_proba_one(self, x: X, **_: Any) -> dict[base.typing.ClfTarget, float]:
        """Predict probabilities, calibrated on the predictions from before each example was learned.

        Parameters
        ----------
        x : dict or str
            Values by name, or a text.

        Returns
        -------
        dict
            Probability of each label; empty before the first example.
        """
        if self._local is None:
            return {}
        decided = self._decided(self._local, x)
        return dict(zip(self._local.labels, self._local.probabilities(decided)[0].tolist(), strict=True))

    def decision_one(self, x: X) -> dict[base.typing.ClfTarget, float]:
        """Compute decision values.

        Parameters
        ----------
        x : dict or str
            Values by name, or a text.

        Returns
        -------
        dict
            Decision value of each label; empty before the first example. With two labels, the decision values differ
            only in their sign.
        """
        if self._local is None:
            return {}
        scores = self._local.scores(self._decided(self._local, x))[0]
        return dict(zip(self._local.labels, scores.tolist(), strict=True))

    def _decided(self, local: LocalModel, x: X) -> Decided:
        return local.decide(inputs_of([x], local.configuration))
