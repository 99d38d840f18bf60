import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.features.columns.texts import BUCKETS, counts_of, even, weights_of, words_of


def counted(text, buckets=BUCKETS):
    return counts_of(text, "text", buckets)


def test_words_are_runs_of_letters_and_digits_whatever_their_case():
    assert words_of("Don't PANIC, it's 42!") == ["don", "t", "panic", "it", "s", "42"]
    assert words_of("STRASSE Straße ΣΊΣΥΦΟΣ") == ["strasse", "strasse", "σίσυφοσ"]
    assert words_of("cafe\u0301 \ufb01n") == words_of("café fin")


def test_in_scripts_without_spaces_each_character_is_a_word():
    assert words_of("機械学習 ml2 かな") == ["機", "械", "学", "習", "ml2", "か", "な"]


def test_words_and_pairs_of_neighbours_are_counted():
    assert sorted(counted("a b a b").values()) == [1, 2, 2, 2]  # b a; a, b, a b
    assert counted("") == counted("...") == {}
    assert counted("a b") != counted("b a")
    assert counts_of("a", "title", BUCKETS) != counts_of("a", "body", BUCKETS)


def test_the_columns_of_words_are_the_same_everywhere():
    assert sorted(counted("free money now")) == [86582, 111450, 132707, 165965, 253694]


@settings(deadline=None)
@given(st.lists(st.text(max_size=30), max_size=12), st.text(max_size=40), st.sampled_from([256, BUCKETS]))
def test_every_row_has_length_1_or_nothing(texts, text, buckets):
    weights = weights_of([counted(t, buckets) for t in texts], buckets)
    row = weights.row(counted(text, buckets))
    columns = [column for column, _ in row]
    assert columns == sorted(set(columns))
    assert all(0 <= column < buckets for column in columns)
    assert sum(number**2 for _, number in row) == (pytest.approx(1) if words_of(text) else 0)


def test_a_word_weighs_more_the_fewer_texts_have_it_and_the_more_often_it_comes():
    texts = [counted(text) for text in ("the cat", "the dog", "the bird the cat")]
    weights = weights_of(texts, BUCKETS)

    def parts(text):
        row = dict(weights.row(counted(text)))
        return [row[next(iter(counted(word)))] for word in text.split()]

    the, cat, new = parts("the cat fish")
    assert the < cat < new
    cat, _, dog = parts("cat cat dog")
    # log2(1 + 3/1); log2(1 + 3/2) and log2(1 + 2) by straight lines
    assert dog / cat == pytest.approx(2 / (1.25 * 1.5))


def test_before_a_warm_up_all_words_weigh_the_same():
    row = even(BUCKETS).row(counted("one two"))
    assert [number for _, number in row] == pytest.approx([3**-0.5] * 3)
