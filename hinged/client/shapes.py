"""Types of the values that the clients' methods return, for type checkers and editors.

Three of them are the client's own: the answers when a retry finds that the first try had already done the work.
"""

from hinged.answers import *
from hinged.operations.labels import ReleasedBefore, SkippedBefore  # noqa: F401  for users
from hinged.operations.models import RetiredBefore  # noqa: F401
