"""What the methods of the clients return, for type checkers and editors: the answers of the server's routes.

And three answers of the client's own, where its second try found that the first had done it: all that is known then.
"""

from typing import Literal, TypedDict

from hinged.answers import *


class ReleasedBefore(TypedDict):
    """The lease is gone already."""

    released: Literal[True]


class SkippedBefore(TypedDict):
    """The lease is gone already."""

    skipped: Literal["me", "all"]


class RetiredBefore(TypedDict):
    """The challenger is gone already."""

    shadow: str
    deleted: Literal[True]
