"""What the methods of the clients return, for type checkers and editors: the answers of the server's routes.

And three answers of the client's own, where its second try found that the first had done it: all that is known then.
"""

from hinged.answers import *
from hinged.operations.labels import ReleasedBefore, SkippedBefore  # noqa: F401  for users
from hinged.operations.models import RetiredBefore  # noqa: F401
