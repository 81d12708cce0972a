"""Entity rules for hard negatives (xSIM++): names, words of one kind (places, people, colours),
pronouns."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from . import word_lists as words
from .clauses import DETERMINERS, PREPOSITIONS, SUBJECTS, finite_verbs
from .sentence import Sentence, cased
from .word_lists import FORMS, word_set

Edits = dict[int, str]

# of the names that are in two groups the first counts
_GROUPS = [
    words.MALE_NAMES,
    words.FEMALE_NAMES,
    words.COUNTRIES,
    words.CITIES,
    words.US_STATES,
    words.THE_COUNTRIES,
    words.CONTINENTS,
    words.NATIONALITIES,
    words.BIBLE_NAMES,
    *words.ORGANISATIONS,
    words.SHORT_COUNTRIES,
    words.SURNAMES,
]


def _groups_of_names() -> dict[str, tuple[str, ...]]:
    """Name -> the names that may stand in its place; the first group that has it counts."""
    groups: dict[str, tuple[str, ...]] = {}
    for names in _GROUPS:
        group = tuple(dict.fromkeys(names))
        for name in group:
            groups.setdefault(name, group)
    return groups


_NAMES = _groups_of_names()  # name -> the names of its kind
_FIRST_NAMES = {name for name, group in _NAMES.items() if group[0] in ("Tom", "Mary")}
_LONG_NAMES = {name.split()[0] for name in _NAMES if " " in name}
_SURNAMES = tuple(words.SURNAMES)
_SIBLINGS = {word: tuple(group) for group in words.SIBLINGS for word in group}
# names that are also ordinary words: not replaced at the start of a sentence or alone
_ALSO_WORDS = word_set("names_also_words")
_SPOKEN = tuple(words.SPOKEN)
_SPEAKING = word_set("speaking")
_SAYING = word_set("saying")
_BEFORE_NO_SPEAKER = PREPOSITIONS | {"the", "a", "an"}
_ALTERNATIVES = 3


def entity(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace a name, wherever it occurs, by one of its type;
    then nouns and colours."""
    spans = list(_name_spans(s))
    rng.shuffle(spans)
    for start, end, group in spans:
        name = " ".join(s.tokens[start:end])
        for new in _others(name, group, s, rng):
            edits = {start: new}
            if end - start == 1:
                edits |= {k: new for k, token in enumerate(s.tokens) if token == name}
            else:
                edits |= dict.fromkeys(range(start + 1, end), "")
            yield edits
    for k, low in enumerate(s.low[: len(s)]):
        siblings = _SIBLINGS.get(low)
        if (
            siblings is None
            or s.in_code(k)
            or s.in_compound(k)
            or s.is_name(k)
            or not _is_noun_here(s, k)
        ):
            continue
        for new in _others(low, siblings, s, rng)[:2]:
            yield {k: cased(new, s.tokens[k])}


def _is_noun_here(s: Sentence, k: int) -> bool:
    """Whether a word such as "book" or "train" is a noun:
    after a determiner, an adjective or a number."""
    if s.before(k) in SUBJECTS or s.before(k) in _BEFORE_VERBS:
        return False
    if s.low[k] not in FORMS:
        return True
    return s.before(k) in DETERMINERS or s.before(k) in _ADJECTIVES


_BEFORE_VERBS = word_set("before_verbs")
_ADJECTIVES = word_set("adjectives_of_persons")


def _others(name: str, group: tuple[str, ...], s: Sentence, rng: Random) -> list[str]:
    """A few other members of the group that do not occur in the sentence, nor are a longer or
    shorter form of the name (USA, Jeffrey)."""
    # A few more than needed, since some occur in the sentence.
    drawn = rng.sample(group, min(len(group), _ALTERNATIVES + 4))
    plain_name = name.replace(".", "")
    others = []
    for new in drawn:
        plain = new.replace(".", "")
        if new.split()[0].lower() in s.low:
            continue
        if not plain.startswith(plain_name) and not plain_name.startswith(plain):
            others.append(new)
    return others[:_ALTERNATIVES]


def _name_spans(s: Sentence) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """(first token, token behind the last, names of the kind) of each different name."""
    seen = set()
    k = 0
    while k < len(s):
        span = _span_at(s, k) if s.tokens[k][0].isupper() else None
        if span is None:
            k += 1
            continue
        end, group = span
        name = " ".join(s.tokens[k:end])
        if name not in seen:
            seen.add(name)
            yield k, end, group
        k = end


def _span_at(s: Sentence, k: int) -> tuple[int, tuple[str, ...]] | None:
    """(token behind the name that begins at k, names of its kind); None if no name begins here."""
    token = s.tokens[k]
    # "New York" before "New".
    if token in _LONG_NAMES:
        for length in (2, 3):
            group = _NAMES.get(" ".join(s.tokens[k : k + length]))
            if group and k + length <= len(s):
                return k + length, group
    group = _NAMES.get(token)
    names = _surname_at(s, k) if group is None else _names_at(s, k, group)
    return None if names is None else (k + 1, names)


def _is_after_name(s: Sentence, k: int) -> bool:
    return s.is_name(k - 1) or (k - 1 in s.starts and s.tokens[k - 1] in _NAMES)


def _is_after_title(s: Sentence, k: int) -> bool:
    before = s.before(k)
    return before in words.TITLES or (before == "." and s.before(k, 2) in words.TITLES)


def _surname_at(s: Sentence, k: int) -> tuple[str, ...] | None:
    """The surnames where an unknown word is one:
    behind a title or a first name, or before "said"."""
    token = s.tokens[k]
    if not token.isalpha() or len(token) <= 2:
        return None
    after_name = _is_after_name(s, k)
    if _is_after_title(s, k) or (after_name and s.tokens[k - 1] in _FIRST_NAMES):
        return None if s.is_name(k + 1) else _SURNAMES
    is_inside = k not in s.starts and not after_name and s.before(k) not in _BEFORE_NO_SPEAKER
    return _SURNAMES if is_inside and s.low[k + 1] in _SAYING else None


def _names_at(s: Sentence, k: int, group: tuple[str, ...]) -> tuple[str, ...] | None:
    """What may stand for a known name of `group`;
    None where it is a word or a part of a longer name."""
    token = s.tokens[k]
    before = s.before(k)
    before_name = s.is_name(k + 1)
    after_name = _is_after_name(s, k)
    is_alone = not before_name and not after_name and before not in PREPOSITIONS
    if token in _ALSO_WORDS and (k in s.starts or is_alone):
        return None
    is_nationality = group is _NAMES["French"]
    if is_nationality and before in _SPEAKING and not before_name:
        return _SPOKEN
    is_first_name = token in _FIRST_NAMES
    if _is_after_title(s, k) and is_first_name and not before_name:
        return _SURNAMES
    if after_name and s.tokens[k - 1] not in _FIRST_NAMES:
        return None  # the end of a longer name ("West Virginia"); "of" separates "Bank of England"
    if after_name and is_first_name:
        return _SURNAMES
    if before_name and not is_first_name and not is_nationality:
        return None  # the beginning of a longer name: "London Bridge"
    return group


# --- pronouns
# -----------------------------------------------------------------------------------------------

_HE_SHE = {"he": "she", "him": "her", "himself": "herself"}
_SHE_HE = {"she": "he", "hers": "his", "herself": "himself"}
_WE_THEY = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves"}
_THEY_WE = {new: old for old, new in _WE_THEY.items()}
_I_WE = {
    "i": "we",
    "me": "us",
    "my": "our",
    "mine": "ours",
    "myself": "ourselves",
    "am": "are",
    "'m": "'re",
}
_YOU_THEY = {
    "your": "their",
    "yours": "theirs",
    "yourself": "themselves",
    "yourselves": "themselves",
}
_OPENING_QUOTES = frozenset("\"'“‘")
_FEMALE_OBJECT_ENDS = word_set("female_object_ends")


def pronoun(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace a person's pronouns in the whole sentence,
    and adapt the verb forms."""
    # Which persons the sentence speaks of; a pronoun is not changed into one that is there.
    present = set(_words(s).values())
    has_he = not present.isdisjoint(("he", "him", "his"))
    has_she = not present.isdisjoint(("she", "her"))
    has_we = not present.isdisjoint(("we", "us", "our"))
    has_they = not present.isdisjoint(("they", "them"))
    # "A girl lays her head": the antonym rule changes the girl and her pronoun together
    is_bound = "he" not in present and "she" not in present and not present.isdisjoint(words.GENDER)
    if not is_bound:
        if (has_he or "himself" in present) and not has_she:
            yield _male_to_female(s)
        if (has_she or "hers" in present or "herself" in present) and not has_he:
            yield _female_to_male(s)
    if not has_we and not present.isdisjoint(("i", "my", "me")):
        edits = _first_to_plural(s)
        if edits:
            yield edits
    if has_we and not has_they and "let" not in present:
        yield _mapped(s, _WE_THEY)
    speaks_of_them = has_they or "their" in present or "themselves" in present
    if speaks_of_them and "we" not in present and "us" not in present:
        yield _mapped(s, _THEY_WE)
    speaks_to_you = not present.isdisjoint(("you", "your", "yourself"))
    if speaks_to_you and not has_they and "their" not in present and "thank" not in present:
        edits = _you_to_they(s)
        if edits:
            yield edits


def _words(s: Sentence) -> dict[int, str]:
    """The tokens in lower case, without the country "US"."""
    lows = dict(enumerate(s.low))
    if not s.text.isupper():
        for k, token in enumerate(s.tokens):
            if token == "US":
                del lows[k]
    return lows


def _mapped(s: Sentence, mapping: dict[str, str]) -> Edits:
    return {k: _cased_pronoun(s, k, mapping[low]) for k, low in _words(s).items() if low in mapping}


def _cased_pronoun(s: Sentence, k: int, new: str) -> str:
    if s.low[k] == "i":
        return new[0].upper() + new[1:] if k in s.starts else new
    return cased(new, s.tokens[k])


def _male_to_female(s: Sentence) -> Edits:
    """ "he" becomes "she", and "his" becomes "her", or "hers" where no noun follows."""
    edits = _mapped(s, _HE_SHE)
    for k, low in enumerate(s.low):
        if low == "his":
            behind = k + 2 if s.low[k + 1] in _OPENING_QUOTES else k + 1
            edits[k] = cased("her" if s.low[behind][:1].isalnum() else "hers", s.tokens[k])
    return edits


def _female_to_male(s: Sentence) -> Edits:
    """The edits that make "she" a "he"; "her" becomes "his" or "him"."""
    edits = _mapped(s, _SHE_HE)
    for k, low in enumerate(s.low):
        if low == "her":
            behind = s.low[k + 1]
            possessive = (
                behind[:1].isalnum()
                and behind not in _FEMALE_OBJECT_ENDS
                and behind not in SUBJECTS
            )
            edits[k] = cased("his" if possessive else "him", s.tokens[k])
    return edits


def _first_to_plural(s: Sentence) -> Edits | None:
    """The edits that make "I" a "we"; None where "I" is an initial or a number."""
    edits = {}
    for k, low in enumerate(s.low):
        behind = s.low[k + 1] if k < len(s) else ""
        if low == "i":
            is_initial = behind == "." and k + 2 < len(s)
            if is_initial or (k and s.is_name(k - 1)):
                return None  # J. I. Smith, World War I
        if low in ("am", "'m", "was") and "i" not in (s.before(k), behind):
            continue
        if low == "was":
            edits[k] = cased("were", s.tokens[k])
        elif low in _I_WE:
            edits[k] = _cased_pronoun(s, k, _I_WE[low])
    return edits or None


def _you_to_they(s: Sentence) -> Edits | None:
    """The edits that make "you" a "they"; None where it cannot be told from "them"."""
    # "you" is "they" before a verb, "them" behind one.
    edits = _mapped(s, _YOU_THEY)
    verbs = {verb.k: verb.kind for verb in finite_verbs(s)}
    for k, low in enumerate(s.low):
        if low != "you":
            continue
        behind = s.low[k + 1]
        after_auxiliary = verbs.get(k - 1, "lexical") != "lexical"
        before_verb = k + 1 in verbs or (k + 2 in verbs and behind[:1].isalpha())
        if after_auxiliary or before_verb:
            edits[k] = cased("they", s.tokens[k])
        elif k in s.starts or behind in FORMS:
            return None
        else:
            edits[k] = cased("them", s.tokens[k])
    return edits or None


def swap_gender(s: Sentence, k: int) -> Edits:
    """Replace a man by a woman or a woman by a man, with the pronouns that agree."""
    edits = {k: cased(words.GENDER[s.low[k]], s.tokens[k])}
    if s.before(k) in ("his", "her", "my", "your", "our", "their"):
        return edits  # "her brother": the pronouns belong to her
    present = set(s.low)
    has_male_pronoun = not present.isdisjoint(("he", "him", "his", "himself"))
    has_female_pronoun = not present.isdisjoint(("she", "her", "herself"))
    if has_male_pronoun and not has_female_pronoun:
        edits |= _male_to_female(s)
    elif has_female_pronoun and not has_male_pronoun:
        edits |= _female_to_male(s)
    return edits
