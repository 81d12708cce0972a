"""Antonym rule for hard negatives: replace a word by its opposite if its neighbours show that it fits."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .clauses import BE, DETERMINERS, HAVE, PREPOSITIONS, SUBJECTS, is_base
from .entities import swap_gender
from .sentence import Sentence, cased
from .word_lists import ANTONYMS, FIXED_PHRASES, FORMS, GENDER, VERB_ANTONYMS, VERBS

Edits = dict[int, str]

_AFTER_BE = frozenset(
    "is are was were be been being am 's 're 'm not n't so very too more most quite really how as".split()
)
_OWNERS = frozenset("the his her your my their our its".split())
_INFINITIVE_BEFORE = frozenset(
    "to not n't will would can could should must may might 'll 'd and please don't let's".split()
)
_PERSONS = frozenset(
    "man woman men women people person lady gentleman boy girl couple couples friend friends guy guys children child "
    "gentlemen ladies mother father son daughter brother sister king queen actor male female player".split()
)
_SIDES = frozenset("left right front back top bottom".split())
# words with other parts of speech too: only after "be" or an article, not before an object
_ALSO_VERBS = frozenset(
    "open clean empty dry clear complete direct separate lower free warm cool close kind even mine last major like "
    "few back front down up".split()
)
_PREPOSITIONAL = frozenset(
    "with without inside outside above below over under despite behind including excluding".split()
)
# verbs and adjectives that need "with"
_ASK_FOR_WITH = frozenset(
    "agree agreed deal comply cope start begin along associated compared filled covered married met replaced started "
    "began up out wrong".split()
)
# "add x to y" and "remove x from y": the preposition changes with the verb
_VERB_PREPOSITIONS = dict.fromkeys("add send lend sell".split(), ("to", "from"))
_VERB_PREPOSITIONS |= dict.fromkeys("remove receive borrow buy".split(), ("from", "to"))
_CANDIDATES = (
    frozenset(ANTONYMS)
    | frozenset(GENDER)
    | frozenset(word for word, forms in FORMS.items() if any(base in VERB_ANTONYMS for base in forms.values()))
)


def antonym(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace one word by its antonym; prepositions and man/woman come last."""
    later: list[Edits] = []
    for k, low in enumerate(s.low[: len(s)]):
        if low not in _CANDIDATES:
            continue
        behind = s.low[k + 1]
        if (low, behind) in FIXED_PHRASES or (s.before(k), low) in FIXED_PHRASES or s.is_name(k):
            continue
        if s.in_compound(k) or s.in_code(k):
            continue
        if low in GENDER:
            later.append(swap_gender(s, k))
        elif low in _PREPOSITIONAL:
            if _preposition_fits(s, k):
                later.append({k: cased(ANTONYMS[low], s.tokens[k])})
        elif new := _word_antonym(s, k, low):
            yield {k: cased(new, s.tokens[k])}
        elif edits := _verb_antonym(s, k, low):
            yield edits
    yield from later


def _preposition_fits(s: Sentence, k: int) -> bool:
    before, behind = s.before(k), s.low[k + 1]
    thing = behind in DETERMINERS and behind != "any" or behind in ("him", "them", "us", "me", "it", "you")
    return thing and before not in _ASK_FOR_WITH and before not in PREPOSITIONS


# word -> (where, words): it has an antonym only with one of these words `behind` or `before` it
_COMPARED = ("behind", frozenset("than important likely difficult expensive useful often".split()))
_CLIMBED = ("before", frozenset("walk walked walking climb climbing went going running ran".split()))
_JUDGED = ("before", _AFTER_BE | DETERMINERS)
_ONLY = {"more": _COMPARED, "less": _COMPARED, "yes": ("behind", {","}), "no": ("behind", {","})}
_ONLY |= {"first": ("before", _OWNERS), "last": ("before", _OWNERS), "up": _CLIMBED, "down": _CLIMBED}
_ONLY |= {"harder": _JUDGED, "easier": _JUDGED, "hard": _JUDGED, "before": ("behind", ()), "after": ("behind", ())}
_COUNTED = frozenset("people of men women children".split())


def _word_antonym(s: Sentence, k: int, low: str) -> str | None:
    new = ANTONYMS.get(low)
    if new is None:
        return None
    before, behind = s.before(k), s.low[k + 1]
    if low in _ONLY:
        where, words = _ONLY[low]
        fits = (behind if where == "behind" else before) in words
        if low in ("yes", "no"):
            fits = fits and k in s.starts
        elif low in ("up", "down"):
            fits = fits and behind in ("the", "a")
        return new if fits else None
    if low == "old":
        return "young" if behind in _PERSONS or behind in (".", "") or before in SUBJECTS | {"as"} else "new"
    if low in ("many", "few"):
        return new if behind.endswith("s") or behind in _COUNTED else None
    if low in _SIDES:
        return _other_side(s, k, low)
    if low in _ALSO_VERBS:
        return new if before in _JUDGED[1] else None
    if low in FORMS and (before in SUBJECTS or before in _INFINITIVE_BEFORE or k in s.starts):
        return None  # a verb here: "to question", "I doubt"
    return new


def _other_side(s: Sentence, k: int, low: str) -> str | None:
    before, behind = s.before(k), s.low[k + 1]
    if low == "right" and before in _AFTER_BE and behind in (".", "!", "?", "", ","):
        return "wrong"
    if before not in _OWNERS:
        return None
    if low == "right":
        body = ("side", "hand", "of", "arm", "leg", "foot", "eye", "wing", ".", "corner", "button", "click")
        return "left" if behind in body else "wrong"
    if behind in ("to", "of") and low not in ("top", "bottom"):
        return None
    return ANTONYMS[low]


def _verb_antonym(s: Sentence, k: int, low: str) -> Edits | None:
    forms = FORMS.get(low, {})
    before = s.before(k)
    if before in DETERMINERS or before == "'s" and not low.endswith("ing"):
        return None
    if s.low[k + 1] in ("up", "out", "off", "away", "down"):
        return None  # "caught up" is another verb
    form = _form_here(s, k, forms)
    base = forms.get(form)
    opposite = VERB_ANTONYMS.get(base)
    if base == "lose" and s.low[k + 1] in _OWNERS - {"the"}:
        opposite = "find"  # keys, not matches
    if opposite not in VERBS:
        return None
    if base == "like" and before not in SUBJECTS and before not in ("n't", "not", "to"):
        return None
    if form in ("base", "s"):
        subject = before in SUBJECTS or before in _INFINITIVE_BEFORE or k in s.starts
        if before == "and":  # "bread and drink": "and" counts only after another verb
            subject = s.before(k, 2) in FORMS
        if not (subject or form == "s" and s.is_name(k - 1)):
            return None
    edits = {k: cased(VERBS[opposite][form], s.tokens[k])}
    if base in _VERB_PREPOSITIONS:
        old, new = _VERB_PREPOSITIONS[base]
        for j in range(k + 1, len(s)):
            if s.low[j] in (".", ",", ";", "and", "or"):
                break
            if s.low[j] == old and not is_base(s.low[j + 1]):
                edits[j] = new
                break
    return edits


def _form_here(s: Sentence, k: int, forms: dict[str, str]) -> str:
    """The form of a verb in this place: "finished" is a participle after "have" or "be", else a past."""
    if "past" in forms and "participle" in forms:
        near = s.low[max(0, k - 3) : k]
        perfect = any(word in HAVE or word in BE or word in ("be", "been", "being", "'s") for word in near)
        return "participle" if perfect or s.before(k) in PREPOSITIONS else "past"
    return next(iter(forms), "")
