"""The lines that `fit` prints with `verbose`."""

from __future__ import annotations


def tell(stage: str, points: float | None, gap: float | None, violating: int | None = None) -> None:
    """Print what a stage of `fit` led to. A figure that the solver does not have is left out."""
    figures = [
        f"{points:,} points" if points else "",
        f"duality gap {gap:.3g}" if gap is not None else "",
        f"{violating:,} other examples violate" if violating is not None else "",
    ]
    print(f"{stage}: {', '.join(filter(None, figures))}", flush=True)  # noqa: T201
