"""Operations on receipts: the newest head of a model's tree, and proofs."""

from __future__ import annotations

from hinged.answers import Headed, Proved
from hinged.operations.base import Call, Operation


class ReceiptOperations:
    """The clients' methods for receipts."""

    @Operation("GET", "/models/{model}/head", role="reader").asked
    def head(self, model: str) -> Call[Headed]:
        """Return the newest head of the Merkle tree over the model's log."""
        return Call()

    @Operation("GET", "/models/{model}/proofs", role="reader").asked
    def proofs(
        self,
        model: str,
        *,
        position: int | None = None,
        example: str | None = None,
        first: int | None = None,
        second: int | None = None,
    ) -> Call[Proved]:
        """Return proofs for the newest head.

        position: prove that the event at this position is in the tree. example: the same, for the event that contains
        the example with this id. first, second: prove that the tree of the first size begins the tree of the second
        size, which is the head's size if it is not given.
        """
        return Call(query={"position": position, "example": example, "first": first, "second": second})
