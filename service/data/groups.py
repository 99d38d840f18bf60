"""How people see the parts of a configuration: in groups. The parts of some groups take effect at once."""

from __future__ import annotations

from typing import Any

GROUPS: tuple[dict[str, Any], ...] = (
    {
        "title": "How it learns",
        "about": "With the solver auto, a race finds solver and C. To set C, choose a solver, such as lasvm. A higher "
        "C follows single examples more closely.",
        "parts": ["solver", "kernel", "features", "classes", "class_weight"],
        "at_once": False,
    },
    {
        "title": "What it forgets",
        "about": "Set a half-life or a window if old examples are no longer true.",
        "parts": ["half_life", "window", "points_max", "when_full"],
        "at_once": False,
    },
    {
        "title": "Decisions and promises",
        "about": "Costs of errors, limits, error rates, alarms, novelty, probabilities. A change takes effect at once.",
        "parts": ["costs", "capacity", "explore", "promise", "alarm", "novelty", "watch", "segments", "calibration"],
        "at_once": True,
    },
    {
        "title": "Labels and receipts",
        "about": "How the server asks people, what they see, and whether answers can be proved. Takes effect at once.",
        "parts": ["labels", "show", "receipts"],
        "at_once": True,
    },
    {
        "title": "Arithmetic",
        "about": "These parts rarely need a change.",
        "parts": ["precision", "seed", "rules"],
        "at_once": False,
    },
)
"""Groups of the parts of a configuration, as people see them. Parts that are in no group belong to the first.

The parts of a group with `at_once` affect no solver, so a change needs no retraining.
"""

FIXED = ("features", "classes")
"""Parts that cannot be changed after the model is created."""
