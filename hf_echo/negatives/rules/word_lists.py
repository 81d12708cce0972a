"""Word lists of the rules, read from `words.yaml`: antonyms, verbs, words of one kind that can replace each other."""

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
