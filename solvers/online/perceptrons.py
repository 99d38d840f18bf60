"""Perceptrons and online gradient descent over a kernel expansion, without and with a budget.

    Perceptron           Rosenblatt, Psychological Review 65, 1958
    AveragedPerceptron   Freund and Schapire, Machine Learning 37, 1999
    OGD                  Kivinen, Smola and Williamson, IEEE Trans. Signal Processing 52, 2004 (NORMA)
    BudgetPerceptron     Crammer, Kandola and Singer, NIPS 16, 2004
    RBP                  Cavallanti, Cesa-Bianchi and Gentile, Machine Learning 69, 2007
    Forgetron            Dekel, Shalev-Shwartz and Singer, SIAM J. Computing 37, 2008 (self-tuned)
    BPAS                 Wang and Vucetic, AISTATS 2010 (BPA-S)
    BOGD                 Zhao, Wang, Wu, Jin and Hoi, ICML 2012 (uniform sampling)

Each is an `UpdateRule` (online.py). The first three have no budget; at points_max with when_full "remove" they remove
the point with the smallest |alpha k(x, .)|, the oldest among equals. C bounds the steps of BPAS and the coefficients of
BOGD; the other solvers do not use it. The weight of a class multiplies the steps of its examples, or their bound.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le

from hinged.solvers.core.kernels import Kernel
from hinged.solvers.online.online import BudgetRuledExpansion, RuledExpansion, check_shrinking
from hinged.solvers.online.rules import ETA_MAX, FORGETTING, PROJECTING, RANDOM, REDUNDANT, RESCALING, UpdateRule

Array = np.ndarray[Any, Any]


class Perceptron(RuledExpansion):
    """The kernel perceptron: a mistake becomes a point with coefficient y times the weight of its class."""


class AveragedPerceptron(RuledExpansion):
    """The averaged perceptron: the mean of the perceptron over all examples visited predicts.

    Keeps alpha and smooth = sum over updates of (examples visited before the update) times the update. The mean is then
    alpha - smooth / visited, and an update costs the same however long the stream is.
    """

    rule = UpdateRule(averages=True)

    def _predicting(self) -> Array:
        visited = np.maximum(self.tally[:, :1], 1.0)
        average: Array = self.machine.alpha - self.machine.smooth / visited
        return average


class OGD(RuledExpansion):
    """Online gradient descent on the hinge loss: f <- (1 - eta lam) f, and + eta y k(x, .) where y f(x) <= 1.

    eta: learning rate, > 0. lam: regularisation, >= 0, with eta lam < 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        eta: Annotated[float, Gt(0), Le(ETA_MAX), "learning rate"] = 0.2,
        lam: Annotated[float, Ge(0), "regularisation; eta lam < 1"] = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        check_shrinking(eta, lam)
        self.rule = UpdateRule(margin=1.0, eta=float(eta), keep=1.0 - eta * lam)


class BudgetPerceptron(BudgetRuledExpansion):
    """The perceptron with margin beta >= 0 that removes the point whose margin without itself is largest.

    `smooth` holds f(x_i) of the points held. The newest point may be removed too.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        beta: Annotated[float, Ge(0), "examples within this margin are learned"] = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self.rule = UpdateRule(margin=float(beta), removal=REDUNDANT)


class RBP(BudgetRuledExpansion):
    """The perceptron that removes a point drawn uniformly."""

    rule = UpdateRule(removal=RANDOM)


class Forgetron(BudgetRuledExpansion):
    """The perceptron that removes its oldest point, after it has shrunk all coefficients as far as its bound asks."""

    rule = UpdateRule(removal=FORGETTING)


class BPAS(BudgetRuledExpansion):
    """Passive-aggressive learning on a budget, with steps bounded by C times the weight of the class.

    It removes the point whose removal costs least when the newest point takes over its projection. The paper minimises
    1/2 |f' - f|^2 + C loss over the point to go and the new coefficient. For each point that coefficient is the
    passive-aggressive step plus alpha_s k(x_s, x) / k(x, x); the loss is then the same for all points.
    """

    bounded = True

    rule = UpdateRule(margin=1.0, aggressive=True, removal=PROJECTING)


class BOGD(BudgetRuledExpansion):
    """OGD (with its eta, lam) that removes a point drawn uniformly; then the other coefficients grow by B / (B - 1).

    Coefficients stay within C times the weight of the class: the paper's gamma eta.
    """

    bounded = True

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        eta: Annotated[float, Gt(0), Le(ETA_MAX), "learning rate"] = 0.2,
        lam: Annotated[float, Ge(0), "regularisation; eta lam < 1"] = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        check_shrinking(eta, lam)
        self.rule = UpdateRule(margin=1.0, eta=float(eta), keep=1.0 - eta * lam, removal=RESCALING)
