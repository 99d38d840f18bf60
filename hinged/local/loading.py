"""Loads an estimator of hinged.sklearn from the file of an estimator, or of a model that a server exported."""

from __future__ import annotations

from pathlib import Path

from hinged.frames import decode, kind_of, peek
from hinged.local.classifier import ESTIMATOR, HingedClassifier
from hinged.local.inputs import NAMED, TEXT
from hinged.solvers.estimators import loading
from hinged.solvers.estimators.estimator import SolverEstimator
from hinged.solvers.estimators.loading import EXPORT, MODEL


def load(source: str | Path | bytes) -> SolverEstimator | HingedClassifier:
    """Load an estimator from a file that `save` wrote, or from a model that a server exported.

    Parameters
    ----------
    source : str, Path or bytes
        The file's path, or its content.

    Returns
    -------
    estimator
        A fitted estimator of the class that was saved. For a server's model, the estimator of its solver if x is a row
        of numbers, else a HingedClassifier. Its decision values are the same to the bit, and it continues to learn in
        the same way. ``HingedClassifier.load`` loads every server's model as a HingedClassifier.

    Raises
    ------
    ValueError
        The file is damaged, or has another kind or version. Or the labels of a model have several types.

    See Also
    --------
    HingedClassifier.save : Writes such a file, as does every estimator.

    Examples
    --------
    >>> from hinged.sklearn import LASVMClassifier, load
    >>> model = LASVMClassifier(kernel="linear").fit([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"])
    >>> load(model.to_model_file()).predict([[0.5], [2.5]]).tolist()
    ['low', 'high']
    """
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return HingedClassifier.load(data) if _is_whole_model(data) else loading.load(data)


def _is_whole_model(data: bytes) -> bool:
    """Return whether a file holds a model that only a HingedClassifier can be."""
    if kind_of(data) != EXPORT:
        return False
    facts, arrays = decode(data, EXPORT)
    if ESTIMATOR in facts:
        return True
    learner = peek(arrays["snapshot"].tobytes(), MODEL).get("learner")
    try:
        return learner["configuration"]["features"]["type"] in (NAMED, TEXT)  # type: ignore[index]
    except (KeyError, TypeError):
        return False
