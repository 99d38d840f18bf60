"""Other limits than those of service/limits.py: of this process for a while, or of a server that is started so.

As a program it is `hinged serve` with the limits in PYTEST_LIMITS, and not for users.
"""

import json
import os
from contextlib import contextmanager
from unittest.mock import patch

from hinged.service import limits


@contextmanager
def limited(**changes):
    """The limits named here, in lower case, are others as long as this lasts."""
    others = {name.upper(): value for name, value in changes.items()}
    assert others.keys() <= vars(limits).keys(), others
    with patch.dict(vars(limits), others):
        yield


if __name__ == "__main__":
    from hinged.commands.cli import main

    with limited(**json.loads(os.environ["PYTEST_LIMITS"])):
        main()
