"""Groups of languages by resource and family, growing steps, and the table of Figure 4."""

import pytest
from language_groups import group_languages, group_table, growing

from ..refusals import refusals

# Codes without a family in the table: each is a family of its own.
THREE_LETTERS = [f"{first}{second}q" for first in "bcdfghjklmnpr" for second in "bcdfghjklmnpr"]
SIZES = {
    "fra_Latn": 50,
    "deu_Latn": 40,
    "spa_Latn": 30,
    "tur_Latn": 60,
    "fin_Latn": 20,
    "est_Latn": 10,
    "jpn_Jpan": 5,
}
BY_RESOURCE = {
    "A": ["tur_Latn", "fra_Latn"],
    "B": ["deu_Latn", "spa_Latn", "fin_Latn"],
    "C": ["est_Latn", "jpn_Jpan"],
}


def test_groups_by_resource_have_most_data_first():
    assert group_languages(SIZES, "resource", 3) == BY_RESOURCE


def test_each_step_adds_a_group():
    a, b, c = BY_RESOURCE.values()
    assert growing(BY_RESOURCE) == {"A": a, "A-B": a + b, "A-C": a + b + c}


@pytest.fixture
def families():
    """Indo-European has most languages; Uralic two; Turkic and Japonic one each."""
    return group_languages(SIZES, "family", 3)


def test_the_largest_family_is_the_first_group(families):
    assert families["A"] == ["fra_Latn", "deu_Latn", "spa_Latn"]


def test_the_other_families_are_dealt_in_turn(families):
    """Uralic and Japonic, Turkic."""
    assert families["B"] == ["fin_Latn", "est_Latn", "jpn_Jpan"]
    assert families["C"] == ["tur_Latn"]


def test_the_other_groups_have_as_many_families_as_in_table_35():
    """OS Table 35: 150 families; Indo-European, then 30, 30, 30, 30 and 29."""
    sizes = {f"{code}_Latn": 1.0 for code in THREE_LETTERS[:149]}
    sizes |= {"fra_Latn": 1.0, "deu_Latn": 1.0}

    groups = group_languages(sizes, "family", 6)

    assert [len(groups[name]) for name in "BCDEF"] == [30, 30, 30, 30, 29]


def test_groups_have_every_language_once(families):
    assert sorted(sum(families.values(), [])) == sorted(SIZES)


def test_one_group_has_all_families():
    groups = group_languages(SIZES, "family", 1)
    assert list(groups) == ["A"]
    assert sorted(groups["A"]) == sorted(SIZES)


def test_the_table_has_the_mean_of_a_group():
    groups = {"A": ["fra_Latn", "deu_Latn"], "B": ["fin_Latn"], "C": ["xho_Latn"]}
    errors = {
        "A": {"fra_Latn": 1.0, "deu_Latn": 3.0, "fin_Latn": 50.0},
        "A-B": {"fra_Latn": 2.0, "fin_Latn": 8.0},
    }

    table = group_table(errors, groups)

    assert table.rows == [
        {"trained on": "A", "A": 2.0, "B": 50.0, "All": 18.0},
        {"trained on": "A-B", "A": 2.0, "B": 8.0, "All": 5.0},
    ]


test_what_cannot_be = refusals(
    (lambda: group_languages(SIZES, "resource", 9), "9 groups of 7 languages"),
    (lambda: group_languages(SIZES, "family", 5), "5 groups of 4 families"),
)
