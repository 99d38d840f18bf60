"""The solvers as a River classifier, which learns one dictionary of features at a time. Needs hinged[river]."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from river import base

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.elementary import exp
from hinged.solvers.core.families import KERNELS
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.parameters import NONE, check, integer, number, one_of, rules_of
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.states import BOUND_MAX
from hinged.solvers.estimators.base import Learner
from hinged.solvers.estimators.parameters import COUNT, RULES
from hinged.solvers.estimators.probabilities import FEWEST, inverse_temperature
from hinged.solvers.estimators.scaling import DENSE, LARGEST, PLAIN, Scale, found, matrix_of, plain, until_found

Array = np.ndarray[Any, Any]

RIVER_S = {
    **RULES,
    "solver": NONE | one_of(*SOLVERS),
    "C": NONE | RULES["C"],
    "kernel": one_of(*KERNELS),
    "precision": NONE | RULES["precision"],
    "warmup": integer(1),
    "features_max": COUNT,
    "seed": integer(0, 2**63 - 1),
}
"""Rules of the classifier's own parameters."""

OF_ALL = frozenset({"points_max", "when_full"})
"""Parameters that every solver has, and that do not decide between 'auto' and 'lasvm'."""

WEIGHT = {"w": number(least=0.0)}


class SVMClassifier(base.Classifier):
    """An online kernel SVM for numbers by name; features may appear and disappear, and a missing feature is 0.

    New labels and features may appear at any time. The order of a dictionary's features does not affect the model.

    Parameters
    ----------
    solver : str or None, default None
        Name of the solver, for example 'lasvm', 'lasvm-g', 'bsca', 'bsgd', 'tracking-2', 'exact' or 'auto' (a race).
        None is a server's rule: 'lasvm' if C, a number for gamma or a parameter of LASVM is given, else 'auto'.
    C : float or None, default None
        Upper bound of a dual coefficient: the price of an error. Larger values fit the examples more closely. None: 1,
        or found by the race.
    kernel : {'linear', 'polynomial', 'rbf', 'laplacian'}, default 'rbf'
        Kernel: x.z, (gamma x.z + coef0)^degree, exp(-gamma |x - z|^2) or exp(-gamma |x - z|_1).
    gamma : float or 'scale', default 'scale'
        Factor of the kernel, > 0. 'scale' (or 'auto') is 1 / total variance of the warm-up.
    degree : int, default 3
        Degree of the polynomial kernel, from 1 to 16.
    coef0 : float, default 0.0
        Constant of the polynomial kernel, >= 0.
    scale : 'auto' or None, default 'auto'
        'auto' brings the features to a common scale, found from the first `warmup` examples. After 1, 2, 4,
        8, ... of these examples, the scale is found again and the examples are learned again. None uses numbers
        unchanged.
    warmup : int, default 1000
        Number of examples from which scales and gamma are found.
    class_weight : dict or None, default None
        Factor of C for each label; 1 for labels without an entry.
    features_max : int, default 1024
        Maximum number of different features; the classifier refuses any further feature.
    precision : {'float32', 'float64'} or None, default None
        Precision of points and kernel values; None for the solver's default.
    seed : int, default 0
        Seed of the solver's random draws.
    **parameters
        Parameters of the solver, such as tol, points_max, when_full or budget.

    See Also
    --------
    HingedClassifier : Takes strings, dates and None, and finds its settings.
    hinged.sklearn.LASVMClassifier : The same solvers for scikit-learn.

    Examples
    --------
    >>> from hinged.river import SVMClassifier
    >>> model = SVMClassifier("lasvm", C=10.0)
    >>> for warm, label in [(0.1, "rain"), (0.9, "sun"), (0.2, "rain"), (0.8, "sun")]:
    ...     model.learn_one({"warm": warm}, label)
    >>> model.predict_one({"warm": 0.7})
    'sun'
    """

    def __init__(
        self,
        solver: str | None = None,
        C: float | None = None,
        kernel: str = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        scale: str | None = "auto",
        warmup: int = 1000,
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
        self.scale = scale
        self.warmup = warmup
        self.class_weight = class_weight
        self.features_max = features_max
        self.precision = precision
        self.seed = seed
        self.parameters = parameters
        own = {name: getattr(self, name) for name in RIVER_S.keys() & vars(self).keys()}
        found = C is None and isinstance(gamma, str) and parameters.keys() <= OF_ALL
        self._solver = solver if solver is not None else "auto" if found else "lasvm"
        of_solver = rules_of(SOLVERS[self._solver].make) if self._solver in SOLVERS else {}
        check({**own, **parameters}, {**of_solver, **RIVER_S})
        self._places: dict[Hashable, int] = {}
        self._numbers: dict[base.typing.ClfTarget, int] = {}
        self._scale: Scale = plain(features_max)
        # During the warm-up: columns, values, class and weight of each example.
        self._warming = scale is not None or isinstance(gamma, str)
        self._observed: list[tuple[Array, Array, int, float]] = []
        self._warmup = min(warmup, parameters.get("points_max") or warmup)
        self._learner = self._new_learner(1.0)
        self._inverse, self._temperature_due = 1.0, FEWEST

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x : dict
            Finite numbers by feature name.
        y : str, int or bool
            Label.
        w : float, default 1.0
            Weight, >= 0: a factor of the example's C, or of its step if the solver has no C. With 0 the example is not
            learned.

        Raises
        ------
        ValueError
            The example is invalid or has too many new features (then nothing has changed), or the solver is full.
        """
        self._check_weight(y, w)
        if w == 0:
            return
        indices, values, places = self._row(x)
        rows = self._rows(np.array([0, indices.size]), indices, values)
        if y not in self._numbers:
            self._learner.solver.add_class(self._weight(y))
            self._numbers[y] = len(self._numbers)
        due = self._warming and until_found(len(self._observed), self._warmup) == 1
        if self._warming:
            self._observed.append((indices, values, self._numbers[y], float(w)))
        if due:
            self._begin_anew()
        else:
            self._learner.learn(rows, np.array([self._numbers[y]]), _weights([w]))
        self._places = places
        if self._learner.numbered >= self._temperature_due:
            self._find_temperature()

    def _check_weight(self, y: base.typing.ClfTarget, w: float) -> None:
        check({"w": w}, WEIGHT)
        solver, factor = self._learner.solver, self._weight(y) * w
        if w and not (solver.C * factor > 0 and solver.C_max * factor < BOUND_MAX):
            raise ValueError(f"C times the weight of an example must be > 0 and < {BOUND_MAX:g}, got w = {w!r}")
        if w not in (0, 1):
            solver.check_weights(np.ones(1), 1)

    def predict_one(self, x: dict[base.typing.FeatureName, Any], **_: Any) -> base.typing.ClfTarget | None:
        """Predict the label with the largest decision value.

        Parameters
        ----------
        x : dict
            Finite numbers by feature name.

        Returns
        -------
        label or None
            None before the first example.
        """
        scores = self.decision_one(x)
        return max(scores, key=lambda label: scores[label]) if scores else None

    def predict_proba_one(self, x: dict[base.typing.FeatureName, Any], **_: Any) -> dict[base.typing.ClfTarget, float]:
        """Predict probabilities: a softmax of decision values at a fitted temperature.

        The temperature maximises the likelihood of the newest 1,000 examples, whose decision values were computed just
        before each was learned. So probabilities order the labels as `decision_one` does.

        Parameters
        ----------
        x : dict
            Finite numbers by feature name.

        Returns
        -------
        dict
            Probability of each label; empty before the first example.
        """
        scores = self.decision_one(x)
        most = max(scores.values(), default=0.0)
        powers = [exp(self._inverse * (score - most)) for score in scores.values()]
        return {label: power / sum(powers) for label, power in zip(scores, powers, strict=True)}

    def decision_one(self, x: dict[base.typing.FeatureName, Any]) -> dict[base.typing.ClfTarget, float]:
        """Compute decision values.

        Parameters
        ----------
        x : dict
            Finite numbers by feature name.

        Returns
        -------
        dict
            Decision value of each label; with two labels, plus and minus half of the single decision value.
        """
        if not self._numbers:
            return {}
        indices, values, _ = self._row(x)
        scores = self._learner.decision(self._rows(np.array([0, indices.size]), indices, values))[0]
        if scores.size == 1:
            scores = np.array([-0.5, 0.5])[: len(self._numbers)] * scores
        return dict(zip(self._numbers, scores.tolist(), strict=True))

    def _new_learner(self, gamma: float) -> Learner:
        """Return a solver without examples. gamma: the value of "scale"."""
        given = gamma if isinstance(self.gamma, str) else self.gamma
        return Learner(
            self._solver,
            make_kernel(self.kernel, given, self.degree, self.coef0),
            self.features_max,
            precision=self.precision,
            **({} if self.C is None else {"C": self.C}),
            seed=self.seed,
            **self.parameters,
        )

    def _weight(self, y: base.typing.ClfTarget) -> float:
        return (self.class_weight or {}).get(y, 1.0)

    def _begin_anew(self) -> None:
        """Find scales and gamma from the warm-up examples so far, and learn these examples again."""
        indptr = np.cumsum([0, *(indices.size for indices, *_ in self._observed)])
        indices, values = (np.concatenate([part[k] for part in self._observed]) for k in (0, 1))
        order = np.lexsort((indices, np.repeat(np.arange(len(self._observed)), np.diff(indptr))))
        csr = indptr, indices[order], values[order]
        self._scale = found(DENSE if self.scale else PLAIN, csr, self.features_max)
        spread = float(matrix_of(self._scale.rows(csr), self.features_max).var(axis=0).sum())
        self._learner = self._new_learner(1.0 / spread if spread > 0 else 1.0)
        for label in self._numbers:
            self._learner.solver.add_class(self._weight(label))
        _, _, numbers, weights = zip(*self._observed, strict=True)
        self._learner.learn(self._rows(*csr), np.array(numbers), _weights(weights))
        if len(self._observed) == self._warmup:
            self._warming, self._observed = False, []

    def _find_temperature(self) -> None:
        """Fit the temperature.

        Repeat the fit only after a tenth more examples, so that it depends only on the stream.
        """
        scores, classes = self._learner.heard
        self._temperature_due = self._learner.numbered + 1
        if len(classes) >= FEWEST:  # the decision values are for the current number of labels
            self._inverse = inverse_temperature(scores, classes)
            self._temperature_due += self._learner.numbered // 10

    def _rows(self, indptr: Array, indices: Array, values: Array) -> Rows:
        """Return a CSR batch in the current scale."""
        if self._scale.form == DENSE:
            return self._learner.dense_rows(self._scale.matrix(matrix_of((indptr, indices, values), self.features_max)))
        return self._learner.sparse_rows(indptr, indices, values)

    def _row(self, x: dict[base.typing.FeatureName, Any]) -> tuple[Array, Array, dict[Hashable, int]]:
        """Return the columns and values of an example, and the places of all features after it is learned."""
        places, new = self._places, x.keys() - self._places.keys()
        if new:
            if len(places) + len(new) > self.features_max:
                raise ValueError(f"holds {len(places)} features of at most {self.features_max}; {len(new)} more came")
            ordered = sorted(new, key=lambda name: (type(name).__name__, str(name)))
            places = places | {name: len(places) + k for k, name in enumerate(ordered)}
        values = np.array(list(x.values())) if x else np.zeros(0)
        if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            name, value = next((n, v) for n, v in x.items() if not _is_number(v))
            raise ValueError(
                f"features must be finite numbers, {name!r} is {value!r}; hinged.river.HingedClassifier takes strings "
                "and None"
            )
        if self.scale and values.size and np.abs(values.astype(np.float64)).max() > LARGEST:
            raise ValueError(
                f"features must be within {LARGEST:g} of 0, got {np.abs(values.astype(np.float64)).max():g}"
            )
        indices = np.array([places[name] for name in x], np.int64)
        return indices, values.astype(np.float64), places


def _weights(weights: Sequence[float]) -> Array | None:
    """Return the weights as an array; None if all are 1."""
    return None if all(w == 1.0 for w in weights) else np.array(weights, np.float64)


def _is_number(value: Any) -> bool:
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "biuf" and bool(np.isfinite(array))
