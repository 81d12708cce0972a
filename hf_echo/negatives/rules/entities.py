"""Entity rules for hard negatives (xSIM++): names, words of one kind (places, people, colours), pronouns."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from . import word_lists as words
from .clauses import DETERMINERS, PREPOSITIONS, SUBJECTS, finite_verbs
from .sentence import Sentence, cased
from .word_lists import FORMS

Edits = dict[int, str]


_GROUPS = [words.MALE_NAMES, words.FEMALE_NAMES, words.COUNTRIES, words.CITIES, words.US_STATES, words.THE_COUNTRIES]
_GROUPS += [words.CONTINENTS, words.NATIONALITIES, words.BIBLE_NAMES, *words.ORGANISATIONS, words.SHORT_COUNTRIES]
_GROUPS += [words.SURNAMES]
# name -> the names of its kind; of two kinds the first counts
_NAMES = {name: group for group in (tuple(dict.fromkeys(names)) for names in reversed(_GROUPS)) for name in group}
_LONG_NAMES = {name.split()[0] for name in _NAMES if " " in name}
_SURNAMES = tuple(words.SURNAMES)
_SIBLINGS = {word: tuple(group) for group in words.SIBLINGS for word in group}
# names that are also ordinary words: not replaced at the start of a sentence or alone
_ALSO_WORDS = frozenset("Will May Rose Jean Mark Bill Young Long White Green Brown Word Apple Turkey Jordan".split())
_SPOKEN = tuple(words.SPOKEN)
_FIRST_NAMES = ("Tom", "Mary")  # the first of their lists
_SPEAKING = frozenset("learn learns learned learning speak speaks spoke speaking understand study into".split())
_SAYING = frozenset("said says told added tweeted wrote explained argued".split())
_ALTERNATIVES = 3


def entity(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace a name, wherever it occurs, by one of its type; then nouns and colours."""
    spans = list(_name_spans(s))
    rng.shuffle(spans)
    for start, end, group in spans:
        name = " ".join(s.tokens[start:end])
        for new in _others(name, group, s, rng):
            edits = {start: new} | dict.fromkeys(range(start + 1, end), "")
            if end - start == 1:
                edits |= {j: new for j, token in enumerate(s.tokens) if token == name}
            yield edits
    for k, low in enumerate(s.low[: len(s)]):
        group = _SIBLINGS.get(low)
        if group and not s.in_code(k) and not s.in_compound(k) and not s.is_name(k) and _is_noun_here(s, k):
            for new in _others(low, group, s, rng)[:2]:
                yield {k: cased(new, s.tokens[k])}


def _is_noun_here(s: Sentence, k: int) -> bool:
    """Whether a word such as "book" or "train" is a noun: after a determiner, an adjective or a number."""
    if s.before(k) in SUBJECTS or s.before(k) in ("to", "not", "n't", "will", "can", "'ll"):
        return False
    if s.low[k] not in FORMS:
        return True
    return s.before(k) in DETERMINERS or s.before(k) in _ADJECTIVES


_ADJECTIVES = frozenset(("red", "blue", "green", "white", "black", "old", "new", "young", "big", "small", "two"))


def _others(name: str, group: tuple[str, ...], s: Sentence, rng: Random) -> list[str]:
    """A few other members of the group that do not occur in the sentence, nor are a longer or shorter form of the name
    (USA, Jeffrey)."""
    chosen = rng.sample(group, min(len(group), _ALTERNATIVES + 4))
    held, plain = set(s.low), name.replace(".", "")
    forms = ((new, new.replace(".", "")) for new in chosen if new.split()[0].lower() not in held)
    return [new for new, form in forms if not form.startswith(plain) and not plain.startswith(form)][:_ALTERNATIVES]


def _name_spans(s: Sentence) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    k, seen = 0, set()
    while k < len(s):
        token = s.tokens[k]
        span = _span_at(s, k, token) if token[0].isupper() else None
        if span is None:
            k += 1
            continue
        end, group = span
        name = " ".join(s.tokens[k:end])
        if name not in seen:
            seen.add(name)
            yield k, end, group
        k = end


def _span_at(s: Sentence, k: int, token: str) -> tuple[int, tuple[str, ...]] | None:
    if token in _LONG_NAMES:
        for length in (2, 3):
            group = _NAMES.get(" ".join(s.tokens[k : k + length]))
            if group and k + length <= len(s):
                return k + length, group
    group = _NAMES.get(token)
    before, following_name = s.before(k), s.is_name(k + 1)
    after_name = s.is_name(k - 1) or k - 1 in s.starts and s.tokens[k - 1] in _NAMES
    title = before in words.TITLES or before == "." and s.before(k, 2) in words.TITLES
    if group is None:
        if title or after_name and s.tokens[k - 1] in words.MALE_NAMES + words.FEMALE_NAMES:
            return (k + 1, _SURNAMES) if token.isalpha() and not following_name and len(token) > 2 else None
        speaker = s.low[k + 1] in _SAYING and token.isalpha() and len(token) > 2
        inside = k not in s.starts and not after_name and before not in PREPOSITIONS | {"the", "a", "an"}
        return (k + 1, _SURNAMES) if speaker and inside else None
    if s.tokens[k].isupper() and len(token) > 3 and token not in _NAMES:
        return None
    if token in _ALSO_WORDS and (k in s.starts or not following_name and not after_name and before not in PREPOSITIONS):
        return None
    if group is _NAMES["French"] and before in _SPEAKING and not following_name:
        return k + 1, _SPOKEN
    first_name = group[0] in _FIRST_NAMES
    if title and first_name and not following_name:
        return k + 1, _SURNAMES
    if after_name and _NAMES.get(s.tokens[k - 1], ("",))[0] not in _FIRST_NAMES:
        return None  # the end of a longer name ("West Virginia"); "of" separates "Bank of England"
    if after_name and first_name:
        return k + 1, _SURNAMES
    if following_name and not first_name and group is not _NAMES["French"]:
        return None  # the beginning of a longer name: "London Bridge"
    return k + 1, group


# --- pronouns -----------------------------------------------------------------------------------------------

_HE_SHE = {"he": "she", "him": "her", "himself": "herself"}
_SHE_HE = {"she": "he", "hers": "his", "herself": "himself"}
_WE_THEY = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves"}
_THEY_WE = {new: old for old, new in _WE_THEY.items()}
_I_WE = {"i": "we", "me": "us", "my": "our", "mine": "ours", "myself": "ourselves", "am": "are", "'m": "'re"}
_YOU_THEY = {"your": "their", "yours": "theirs", "yourself": "themselves", "yourselves": "themselves"}
_OPENING_QUOTES = frozenset("\"'“‘")
_FEMALE_OBJECT_ENDS = frozenset(
    "the a an to in on at for from with about and or but that who when if as is was will would again back into by of "
    "not n't very than so how what where why because before after since until while out up down off".split()
)


def pronoun(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace a person's pronouns in the whole sentence, and adapt the verb forms."""
    present = set(_words(s).values())
    # "A girl lays her head": the antonym rule changes the girl and her pronoun together
    bound = not present & {"he", "she"} and not present.isdisjoint(words.GENDER)
    if not bound and present & {"he", "him", "his", "himself"} and not present & {"she", "her"}:
        yield _male_to_female(s)
    if not bound and present & {"she", "her", "hers", "herself"} and not present & {"he", "him", "his"}:
        yield _female_to_male(s)
    if "i" in present or "my" in present or "me" in present:
        if not present & {"we", "us", "our"}:
            edits = _first_to_plural(s)
            if edits:
                yield edits
    if present & {"we", "us", "our"} and not present & {"they", "them"} and "let" not in present:
        yield _mapped(s, _WE_THEY)
    if present & {"they", "them", "their", "themselves"} and not present & {"we", "us"}:
        yield _mapped(s, _THEY_WE)
    if present & {"you", "your", "yourself"} and not present & {"they", "them", "their"} and "thank" not in present:
        edits = _you_to_they(s)
        if edits:
            yield edits


def _words(s: Sentence) -> dict[int, str]:
    """The tokens in lower case, without the country "US"."""
    return {k: low for k, low in enumerate(s.low) if low != "us" or s.tokens[k] != "US" or s.text.isupper()}


def _mapped(s: Sentence, mapping: dict[str, str]) -> Edits:
    return {k: _cased_pronoun(s, k, mapping[low]) for k, low in _words(s).items() if low in mapping}


def _cased_pronoun(s: Sentence, k: int, new: str) -> str:
    if s.low[k] == "i":
        return new[0].upper() + new[1:] if k in s.starts else new
    return cased(new, s.tokens[k])


def _male_to_female(s: Sentence) -> Edits:
    edits = _mapped(s, _HE_SHE)
    for k, low in enumerate(s.low):
        if low == "his":
            behind = k + 2 if s.low[k + 1] in _OPENING_QUOTES else k + 1
            edits[k] = cased("her" if s.low[behind][:1].isalnum() else "hers", s.tokens[k])
    return edits


def _female_to_male(s: Sentence) -> Edits:
    edits = _mapped(s, _SHE_HE)
    for k, low in enumerate(s.low):
        if low == "her":
            behind = s.low[k + 1]
            possessive = behind[:1].isalnum() and behind not in _FEMALE_OBJECT_ENDS and behind not in SUBJECTS
            edits[k] = cased("his" if possessive else "him", s.tokens[k])
    return edits


def _first_to_plural(s: Sentence) -> Edits | None:
    edits = {}
    for k, low in enumerate(s.low):
        if low == "i" and (k and s.is_name(k - 1) or s.low[k + 1] == "." and k + 2 < len(s)):
            return None  # World War I, initials
        if low in _I_WE and (low not in ("am", "'m") or "i" in (s.before(k), s.low[k + 1])):
            edits[k] = _cased_pronoun(s, k, _I_WE[low])
        elif low == "was" and ("i" in (s.before(k), s.low[k + 1])):
            edits[k] = cased("were", s.tokens[k])
    return edits or None


def _you_to_they(s: Sentence) -> Edits | None:
    edits = _mapped(s, _YOU_THEY)
    verbs = {verb.k for verb in finite_verbs(s)}
    auxiliaries = {verb.k for verb in finite_verbs(s) if verb.kind != "lexical"}
    for k, low in enumerate(s.low):
        if low == "you":
            subject = k + 1 in verbs or k + 2 in verbs and s.low[k + 1][:1].isalpha() or k - 1 in auxiliaries
            edits[k] = cased("they" if subject else "them", s.tokens[k])
            if not subject and (k in s.starts or s.low[k + 1] in FORMS):
                return None
    return edits or None


def swap_gender(s: Sentence, k: int) -> Edits:
    """Replace a man by a woman or a woman by a man, with the pronouns that agree."""
    female = words.GENDER[s.low[k]]
    edits = {k: cased(female, s.tokens[k])}
    present = set(s.low)
    male_pronouns = present & {"he", "him", "his", "himself"}
    female_pronouns = present & {"she", "her", "herself"}
    if s.before(k) in ("his", "her", "my", "your", "our", "their"):
        return edits  # "her brother": the pronouns belong to her
    if male_pronouns and not female_pronouns:
        edits |= _male_to_female(s)
    elif female_pronouns and not male_pronouns:
        edits |= _female_to_male(s)
    return edits
