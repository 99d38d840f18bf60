"""Any solver as a River classifier: one dictionary of features at a time.

    from river import compose, datasets, evaluate, metrics, preprocessing
    from hinged.solvers.estimators.river import SVMClassifier

    model = preprocessing.StandardScaler() | SVMClassifier("lasvm-g", C=10.0, gamma=0.1)
    evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())

Needs River: pip install hinged[river].
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from hinged.solvers.core.elementary import exp
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import Rows
from hinged.solvers.estimators.base import Learner

try:
    from river import base
except ImportError as error:
    raise ImportError("hinged.river needs River: pip install 'hinged[river]'") from error

Array = np.ndarray[Any, Any]


class SVMClassifier(base.Classifier):
    """An online kernel SVM over features that come and go. A feature that an example lacks is 0.

    solver: its name (solvers/catalogue.py). C: upper bound of a coefficient. kernel: "linear", "polynomial", "rbf" or
    "laplacian". class_weight: factors of C by label. features_max: features that may ever come; one more is refused.
    precision: "float32" or "float64", of points and kernel values; None for what the solver has by itself. seed: of the
    solver's draws. parameters: the solver's own, such as tol, points_max or when_full.

    Labels may come at any time. Features have no order: the same stream gives the same model, however its
    dictionaries are sorted.
    """

    def __init__(
        self,
        solver: str = "lasvm",
        C: float = 1.0,
        kernel: str = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict[base.typing.ClfTarget, float] | None = None,
        features_max: int = 1024,
        precision: str | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        self.solver = solver
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.features_max = features_max
        self.precision = precision
        self.seed = seed
        self.parameters = parameters
        self._learner = Learner(
            solver,
            make_kernel(kernel, gamma, degree, coef0),
            features_max,
            precision=precision,
            C=C,
            seed=seed,
            **parameters,
        )
        self._places: dict[Hashable, int] = {}
        self._numbers: dict[base.typing.ClfTarget, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget) -> None:
        """Learn one example. ValueError, before anything changes, where it does not fit."""
        rows, places = self._row(x)
        if y not in self._numbers:
            self._learner.solver.add_class((self.class_weight or {}).get(y, 1.0))
            self._numbers[y] = len(self._numbers)
        self._learner.learn(rows, np.array([self._numbers[y]]))
        self._places = places

    def predict_one(self, x: dict[base.typing.FeatureName, Any], **_: Any) -> base.typing.ClfTarget | None:
        """The label of the largest decision value; None before the first example."""
        scores = self.decision_one(x)
        return max(scores, key=lambda label: scores[label]) if scores else None

    def predict_proba_one(self, x: dict[base.typing.FeatureName, Any], **_: Any) -> dict[base.typing.ClfTarget, float]:
        """Softmax of the decision values: they order examples as these do, and are not calibrated."""
        scores = self.decision_one(x)
        most = max(scores.values(), default=0.0)
        powers = [exp(score - most) for score in scores.values()]
        return {label: power / sum(powers) for label, power in zip(scores, powers, strict=True)}

    def decision_one(self, x: dict[base.typing.FeatureName, Any]) -> dict[base.typing.ClfTarget, float]:
        """The decision value of each label; of two labels half the one value, with either sign."""
        if not self._numbers:
            return {}
        scores = self._learner.solver.decision(self._row(x)[0])[0]
        if scores.size == 1:
            scores = np.array([-0.5, 0.5])[: len(self._numbers)] * scores
        return dict(zip(self._numbers, scores.tolist(), strict=True))

    def _row(self, x: dict[base.typing.FeatureName, Any]) -> tuple[Rows, dict[Hashable, int]]:
        """An example as a row, and the places of the features once it is learned."""
        places, new = self._places, x.keys() - self._places.keys()
        if new:
            if len(places) + len(new) > self.features_max:
                raise ValueError(f"holds {len(places)} features of at most {self.features_max}; {len(new)} more came")
            ordered = sorted(new, key=lambda name: (type(name).__name__, str(name)))
            places = places | {name: len(places) + k for k, name in enumerate(ordered)}
        values = np.array(list(x.values())) if x else np.zeros(0)
        if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            name, value = next((n, v) for n, v in x.items() if not _is_number(v))
            raise ValueError(f"features must be finite numbers, {name!r} is {value!r}")
        indices = np.array([places[name] for name in x], np.int64)
        return self._learner.sparse_rows(np.array([0, indices.size]), indices, values), places


def _is_number(value: Any) -> bool:
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "biuf" and bool(np.isfinite(array))
