"""Word lists of the rules, read from `words.yaml`: antonyms, words of one kind that can replace each other, and the
forms of some six hundred frequent verbs.

Words that are mostly nouns in running text (``time``, ``point``, ``place``) are no verbs here: a rule that takes a noun
for a verb writes bad English, while a rule that misses a verb writes nothing.
"""

from __future__ import annotations

from pathlib import Path

from ...utils.recipe_yaml import read_yaml

_LISTS: dict[str, str | list[str]] = read_yaml(Path(__file__).with_name("words.yaml"))


def words(name: str) -> list[str]:
    return _LISTS[name].split()


def phrases(name: str) -> list[str]:
    return _LISTS[name].split(", ")


def _opposites(*names: str) -> dict[str, str]:
    """{word: opposite} of pairs `big-small` (both ways) and `hard>easy` (one way); the first of a word is used."""
    opposites: dict[str, str] = {}
    for entry in (entry for name in names for entry in words(name)):
        left, right = entry.replace(">", "-").split("-")
        opposites.setdefault(left, right.replace("_", " "))
        if ">" not in entry:
            opposites.setdefault(right, left)
    return opposites


#: word -> antonym that fits in the same place
ANTONYMS = _opposites("adjectives") | _opposites("other_antonyms")
#: base form -> antonym's base form; some antonyms are regular verbs outside the lexicon
VERB_ANTONYMS = _opposites("verb_antonyms")
GENDER = _opposites("gender")
# phrases in which a word has no antonym
FIXED_PHRASES = frozenset(tuple(phrase.split()) for phrase in phrases("fixed_phrases"))

MALE_NAMES, FEMALE_NAMES, SURNAMES, BIBLE_NAMES, COUNTRIES, NATIONALITIES, SPOKEN = map(
    words, "male_names female_names surnames bible_names countries nationalities spoken".split()
)
CITIES, US_STATES, THE_COUNTRIES, SHORT_COUNTRIES, CONTINENTS = map(
    phrases, "cities us_states the_countries short_countries continents".split()
)
SIBLINGS = [line.split() for line in _LISTS["siblings"]]
ORGANISATIONS = [line.split(", ") for line in _LISTS["organisations"]]
TITLES = frozenset(words("titles"))
MONTHS, WEEKDAYS = words("months"), words("weekdays")

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
