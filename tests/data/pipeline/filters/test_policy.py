"""Provenance, cap and sanity filters on handmade rows."""

import numpy as np
import pyarrow as pa
import pytest

from hf_echo.data.pipeline.filters import GroupCap, LargestDirections, Provenance, TextSanity


def rows_that_stay(cap: GroupCap, table: pa.Table) -> list[int]:
    """Numbers of the rows that a cap keeps, by sorting each group in a loop."""
    ranks = cap.rank(table)
    stay = []
    members_of = {}
    for row, group in enumerate(cap.groups(table)):
        members_of.setdefault(group, []).append(row)
    for group, members in members_of.items():
        if group is None:  # rows that no cap holds for
            stay += members
        else:
            stay += sorted(members, key=lambda row: (-ranks[row], row))[: cap.limit]
    return sorted(stay)


# Provenance


@pytest.mark.parametrize(
    ("settings", "kept"),
    [((), [True, False, False, True]), ((("mined",),), [False, True, False, False])],
)
def test_provenance_keeps_its_kinds(rows, settings, kept):
    """Without kinds: what people wrote, code included."""
    table = rows(*[("a", "b")] * 4, provenance=["primary", "mined", "back_translation", "code"])

    assert Provenance(*settings).keep(table).tolist() == kept


# Caps


@pytest.fixture
def two_directions(rows):
    """French rows 0, 2, 4 and German rows 1, 3, 5; row 3 has no quality."""
    return rows(
        *[("a", "b")] * 6,
        source_lang=["fra_Latn", "deu_Latn"] * 3,
        quality=[0.1, 0.9, 0.5, None, 0.5, -0.5],
    )


@pytest.mark.parametrize(
    ("limit", "order", "stay"),
    [(1, "quality", [1, 2]), (2, "quality", [1, 2, 4, 5]), (1, "input", [0, 1])],
)
def test_cap_keeps_the_first_rows_of_each_direction(two_directions, limit, order, stay):
    assert rows_that_stay(GroupCap(limit=limit, order=order), two_directions) == stay


@pytest.fixture
def human_and_mined(rows):
    """Human translations in rows 1 and 3, the worst by quality; row 5 is German."""
    return rows(
        *[(f"text {number}", "b") for number in range(6)],
        source_lang=["fra_Latn"] * 5 + ["deu_Latn"],
        provenance=["mined", "primary", "mined", "primary", "back_translation", "mined"],
        quality=[4.5, 0.25, 4.75, -3.0, 5.0, 1.0],
    )


@pytest.mark.parametrize(
    ("limit", "stay"), [(1, [1, 5]), (2, [1, 3, 5]), (3, [1, 3, 4, 5]), (4, [1, 2, 3, 4, 5])]
)
def test_the_best_others_fill_up_behind_human_translations(human_and_mined, limit, stay):
    """ECHO 3: the best human translations, and the highest-scoring others up to the limit."""
    cap = GroupCap(limit=limit, order="quality", first=("primary",))

    assert rows_that_stay(cap, human_and_mined) == stay


@pytest.mark.parametrize("order", ["random", "input"])
def test_human_translations_come_first_in_any_order(human_and_mined, order):
    cap = GroupCap(limit=2, order=order, first=("primary",))

    assert rows_that_stay(cap, human_and_mined) == [1, 3, 5]


def test_a_kind_that_comes_first_must_be_one_that_is_there():
    with pytest.raises(ValueError, match="provenance 'human' is not one of primary, mined"):
        GroupCap(first=("human",))


@pytest.fixture
def rows_of_three_kinds(rows):
    """Python in rows 0 to 2, French in 3 to 5, LaTeX in 6 and 7."""
    return rows(
        *[(str(number), "b") for number in range(8)],
        source_lang=["python"] * 3 + ["fra_Latn"] * 3 + ["latex"] * 2,
        provenance=["code"] * 3 + ["primary"] * 3 + ["math"] * 2,
    )


def test_cap_can_hold_for_kinds_of_provenance_alone(rows_of_three_kinds):
    stay = rows_that_stay(GroupCap(limit=1, only=("code", "math")), rows_of_three_kinds)

    assert [row for row in stay if 3 <= row < 6] == [3, 4, 5]
    assert len(stay) == 5


def test_cap_can_hold_for_a_language_alone(rows_of_three_kinds):
    stay = rows_that_stay(GroupCap(limit=1, only=("python",)), rows_of_three_kinds)

    assert stay[1:] == [3, 4, 5, 6, 7]


@pytest.fixture
def thousand_rows(rows):
    return rows(*[(f"text {number}", "b") for number in range(1000)])


def texts_that_stay(cap: GroupCap, table: pa.Table) -> set[str]:
    return {table["source"][row].as_py() for row in rows_that_stay(cap, table)}


def test_random_rows_are_the_same_in_any_order(thousand_rows):
    order = np.random.default_rng(0).permutation(1000)
    mixed = thousand_rows.take(pa.array(order))

    assert texts_that_stay(GroupCap(limit=200), mixed) == texts_that_stay(
        GroupCap(limit=200), thousand_rows
    )


def test_another_seed_draws_other_rows(thousand_rows):
    first = texts_that_stay(GroupCap(limit=200), thousand_rows)
    second = texts_that_stay(GroupCap(limit=200, seed=1), thousand_rows)

    assert first != second


def test_random_rows_are_drawn_evenly(thousand_rows):
    """The mean of 200 of 0 to 999, within four standard errors; their deviation is 288.7."""
    texts = texts_that_stay(GroupCap(limit=200), thousand_rows)

    numbers = [int(text.split()[1]) for text in texts]
    assert abs(np.mean(numbers) - 499.5) < 4 * 288.7 / np.sqrt(200)


# The largest directions (OS A.2)


def test_the_largest_directions_of_each_source_language_stay(rows):
    """By hand: of French two of three targets; of German both, whose sizes alone would not do."""
    sizes = {
        ("fra_Latn", "eng_Latn"): 5,
        ("fra_Latn", "spa_Latn"): 3,
        ("fra_Latn", "deu_Latn"): 4,
        ("deu_Latn", "eng_Latn"): 1,
        ("deu_Latn", "fra_Latn"): 1,
    }
    directions = np.repeat(list(sizes), list(sizes.values()), axis=0)
    np.random.default_rng(0).shuffle(directions)
    sources, targets = directions.T
    table = rows(*[("a", "b")] * len(directions), source_lang=sources, target_lang=targets)

    largest = LargestDirections(limit=2).fit([table.slice(0, 7), table.slice(7)])

    is_the_third_of_french = (sources == "fra_Latn") & (targets == "spa_Latn")
    assert largest.keep(table).tolist() == (~is_the_third_of_french).tolist()


def test_equal_directions_are_taken_in_the_order_of_their_targets(rows):
    table = rows(*[("a", "b")] * 3, target_lang=["spa_Latn", "deu_Latn", "eng_Latn"])

    largest = LargestDirections(limit=2).fit([table])

    assert largest.keep(table).tolist() == [False, True, True]


# Sanity

GOOD = [
    ("Bonjour le monde", "Hello world"),
    ("Привет", "hi"),
    ("हिन्दी में", "in Hindi"),
    ("ก็", "also"),
    ("Erreur dans %s : {count}", "Error in %s"),
    ("x" * 2000, "long"),
    ("Voir http://a.example/b pour en savoir bien davantage", "see http://a.example/b for more"),
]
BAD = [
    ("Bonjour", " bonjour "),  # a copy
    ("", "x"),
    (" \t", "x"),
    ("12.03.2024", "March 12"),  # no letters
    ("x" * 2001, "long"),
    ("http://a.example/bonjour/le/monde", "see the page"),
    ("%s: %(name)s {count} <b>&amp;</b>", "value"),
    ("a 1 2 3 4 5 6 7 8 9", "one"),  # few letters
]
SANITY_CASES = [(pair, True) for pair in GOOD] + [(pair, False) for pair in BAD]


@pytest.mark.parametrize(("pair", "stays"), SANITY_CASES)
def test_sanity(rows, pair, stays):
    assert TextSanity().keep(rows(pair)).tolist() == [stays]


@pytest.mark.parametrize(("pair", "stays"), SANITY_CASES)
def test_sanity_of_the_other_direction(rows, pair, stays):
    source, target = pair
    table = rows((target, source), source_lang="eng_Latn", target_lang="fra_Latn")

    assert TextSanity().keep(table).tolist() == [stays]


def test_code_needs_no_letters(rows):
    assert TextSanity().keep(rows(("{1: 2}", "a mapping"), source_lang="python")).tolist() == [True]
