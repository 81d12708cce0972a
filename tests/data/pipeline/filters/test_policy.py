"""Provenance, cap and sanity filters on handmade rows."""

import numpy as np
import pyarrow as pa

from hf_echo.data.pipeline.filters import GroupCap, LargestDirections, Provenance, TextSanity


def capped(filter_, table) -> list[int]:
    """Rows that stay, by sorting each group in a loop."""
    groups, rank = filter_.groups(table), filter_.rank(table)
    kept = []
    for group in set(groups) - {None}:
        rows = sorted((i for i in range(len(table)) if groups[i] == group), key=lambda i: (-rank[i], i))
        kept += rows[: filter_.limit]
    return sorted(kept + [i for i, group in enumerate(groups) if group is None])


def test_provenance(rows):
    table = rows(*[("a", "b")] * 4, provenance=["primary", "mined", "back_translation", "code"])
    assert Provenance().keep(table).tolist() == [True, False, False, True]
    assert Provenance(("mined",)).keep(table).tolist() == [False, True, False, False]


def test_the_best_of_each_direction_stay(rows):
    table = rows(*[("a", "b")] * 6, source_lang=["fra_Latn", "deu_Latn"] * 3, quality=[0.1, 0.9, 0.5, None, 0.5, -0.5])
    assert capped(GroupCap(limit=1, order="quality"), table) == [1, 2]
    assert capped(GroupCap(limit=2, order="quality"), table) == [1, 2, 4, 5]
    assert capped(GroupCap(limit=1, order="input"), table) == [0, 1]
    # Synthetic rows only fill up.
    table = rows(*[("a", "b")] * 4, provenance=["mined", "mined", "primary", "primary"], quality=[0.9, 0.8, 0.1, 0.2])
    assert capped(GroupCap(limit=3, order="quality", primary_first=True), table) == [0, 2, 3]


def test_only_code_and_mathematics_are_capped(rows):
    langs, kinds = ["python"] * 3 + ["fra_Latn"] * 3 + ["latex"] * 2, ["code"] * 3 + ["primary"] * 3 + ["math"] * 2
    table = rows(*[(str(i), "b") for i in range(8)], source_lang=langs, provenance=kinds)
    kept = capped(GroupCap(limit=1, only=("code", "math")), table)
    assert [3, 4, 5] == [row for row in kept if 3 <= row < 6] and len(kept) == 5
    assert capped(GroupCap(limit=1, only=("python",)), table)[1:] == [3, 4, 5, 6, 7]


def test_random_rows_are_the_same_in_any_order(rows):
    table = rows(*[(f"text {i}", "b") for i in range(1000)])
    filter_ = GroupCap(limit=200)
    mixed = table.take(pa.array(np.random.default_rng(0).permutation(1000)))
    chosen = {table["source"][i].as_py() for i in capped(filter_, table)}
    assert chosen == {mixed["source"][i].as_py() for i in capped(filter_, mixed)}
    assert chosen != {table["source"][i].as_py() for i in capped(GroupCap(limit=200, seed=1), table)}
    numbers = [int(text.split()[1]) for text in chosen]
    assert abs(np.mean(numbers) - 499.5) < 4 * 288.7 / np.sqrt(200)  # drawn evenly


def test_the_largest_directions_of_each_source_language_stay(rows):
    """OS A.2 by hand: of French two of three targets; of German both, whose sizes alone would not do."""
    sizes = {("fra_Latn", "eng_Latn"): 5, ("fra_Latn", "spa_Latn"): 3, ("fra_Latn", "deu_Latn"): 4}
    sizes |= {("deu_Latn", "eng_Latn"): 1, ("deu_Latn", "fra_Latn"): 1}
    directions = [pair for pair, count in sizes.items() for _ in range(count)]
    order = np.random.default_rng(0).permutation(len(directions))
    directions = [directions[i] for i in order]
    sources = [source for source, _ in directions]
    targets = [target for _, target in directions]
    table = rows(*[("a", "b")] * len(directions), source_lang=sources, target_lang=targets)

    halves = [table.slice(0, 7), table.slice(7)]
    filter_ = LargestDirections(limit=2).fit(halves)

    expected = [pair != ("fra_Latn", "spa_Latn") for pair in directions]
    assert filter_.keep(table).tolist() == expected


def test_equal_directions_are_taken_in_the_order_of_their_targets(rows):
    table = rows(*[("a", "b")] * 3, target_lang=["spa_Latn", "deu_Latn", "eng_Latn"])
    filter_ = LargestDirections(limit=2).fit([table])
    assert filter_.keep(table).tolist() == [False, True, True]


GOOD = [("Bonjour le monde", "Hello world"), ("Привет", "hi"), ("हिन्दी में", "in Hindi"), ("ก็", "also")]
GOOD += [("Erreur dans %s : {count}", "Error in %s"), ("x" * 2000, "long")]
GOOD.append(("Voir http://a.example/b pour en savoir bien davantage", "see http://a.example/b for more"))
BAD = [("Bonjour", " bonjour "), ("", "x"), (" \t", "x"), ("12.03.2024", "March 12"), ("x" * 2001, "long")]
BAD += [("http://a.example/bonjour/le/monde", "see the page"), ("%s: %(name)s {count} <b>&amp;</b>", "value")]
BAD.append(("a 1 2 3 4 5 6 7 8 9", "one"))


def test_sanity(rows):
    table = rows(*GOOD, *BAD)
    assert TextSanity().keep(table).tolist() == [True] * len(GOOD) + [False] * len(BAD)
    back = rows(*((target, source) for source, target in GOOD + BAD), source_lang="eng_Latn", target_lang="fra_Latn")
    assert (TextSanity().keep(back) == TextSanity().keep(table)).all()


def test_code_needs_no_letters_and_copies_may_stay(rows):
    table = rows(("{1: 2}", "a mapping"), ("OK", "ok"), source_lang=["python", "fra_Latn"])
    assert TextSanity().keep(table).tolist() == [True, False]
    assert TextSanity(copies=True).keep(table).all()
