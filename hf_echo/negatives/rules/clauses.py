"""Find the finite verbs of an English sentence with word lists and neighbouring words, without a tagger.

Precision comes before recall: a word that may be a noun or participle ("plans", "found") counts as a verb only if the
words before or after it show that. Main and subordinate clauses are not distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .sentence import Sentence
from .verbs import AMBIGUOUS, FORMS
from .word_lists import BIBLE_NAMES, CITIES, COUNTRIES, FEMALE_NAMES, MALE_NAMES, SURNAMES

BE = {
    "is": "present",
    "are": "present",
    "am": "present",
    "was": "past",
    "were": "past",
    "'m": "present",
    "'re": "present",
}
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
    "in on at to for from with about into of by after before during against over under through between as "
    "without within near around towards toward until since up down out off back away".split()
)
ADVERBS = frozenset(
    "also still just even never always often really only usually now then soon already actually "
    "probably likely "
    "certainly clearly currently reportedly apparently finally simply sometimes rarely once ever almost "
    "generally normally typically later first recently eventually merely thus therefore".split()
)
QUESTION_WORDS = frozenset("why where when what which who how whom whose".split())
_NAMES = frozenset(MALE_NAMES + FEMALE_NAMES + SURNAMES + COUNTRIES + CITIES + BIBLE_NAMES)
# after these a pronoun is an object and the next verb has no tense: "let it go", "to help you find"
_CAUSATIVES = frozenset(
    "let lets make makes made making help helps helped helping see saw seen sees hear heard watch "
    "watched have had "
    "get gets want wants than with of for about between like letting seeing hearing watching to".split()
)
_CLOSED = (
    DETERMINERS
    | OBJECTS
    | SUBJECTS
    | PREPOSITIONS
    | MODALS
    | HAVE
    | DO
    | set(BE)
    | {
        "and",
        "or",
        "but",
        "to",
        "not",
        "n't",
        "if",
        "that",
        "be",
        "been",
        "being",
        "get",
        "got",
        "gets",
        "getting",
        "having",
        "because",
        "while",
        "when",
        "than",
        "so",
        "what",
        "how",
        "why",
        "where",
        "of",
    }
)
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
    while k >= 0 and (s.low[k] in ADVERBS or s.low[k].endswith("ly") and len(s.low[k]) > 4):
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
    if inverted and not s.text.rstrip("\"”’') ").endswith("?") and "?" not in s.low:
        inverted = False
        if word not in DO:
            return None
    if s.before(k) == "," and nxt in SUBJECTS | {"there"} and s.low[k + 2] == "?" or s.low[k + 3] == "?" and negated:
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
            return Verb(k, "have", tense, "have", inverted, negated) if _has_subject(s, k, inverted) else None
        if negated or inverted or word == "'ve":
            return None
        return _lexical(s, k, word, -9)
    if negated or inverted or (is_base(follow) and follow not in ("work",) and s.before(k) in SUBJECTS):
        j = subject_position(s, k)
        if word == "do" and negated and not inverted and (j < 0 or s.low[j] in (",", "please", "and", "so")):
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


def _has_subject(s: Sentence, k: int, inverted: bool) -> bool:
    """Whether have/had has a subject; after a modal or "to" it is an infinitive: "may have gone"."""
    before = s.low[subject_position(s, k)] if k else ""
    return inverted or before not in MODALS and before not in ("to", "not", "n't", "'d", "having")


def _modal(s: Sentence, k: int, word: str, follow: str, inverted: bool, negated: bool) -> Verb | None:
    before = s.before(k)
    if before in DETERMINERS and before not in ("this", "these", "those", "all", "some") or before in ("at", "of"):
        return None  # "the will of", "a can"
    if word == "may" and s.is_name(k):
        return None  # the month
    if not (inverted or negated or word == "cannot") and (
        follow in PREPOSITIONS or follow in DETERMINERS or follow in ("", ".", ",", "?", "!", "and", "or")
    ):
        return None
    base = {"ca": "can", "wo": "will", "cannot": "can", "'ll": "will"}.get(word, word)
    return Verb(k, "modal", "present", base, inverted, negated or word == "cannot")


def _lexical(s: Sentence, k: int, word: str, last_auxiliary: int) -> Verb | None:
    forms = FORMS.get(word)
    if not forms or s.low[k + 1] == "-" or s.before(k) == "-":
        return None
    j = subject_position(s, k)
    before = s.low[j] if j >= 0 else ""
    pronoun = before in SUBJECTS and not (
        before in ("you", "it", "who", "which") and (j >= 1 and s.low[j - 1] in _CAUSATIVES)
    )
    pronoun = pronoun or before in ("this", "that") and j in s.starts and "base" not in forms
    behind = s.low[k + 1]
    thing = behind in DETERMINERS or behind in OBJECTS or behind == "that"
    if before in ("to", "not", "n't") or before in MODALS or (j >= 1 and s.low[j - 1] in MODALS | DO):
        return None
    close = k - last_auxiliary <= 4  # a participle or infinitive may belong to that auxiliary
    name = j >= 0 and (s.is_name(j) or s.tokens[j] in _NAMES)
    noun = before.isalpha() and before not in _CLOSED
    sure = word not in AMBIGUOUS

    if "s" in forms and k in s.starts and (behind in DETERMINERS or sure and thing):
        return Verb(k, "lexical", "s", forms["s"])  # "Returns the number", as in manuals
    if "s" in forms and not close:
        if pronoun and before not in SUBJECTS_PLURAL:
            return Verb(k, "lexical", "s", forms["s"])
        if name and sure and (thing or behind in PREPOSITIONS):
            return Verb(k, "lexical", "s", forms["s"])
        if noun and sure and thing and not before.endswith("s") and (j == 0 or s.before(j) in DETERMINERS):
            return Verb(k, "lexical", "s", forms["s"])
    if "past" in forms and not (before == "have" or before in BE):
        plain = "participle" not in forms and "base" not in forms  # went, took
        if pronoun and not ("base" in forms and before in SUBJECTS_PLURAL):
            return Verb(k, "lexical", "past", forms["past"])
        if plain and sure and (noun or name) and not close:
            return Verb(k, "lexical", "past", forms["past"])
        if word == "said" and (noun or name) and not close:
            return Verb(k, "lexical", "past", "say")
        if sure and "base" not in forms and (noun or name) and not close and thing:
            return Verb(k, "lexical", "past", forms["past"])
        if sure and "base" not in forms and name and not close and behind in PREPOSITIONS - {"by", "as"}:
            return Verb(k, "lexical", "past", forms["past"])
    if "base" in forms:
        if before in SUBJECTS_PLURAL and pronoun and not close:
            return Verb(k, "lexical", "present", forms["base"])
        if before in ("people", "men", "women", "children") and sure and thing and not close:
            return Verb(k, "lexical", "present", forms["base"])
        plural = noun and before.endswith("s") and not before.endswith("ss") and behind in DETERMINERS | OBJECTS
        if plural and sure and not close and _BARE.isdisjoint(s.low[max(0, k - 6) : k]):
            return Verb(k, "lexical", "present", forms["base"])
        imperative = k in s.starts or before == "please" and j in s.starts
        if (
            imperative
            and sure
            and word not in ("thank", "let", "have")
            and "?" not in s.low
            and (
                thing or behind in PREPOSITIONS and word not in ("last", "head", "back", "love", "hope", "care", "risk")
            )
        ):
            return Verb(k, "lexical", "imperative", forms["base"])
    return None
