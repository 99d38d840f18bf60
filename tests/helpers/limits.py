"""Replace limits of service/limits.py, in this process for a while or in a server.

As a program it is `hinged serve` with the limits in PYTEST_LIMITS. Not a program for users.
"""

import json
import os
from contextlib import contextmanager
from unittest.mock import patch

from hinged.service import limits


@contextmanager
def limited(**changes):
    """Replace the limits with these names (in lower case) while the block runs."""
    replaced = {name.upper(): value for name, value in changes.items()}
    assert replaced.keys() <= vars(limits).keys(), replaced
    with patch.dict(vars(limits), replaced):
        yield


if __name__ == "__main__":
    from hinged.commands.cli import main

    with limited(**json.loads(os.environ["PYTEST_LIMITS"])):
        main()
