"""Types of the values that the clients' methods return, for type checkers and editors.

Four types exist only in the client. A method returns such an answer if a retry finds that the first try had already
succeeded.
"""

from hinged.answers import *
from hinged.operations.hooks import RemovedHookBefore  # noqa: F401  users import these names
from hinged.operations.labels import ReleasedBefore, SkippedBefore  # noqa: F401
from hinged.operations.models import RetiredBefore  # noqa: F401
