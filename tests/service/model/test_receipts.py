"""The tree of the receipts, against the definitions of RFC 9162 in plain recursion."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.commands.verify import Wrong, check_consistency, climb
from hinged.service.model.receipts import GONE, Leaves, Tree, commitment_of, leaf_of


def mth(leaves):
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return hashlib.sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def split(n):
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def path(m, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    return [*path(m, leaves[:k]), mth(leaves[k:])] if m < k else [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m, leaves, whole):
    if m == len(leaves):
        return [] if whole else [mth(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), mth(leaves[:k])]


def leaves_up_to(n):
    return [hashlib.sha256(b"\x00" + bytes([k % 256, k // 256])).digest() for k in range(n)]


SIZES = st.integers(1, 70)


@given(st.lists(st.integers(0, 9), max_size=20))
def test_peaks_give_the_root_however_the_leaves_were_added(steps):
    leaves, tree, begin = leaves_up_to(sum(steps)), Tree(), 0
    for count in steps:
        tree = tree.extended(leaves[begin : begin + count])
        begin += count
        assert tree.root == mth(leaves[:begin])
        assert tree.size == begin


@given(SIZES, st.data())
def test_paths_follow_from_the_peaks_before_the_new_leaves(size, data):
    before, index = data.draw(st.integers(0, size - 1)), None
    index = data.draw(st.integers(before, size - 1))
    leaves = leaves_up_to(size)
    found = Leaves(Tree().extended(leaves[:before]), leaves[before:]).path(index, size)
    assert found == path(index, leaves)
    assert climb(index, size - 1, leaves[index], leaves[index], found)[1] == mth(leaves)


@given(SIZES, st.data())
def test_a_growing_tree_proves_every_leaf_and_every_earlier_size(size, data):
    leaves = leaves_up_to(size)
    tree = Leaves(Tree(), leaves[: size // 2])
    first = data.draw(st.integers(1, size))
    if size > 1:
        tree.path(0, size // 2)  # some hashes are kept from here
    tree.extend(leaves[size // 2 :])
    second = data.draw(st.integers(first, size))
    assert tree.path(first - 1, second) == path(first - 1, leaves[:second])
    proof = tree.consistency(first, second)
    assert proof == subproof(first, leaves[:second], True)
    check_consistency(first, second, [mth(leaves[:first]), mth(leaves[:second])], proof)


@given(st.integers(2, 70), st.data())
def test_no_other_proof_of_consistency_is_accepted(size, data):
    leaves = leaves_up_to(size)
    first = data.draw(st.integers(1, size - 1))
    proof, roots = subproof(first, leaves, True), [mth(leaves[:first]), mth(leaves)]
    at = data.draw(st.integers(0, len(proof)))
    other = hashlib.sha256(data.draw(st.binary(max_size=4))).digest()
    wrong = [
        ([*proof[:at], other, *proof[at:]], roots),
        (proof[:-1], roots),
        (proof, roots[::-1]),
        (proof, [other, roots[1]]),
        ([*proof[:-1], other], roots),
    ]
    for changed, of in wrong:
        with pytest.raises(Wrong):
            check_consistency(first, size, of, changed)


def test_earlier_leaves_are_missed_and_not_guessed():
    leaves = leaves_up_to(20)
    trimmed = Leaves(Tree().extended(leaves[:13]), leaves[13:])
    assert trimmed.path(13, 20) == path(13, leaves)
    with pytest.raises(LookupError):
        trimmed.path(3, 20)
    with pytest.raises(LookupError):
        trimmed.consistency(3, 20)


def test_leaves_of_another_position_kind_or_commitment_differ():
    commitment = commitment_of(bytes(range(32)), b"payload")
    assert commitment == hashlib.sha256(bytes(range(32)) + b"payload").digest() != commitment_of(GONE, b"payload")
    found = {
        leaf_of(*told) for told in [(1, "learned", commitment), (2, "learned", commitment), (1, "voted", commitment)]
    }
    assert len(found) == 3


@pytest.mark.parametrize("told", [(1, ()), (2, (bytes(32), bytes(32))), (1, (bytes(31),))])
def test_peaks_that_do_not_fit_their_size_are_refused(told):
    with pytest.raises(ValueError, match="do not fit a tree"):
        Tree(*told)
