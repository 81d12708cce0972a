"""Groups of languages by resource and family, growing steps, and the table of Figure 4."""

from language_groups import group_languages, group_table, growing

from ..refusals import refusals

SIZES = {"fra_Latn": 50, "deu_Latn": 40, "spa_Latn": 30, "tur_Latn": 60, "fin_Latn": 20, "est_Latn": 10, "jpn_Jpan": 5}


def test_groups_by_resource_and_family():
    a, b, c = ["tur_Latn", "fra_Latn"], ["deu_Latn", "spa_Latn", "fin_Latn"], ["est_Latn", "jpn_Jpan"]
    groups = group_languages(SIZES, "resource", 3)
    assert groups == {"A": a, "B": b, "C": c}
    assert growing(groups) == {"A": a, "A-B": a + b, "A-C": a + b + c}
    # Indo-European has most languages; Uralic two; Turkic and Japonic one each.
    groups = group_languages(SIZES, "family", 3)
    assert groups["A"] == ["fra_Latn", "deu_Latn", "spa_Latn"]
    assert sorted(map(len, groups.values())) == [2, 2, 3]
    assert ["fin_Latn", "est_Latn"] in groups.values()
    assert sorted(sum(groups.values(), [])) == sorted(SIZES)
    everything = group_languages(SIZES, "family", 1)
    assert list(everything) == ["A"] and sorted(everything["A"]) == sorted(SIZES)


def test_table_is_the_mean_of_a_group():
    groups = {"A": ["fra_Latn", "deu_Latn"], "B": ["fin_Latn"], "C": ["xho_Latn"]}
    errors = {"A": {"fra_Latn": 1.0, "deu_Latn": 3.0, "fin_Latn": 50.0}, "A-B": {"fra_Latn": 2.0, "fin_Latn": 8.0}}
    table = group_table(errors, groups)
    assert table.rows == [
        {"trained on": "A", "A": 2.0, "B": 50.0, "All": 18.0},
        {"trained on": "A-B", "A": 2.0, "B": 8.0, "All": 5.0},
    ]


test_what_cannot_be = refusals(
    (lambda: group_languages(SIZES, "resource", 9), "9 groups of 7 languages"),
    (lambda: group_languages(SIZES, "family", 5), "5 groups of 4 families"),
)
