"""English verb lexicon: the forms of some six hundred frequent verbs, and the form of a given word.

``FORMS["went"] == {"past": "go"}``, ``FORMS["put"] == {"base": "put", "past": "put", "participle": "put"}``. Words that
are mostly nouns in running text (``time``, ``point``, ``place``) are left out: a rule that takes a noun for a verb
writes bad English, while a rule that misses a verb writes nothing.
"""

from __future__ import annotations

from .word_lists import phrases, words


def _s_form(base: str) -> str:
    special = {"have": "has", "do": "does", "go": "goes", "undergo": "undergoes", "undo": "undoes"}
    if base in special:
        return special[base]
    if base.endswith(("s", "x", "z", "ch", "sh")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _ed_form(base: str, doubling: bool) -> str:
    if doubling:
        return base + base[-1] + "ed"
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


def _ing_form(base: str, doubling: bool) -> str:
    if doubling:
        return base + base[-1] + "ing"
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + "ing"
    return base + "ing"


def _lexicon() -> dict[str, dict[str, str]]:
    verbs: dict[str, dict[str, str]] = {}
    for doubling, regular in ((False, "regular_verbs"), (True, "doubling_verbs")):
        for base in words(regular):
            past = _ed_form(base, doubling)
            verbs[base] = {"past": past, "participle": past, "ing": _ing_form(base, doubling)}
    doubled = words("irregular_doubling")
    for entry in phrases("irregular_verbs"):
        base, past, *participle = entry.split()
        verbs[base] = {"past": past, "participle": (participle or [past])[0], "ing": _ing_form(base, base in doubled)}
    for base, forms in verbs.items():
        forms |= {"base": base, "s": _s_form(base)}
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
