"""Antonym rule for hard negatives: replace a word by its opposite if its neighbours show that it
fits."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .clauses import BE, DETERMINERS, HAVE, PREPOSITIONS, SUBJECTS, is_base
from .entities import swap_gender
from .sentence import Sentence, cased
from .word_lists import ANTONYMS, FIXED_PHRASES, FORMS, GENDER, VERB_ANTONYMS, VERBS, word_set

Edits = dict[int, str]

_AFTER_BE = word_set("after_be")
_OWNERS = word_set("owners")
_INFINITIVE_BEFORE = word_set("infinitive_before")
_PERSONS = word_set("persons")
_SIDES = word_set("sides")
# words with other parts of speech too: only after "be" or an article, not before an object
_ALSO_VERBS = word_set("also_verbs")
_PREPOSITIONAL = word_set("prepositional")
# verbs and adjectives that need "with"
_ASK_FOR_WITH = word_set("ask_for_with")
# "add x to y" and "remove x from y": the preposition changes with the verb
_VERB_PREPOSITIONS = {
    **dict.fromkeys(["add", "send", "lend", "sell"], ("to", "from")),
    **dict.fromkeys(["remove", "receive", "borrow", "buy"], ("from", "to")),
}
_VERB_FORMS = {
    word for word, bases in FORMS.items() if not VERB_ANTONYMS.keys().isdisjoint(bases.values())
}
_CANDIDATES = frozenset([*ANTONYMS, *GENDER, *_VERB_FORMS])


def antonym(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that replace one word by its antonym; prepositions and man/woman come last."""
    later: list[Edits] = []
    for k, low in enumerate(s.low[: len(s)]):
        if low not in _CANDIDATES or s.is_name(k) or s.in_compound(k) or s.in_code(k):
            continue
        if (low, s.low[k + 1]) in FIXED_PHRASES or (s.before(k), low) in FIXED_PHRASES:
            continue
        if low in GENDER:
            later.append(swap_gender(s, k))
        elif low in _PREPOSITIONAL:
            if _preposition_fits(s, k):
                later.append({k: cased(ANTONYMS[low], s.tokens[k])})
        else:
            new = _word_antonym(s, k, low)
            edits = {k: cased(new, s.tokens[k])} if new else _verb_antonym(s, k, low)
            if edits:
                yield edits
    yield from later


def _preposition_fits(s: Sentence, k: int) -> bool:
    before = s.before(k)
    behind = s.low[k + 1]
    if before in _ASK_FOR_WITH or before in PREPOSITIONS or behind == "any":
        return False
    return behind in DETERMINERS or behind in ("him", "them", "us", "me", "it", "you")


# beside these words
_COMPARED = word_set("compared_with_more")
_CLIMBED = word_set("climbed")
_JUDGED = _AFTER_BE | DETERMINERS
_COUNTED = word_set("counted_after_right")
_BEHIND_RIGHT_SIDE = word_set("behind_right_side")


def _word_antonym(s: Sentence, k: int, low: str) -> str | None:
    """The opposite of a word that fits at its place; None without one."""
    new = ANTONYMS.get(low)
    if new is None or not _fits_neighbours(s, k, low):
        return None
    before = s.before(k)
    behind = s.low[k + 1]
    if low == "old":
        is_person = (
            behind in _PERSONS or behind in (".", "") or before in SUBJECTS or before == "as"
        )
        return "young" if is_person else "new"
    if low in _SIDES:
        return _other_side(s, k, low)
    return new


def _fits_neighbours(s: Sentence, k: int, low: str) -> bool:
    """Whether the words beside this one show the meaning that has the antonym."""
    before = s.before(k)
    behind = s.low[k + 1]
    if low in ("before", "after"):
        return False
    if low in ("more", "less"):
        return behind in _COMPARED
    if low in ("yes", "no"):
        return behind == "," and k in s.starts
    if low in ("first", "last"):
        return before in _OWNERS
    if low in ("up", "down"):
        return before in _CLIMBED and behind in ("the", "a")
    if low in ("harder", "easier", "hard"):
        return before in _JUDGED
    if low == "old":
        return True
    if low in ("many", "few"):
        return behind.endswith("s") or behind in _COUNTED
    if low in _SIDES:
        return True
    if low in _ALSO_VERBS:
        return before in _JUDGED
    # "to question", "I doubt"
    is_verb_here = before in SUBJECTS or before in _INFINITIVE_BEFORE or k in s.starts
    return low not in FORMS or not is_verb_here


def _other_side(s: Sentence, k: int, low: str) -> str | None:
    """The other side of "left" or "top"; "right" may be the opposite of "wrong", too."""
    before = s.before(k)
    behind = s.low[k + 1]
    if low == "right" and before in _AFTER_BE and behind in (".", "!", "?", "", ","):
        return "wrong"
    if before not in _OWNERS:
        return None
    if low == "right":
        return "left" if behind in _BEHIND_RIGHT_SIDE else "wrong"
    if behind in ("to", "of") and low not in ("top", "bottom"):
        return None
    return ANTONYMS[low]


def _verb_antonym(s: Sentence, k: int, low: str) -> Edits | None:
    """The edits that put the opposite verb in place, in the same form, with its preposition."""
    before = s.before(k)
    behind = s.low[k + 1]
    if before in DETERMINERS or (before == "'s" and not low.endswith("ing")):
        return None
    if behind in ("up", "out", "off", "away", "down"):
        return None  # "caught up" is another verb
    # The form of the verb here, and the same form of its opposite.
    forms = FORMS.get(low, {})
    form = _form_here(s, k, forms)
    base = forms.get(form)
    opposite = VERB_ANTONYMS.get(base)
    if base == "lose" and behind in _OWNERS and behind != "the":
        opposite = "find"  # keys, not matches
    if opposite not in VERBS:
        return None
    if base == "like" and before not in SUBJECTS and before not in ("n't", "not", "to"):
        return None
    if form in ("base", "s") and not _has_subject(s, k, form):
        return None
    # "add salt to the soup" needs "remove salt from the soup".
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


def _has_subject(s: Sentence, k: int, form: str) -> bool:
    """Whether a word stands in front of the verb that goes with a verb in this form."""
    before = s.before(k)
    if form == "s" and s.is_name(k - 1):
        return True
    if before == "and":  # "bread and drink": "and" counts only after another verb
        return s.before(k, 2) in FORMS
    return before in SUBJECTS or before in _INFINITIVE_BEFORE or k in s.starts


def _form_here(s: Sentence, k: int, forms: dict[str, str]) -> str:
    """The form of a verb in this place: "finished" is a participle after "have" or "be",
    else a past."""
    if "past" not in forms or "participle" not in forms:
        return next(iter(forms), "")
    if s.before(k) in PREPOSITIONS:
        return "participle"
    for word in s.low[max(0, k - 3) : k]:
        if word in HAVE or word in BE or word in ("be", "been", "being", "'s"):
            return "participle"
    return "past"
