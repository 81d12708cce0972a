"""Word lists of the rules, read from `words.yaml`: antonyms, words of one kind that can replace
each other, the forms of some six hundred frequent verbs, and the words that a rule looks for beside
them.

Words that are mostly nouns in running text (``time``, ``point``, ``place``) are no verbs here: a
rule that takes a noun for a verb writes bad English, while a rule that misses a verb writes
nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...utils.recipe_yaml import read_yaml

_LISTS: dict[str, str | list[str]] = read_yaml(Path(__file__).with_name("words.yaml"))


def words(name: str) -> list[str]:
    return _LISTS[name].split()


def word_set(name: str) -> frozenset[str]:
    return frozenset(words(name))


def phrases(name: str) -> list[str]:
    return _LISTS[name].split(", ")


def _opposites(*names: str) -> dict[str, str]:
    """{word: opposite} of pairs `big-small` (both ways) and `hard>easy` (one way);
    the first of a word is used."""
    opposites: dict[str, str] = {}
    for name in names:
        for entry in words(name):
            left, right = re.split("[->]", entry)
            opposites.setdefault(left, right.replace("_", " "))
            if ">" not in entry:
                opposites.setdefault(right, left)
    return opposites


def _regular_forms(base: str, doubling: bool) -> dict[str, str]:
    """The regular forms of a verb; `doubling`: its last letter is doubled before -ed and -ing."""
    stem = base
    if doubling:
        stem += base[-1]
    # The regular endings, then the spellings that change them.
    third_person = base + "s"
    past = stem + "ed"
    ing = stem + "ing"
    if base.endswith("y") and base[-2] not in "aeiou":  # carry
        third_person = base[:-1] + "ies"
        past = base[:-1] + "ied"
    elif base.endswith(("s", "x", "z", "ch", "sh")):  # watch
        third_person = base + "es"
    elif base.endswith("e"):
        past = base + "d"
        if base.endswith("ie"):  # die
            ing = base[:-2] + "ying"
        elif not base.endswith(("ee", "oe", "ye")):  # love, but not agree
            ing = base[:-1] + "ing"
    return {
        "past": past,
        "participle": past,
        "ing": ing,
        "base": base,
        "s": IRREGULAR_S.get(base, third_person),
    }


#: word -> antonym that fits in the same place
ANTONYMS = _opposites("adjectives") | _opposites("other_antonyms")
#: base form -> antonym's base form; some antonyms are regular verbs outside the lexicon
VERB_ANTONYMS = _opposites("verb_antonyms")
GENDER = _opposites("gender")
# phrases in which a word has no antonym
FIXED_PHRASES = frozenset(tuple(phrase.split()) for phrase in phrases("fixed_phrases"))

MALE_NAMES = words("male_names")
FEMALE_NAMES = words("female_names")
SURNAMES = words("surnames")
BIBLE_NAMES = words("bible_names")
COUNTRIES = words("countries")
THE_COUNTRIES = phrases("the_countries")
SHORT_COUNTRIES = phrases("short_countries")
NATIONALITIES = words("nationalities")
SPOKEN = words("spoken")
CITIES = phrases("cities")
US_STATES = phrases("us_states")
CONTINENTS = phrases("continents")
SIBLINGS = [line.split() for line in _LISTS["siblings"]]
ORGANISATIONS = [line.split(", ") for line in _LISTS["organisations"]]
TITLES = frozenset(words("titles"))
MONTHS = words("months")
WEEKDAYS = words("weekdays")

IRREGULAR_S = {"have": "has", "do": "does", "go": "goes", "undergo": "undergoes", "undo": "undoes"}


def _lexicon() -> dict[str, dict[str, str]]:
    """Verb -> its forms, regular and irregular."""
    verbs = {}
    for base in words("regular_verbs"):
        verbs[base] = _regular_forms(base, doubling=False)
    for base in words("doubling_verbs"):
        verbs[base] = _regular_forms(base, doubling=True)
    doubled = words("irregular_doubling")
    for entry in phrases("irregular_verbs"):
        base, past, *participle = entry.split()
        forms = _regular_forms(base, base in doubled)
        forms["past"] = past
        forms["participle"] = participle[0] if participle else past
        verbs[base] = forms
    return verbs


def _forms_of(verbs: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    bases_of: dict[str, dict[str, str]] = {}
    for base, forms in verbs.items():
        for form, word in forms.items():
            bases_of.setdefault(word, {}).setdefault(form, base)
    return bases_of


#: base -> {"base", "s", "past", "participle", "ing"} -> word
VERBS: dict[str, dict[str, str]] = _lexicon()

#: word -> {form: base}
FORMS: dict[str, dict[str, str]] = _forms_of(VERBS)

#: words that are rarely verbs: they count as verbs only after a pronoun
AMBIGUOUS = frozenset(words("ambiguous_verbs"))
