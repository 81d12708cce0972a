"""English verb lexicon: the forms of some six hundred frequent verbs, and the form of a given word.

Words that are mostly nouns in running text (``time``, ``point``, ``place``) are left out: a rule that takes a noun for
a verb writes bad English, while a rule that misses a verb writes nothing.
"""

from __future__ import annotations

from .word_lists import phrases, words

IRREGULAR_S = {"have": "has", "do": "does", "go": "goes", "undergo": "undergoes", "undo": "undoes"}


def _regular(base: str, doubling: bool) -> dict[str, str]:
    """The regular forms of a verb; `doubling`: its last letter is doubled before -ed and -ing."""
    stem = base + base[-1] if doubling else base
    ies = base.endswith("y") and base[-2] not in "aeiou"
    s = base[:-1] + "ies" if ies else base + ("es" if base.endswith(("s", "x", "z", "ch", "sh")) else "s")
    past = base[:-1] + "ied" if ies else base + "d" if base.endswith("e") else stem + "ed"
    if base.endswith("ie"):
        ing = base[:-2] + "ying"
    else:
        ing = (base[:-1] if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) else stem) + "ing"
    return {"past": past, "participle": past, "ing": ing, "base": base, "s": IRREGULAR_S.get(base, s)}


def _lexicon() -> dict[str, dict[str, str]]:
    verbs: dict[str, dict[str, str]] = {}
    for doubling, regular in ((False, "regular_verbs"), (True, "doubling_verbs")):
        verbs |= {base: _regular(base, doubling) for base in words(regular)}
    doubled = words("irregular_doubling")
    for entry in phrases("irregular_verbs"):
        base, past, *participle = entry.split()
        verbs[base] = _regular(base, base in doubled) | {"past": past, "participle": (participle or [past])[0]}
    return verbs


#: base -> {"base", "s", "past", "participle", "ing"} -> word
VERBS: dict[str, dict[str, str]] = _lexicon()

#: word -> {form: base}
FORMS: dict[str, dict[str, str]] = {}
for _base, _forms in VERBS.items():
    for _form, _word in _forms.items():
        FORMS.setdefault(_word, {}).setdefault(_form, _base)

#: words that are rarely verbs: they count as verbs only after a pronoun
AMBIGUOUS = frozenset(words("ambiguous_verbs"))
