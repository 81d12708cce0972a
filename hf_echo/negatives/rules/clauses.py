"""Find the finite verbs of an English sentence with word lists and neighbouring words, without a tagger.

Precision comes before recall: a word that may be a noun or participle ("plans", "found") counts as a verb only if the
words before or after it show that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .sentence import Sentence
from .word_lists import AMBIGUOUS, BIBLE_NAMES, CITIES, COUNTRIES, FEMALE_NAMES, FORMS, MALE_NAMES, SURNAMES

BE = dict.fromkeys(("is", "are", "am", "'m", "'re"), "present") | {"was": "past", "were": "past"}
MODALS = frozenset("can could will would shall should may might must ca wo cannot 'll".split())
HAVE = frozenset("have has had 've".split())
DO = frozenset("do does did".split())

DETERMINERS = frozenset(
    "the a an this these those his her its their our my your some any every each no another all both".split()
)
OBJECTS = frozenset("him her it them me us you himself herself itself themselves myself".split())
SUBJECTS_SINGULAR = frozenset("he she it everyone everybody someone somebody who which".split())
SUBJECTS_PLURAL = frozenset("i you we they".split())
SUBJECTS = SUBJECTS_SINGULAR | SUBJECTS_PLURAL
PREPOSITIONS = frozenset(
    "in on at to for from with about into of by after before during against over under through between as without "
    "within near around towards toward until since up down out off back away".split()
)
ADVERBS = frozenset(
    "also still just even never always often really only usually now then soon already actually probably likely "
    "certainly clearly currently reportedly apparently finally simply sometimes rarely once ever almost generally "
    "normally typically later first recently eventually merely thus therefore".split()
)
QUESTION_WORDS = frozenset("why where when what which who how whom whose".split())
_NAMES = frozenset(MALE_NAMES + FEMALE_NAMES + SURNAMES + COUNTRIES + CITIES + BIBLE_NAMES)
# after these a pronoun is an object and the next verb has no tense: "let it go", "to help you find"
_CAUSATIVES = frozenset(
    "let lets make makes made making help helps helped helping see saw seen sees hear heard watch watched have had "
    "get gets want wants than with of for about between like letting seeing hearing watching to".split()
)
_CLOSED = DETERMINERS | OBJECTS | SUBJECTS | PREPOSITIONS | MODALS | HAVE | DO | set(BE)
_CLOSED |= set("and or but to not n't if that be been being get got gets getting having because while when".split())
_CLOSED |= set("than so what how why where of".split())
# these may have a verb form without tense some words later: "to let users create"
_BARE = _CAUSATIVES | MODALS | {"to", "do", "does", "did", "and", "or", "enable"} - {"with", "of", "for", "than"}
_NEGATIVE = frozenset("never no nor neither none nothing nobody hardly nowhere without n't not unless".split())


class Verb(NamedTuple):
    """A finite verb. ``kind``: "be", "have" (with a participle), "do", "modal" or "lexical"."""

    k: int
    kind: str
    tense: str  # "present" (after I, they; of "be" always), "s" (after he), "past", "imperative"
    base: str
    inverted: bool = False  # the subject follows: "Is he", "Did Tom"
    negated: bool = False  # "not" or "n't" follows at k + 1


def finite_verbs(s: Sentence) -> list[Verb]:
    """The finite verbs of a sentence from left to right; cached per sentence."""
    if s.verbs is None:
        s.verbs = list(_find(s))
    return s.verbs


def _find(s: Sentence) -> Iterator[Verb]:
    last_auxiliary = -9
    for k, word in enumerate(s.low[: len(s)]):
        verb = None
        if word == "'s":
            verb = _contracted_is(s, k)
            last_auxiliary = k
        elif word in BE or word in MODALS or word in HAVE or word in DO or word == "'d":
            verb = _auxiliary(s, k, word)
            last_auxiliary = k
        elif word in FORMS and not s.is_name(k):
            verb = _lexical(s, k, word, last_auxiliary)
        if verb is not None:
            yield verb


def after_adverbs(s: Sentence, k: int) -> int:
    """The first position from k on without an adverb."""
    while s.low[k] in ADVERBS or s.low[k].endswith("ly") and len(s.low[k]) > 4 and s.low[k] not in FORMS:
        k += 1
    return k


def subject_position(s: Sentence, k: int) -> int:
    """The last position before k without an adverb; -1 at the start."""
    k -= 1
    while s.low[k] in ADVERBS or s.low[k].endswith("ly") and len(s.low[k]) > 4:  # before the start are empty strings
        k -= 1
    return k


def is_participle(word: str) -> bool:
    return word == "been" or "participle" in FORMS.get(word, ()) or word.endswith("ed") and len(word) > 4


def is_base(word: str) -> bool:
    return word in ("be", "have", "do") or "base" in FORMS.get(word, ())


def has_negation(s: Sentence, start: int, length: int = 6) -> bool:
    return any(word in _NEGATIVE for word in s.low[start : start + length])


def _starts_question(s: Sentence, k: int) -> bool:
    return k in s.starts or s.before(k) in QUESTION_WORDS and (k - 1) in s.starts


def _subject_like(s: Sentence, k: int) -> bool:
    word = s.low[k]
    return (
        word in SUBJECTS
        or word in DETERMINERS
        or word in ("there", "that", "anyone", "anybody")
        or (k < len(s) and s.tokens[k][:1].isupper())
    )


def _auxiliary(s: Sentence, k: int, word: str) -> Verb | None:
    nxt = s.low[k + 1]
    negated = nxt in ("not", "n't")
    inverted = _starts_question(s, k) and _subject_like(s, k + 1 + negated)
    if inverted and "?" not in s.low:
        inverted = False
        if word not in DO:
            return None
    if s.low[k + 3] == "?" and negated:
        return None  # a question tag
    if s.before(k) in ("neither", "nor", "so", "only") and nxt in SUBJECTS | {"there"}:
        return None
    if word in BE:
        if s.before(k) in DETERMINERS and s.before(k) != "this":
            return None
        return Verb(k, "be", BE[word], "be", inverted, negated)
    follow = s.low[after_adverbs(s, k + 1 + negated + inverted)]
    if word == "'d":
        return Verb(k, "modal", "past", "would", False, negated) if is_base(follow) else None
    if word in MODALS:
        return _modal(s, k, word, follow, inverted, negated)
    if word in HAVE:
        if is_participle(follow):
            tense = {"had": "past", "has": "s"}.get(word, "present")
            before = s.low[subject_position(s, k)] if k else ""
            is_infinitive = before in MODALS or before in ("to", "not", "n't", "'d", "having")  # "may have gone"
            return None if is_infinitive else Verb(k, "have", tense, "have", inverted, negated)
        return _lexical(s, k, word, -9)
    if negated or inverted or (is_base(follow) and s.before(k) in SUBJECTS):
        j = subject_position(s, k)
        if word == "do" and negated and (j < 0 or s.low[j] in (",", "please", "and", "so")):
            return Verb(k, "do", "imperative", "do", False, True)
        return Verb(k, "do", {"does": "s", "did": "past"}.get(word, "present"), "do", inverted, negated)
    return _lexical(s, k, word, -9)


def _contracted_is(s: Sentence, k: int) -> Verb | None:
    """The 's of "it's"; before a participle it may also be "has", and the base is unknown ("")."""
    if s.before(k) not in ("he", "she", "it", "that", "there", "everything", "everyone", "here"):
        return None
    negated = s.low[k + 1] == "not"
    follow = s.low[after_adverbs(s, k + 1 + negated)]
    return Verb(k, "be", "present", "" if is_participle(follow) else "be", False, negated)


def _modal(s: Sentence, k: int, word: str, follow: str, inverted: bool, negated: bool) -> Verb | None:
    if word == "may" and s.is_name(k):
        return None  # the month
    if follow in PREPOSITIONS | DETERMINERS or follow in ("", ".", ",", "?", "!", "and", "or"):
        return None  # "the will of", "a can"
    base = {"ca": "can", "wo": "will", "cannot": "can", "'ll": "will"}.get(word, word)
    return Verb(k, "modal", "present", base, inverted, negated or word == "cannot")


# When a word is a finite verb: rows (form, tense, names of `_conditions` that all hold, with "!" those that must not).
# The first row that fits decides. "Returns the number" is the language of manuals.
_LEXICAL = [
    (form, tense, {name.lstrip("!"): name[0] != "!" for name in names.split()})
    for form, tense, names in (
        ("s", "s", "start determiner"),
        ("s", "s", "start sure thing"),
        ("s", "s", "!close pronoun !plural_subject"),
        ("s", "s", "!close name sure thing"),
        ("s", "s", "!close name sure preposition"),
        ("s", "s", "!close noun sure thing singular after_determiner"),
        ("past", "past", "!perfect pronoun !base"),
        ("past", "past", "!perfect pronoun !plural_subject"),
        ("past", "past", "!perfect !close named sure plain_past"),
        ("past", "past", "!perfect !close named said"),
        ("past", "past", "!perfect !close named sure !base thing"),
        ("past", "past", "!perfect !close name sure !base preposition !by"),
        ("base", "present", "!close pronoun plural_subject"),
        ("base", "present", "!close people sure thing"),
        ("base", "present", "!close plural_noun sure object !bare"),
        ("base", "imperative", "command sure thing !question"),
        ("base", "imperative", "command sure preposition !question !noun_too"),
    )
]
_NOT_COMMANDS = frozenset("thank let have".split())
_NOUNS_TOO = frozenset("last head back love hope care risk".split())


def _lexical(s: Sentence, k: int, word: str, last_auxiliary: int) -> Verb | None:
    forms = FORMS.get(word)
    j = subject_position(s, k)
    before = s.low[j] if j >= 0 else ""
    after_modal = before in MODALS or s.low[j - 1] in MODALS | DO
    if not forms or s.in_compound(k) or before in ("to", "not", "n't") or after_modal:
        return None
    facts = _conditions(s, k, word, j, before, close=k - last_auxiliary <= 4)
    for form, tense, needed in _LEXICAL:
        if form in forms and all(facts[name] == wanted for name, wanted in needed.items()):
            return Verb(k, "lexical", tense, forms[form])
    return None


def _conditions(s: Sentence, k: int, word: str, j: int, before: str, close: bool) -> dict[str, bool]:
    """What `_LEXICAL` asks about the word at k, the word `before` it (at j, adverbs left out) and the one behind it.

    `close`: a participle or infinitive may belong to an auxiliary before it.
    """
    forms, behind = FORMS[word], s.low[k + 1]
    causative = before in ("you", "it", "who", "which") and s.low[j - 1] in _CAUSATIVES
    this = before in ("this", "that") and j in s.starts
    name = j >= 0 and (s.is_name(j) or s.tokens[j] in _NAMES)
    noun = before.isalpha() and before not in _CLOSED
    plural = before.endswith("s") and not before.endswith("ss")
    first = k in s.starts or before == "please" and j in s.starts
    return {
        "after_determiner": j == 0 or s.before(j) in DETERMINERS,
        "bare": not _BARE.isdisjoint(s.low[max(0, k - 6) : k]),
        "base": "base" in forms,
        "by": behind in ("by", "as"),
        "close": close,
        "command": first and word not in _NOT_COMMANDS,
        "determiner": behind in DETERMINERS,
        "name": name,
        "named": name or noun,
        "noun": noun,
        "noun_too": word in _NOUNS_TOO,
        "object": behind in DETERMINERS | OBJECTS,
        "people": before in ("people", "men", "women", "children"),
        "perfect": before == "have" or before in BE,
        "plain_past": "participle" not in forms and "base" not in forms,  # went, took
        "plural_noun": noun and plural,
        "plural_subject": before in SUBJECTS_PLURAL,
        "preposition": behind in PREPOSITIONS,
        "pronoun": before in SUBJECTS and not causative or this,
        "question": "?" in s.low,
        "said": word == "said",
        "singular": not before.endswith("s"),
        "start": k in s.starts,
        "sure": word not in AMBIGUOUS,
        "thing": behind in DETERMINERS or behind in OBJECTS or behind == "that",
    }
