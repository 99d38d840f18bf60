"""Names that models may have."""

from __future__ import annotations

import re

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
