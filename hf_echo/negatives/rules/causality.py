"""Rules for hard negatives on the finite verb of a sentence: negation, modal verb, tense.

In every rule `s` is the sentence and k the place of a token: `s.tokens[k]` is the token as written,
`s.low[k]` in lower case, `s.before(k)` the one before it in lower case; outside of the text both
are "". An edit is {place: new token}; "" removes a token. `v` is a finite verb at
place `v.k` (`clauses.Verb`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .clauses import Verb, after_adverbs, finite_verbs, has_negation, is_base
from .sentence import Sentence, cased
from .word_lists import FORMS, VERBS, word_set

Edits = dict[int, str]

_CONTRACTED = {"can": "can't", "will": "won't", "shall": "shan't"}
_DO_NOT = {"s": "does not", "past": "did not", "present": "do not", "imperative": "do not"}
_POLARITY = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody"}
# before these words, "not" cannot be removed
_NEEDS_NEGATION = word_set("needs_negation")
_AFTER_NOT = word_set("after_not")
# adverbs that stand between the auxiliary and "not"
_MIDDLE = word_set("adverbs_before_not")


def negation(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that add a negation (with do-support if English needs it) or remove one."""
    for verb in finite_verbs(s):
        edits = _affirm(s, verb) if verb.negated else _negate(s, verb)
        if edits:
            yield edits


def _negate(s: Sentence, v: Verb) -> Edits | None:
    """The edits that negate a finite verb; None where English would need another sentence."""
    k = v.k
    low = s.low[k]
    behind = s.low[k + 1]
    # "never went", "had better go": a "not" beside them makes no sentence.
    if has_negation(s, max(k - 1, 0)) or behind in ("better", "rather"):
        return None
    if s.before(k, 2) in ("as", "than"):
        return None  # "as young as she looks"
    # A question gets "n't": "Is he ..." -> "Isn't he ..."; there is no "amn't".
    if v.inverted:
        if low in ("am", "may", "shall", "might") or _asks_for_a_thing(s, v):
            return None
        return {k: cased(_CONTRACTED.get(low, low + "n't"), s.tokens[k])}
    if v.kind == "lexical":
        if _coordinated(s, k):
            return None
        return _with_support(s, k, _DO_NOT[v.tense], v.base)
    if low == "'ll":
        return {k: " will not"}
    if low == "'d":
        return {k: " would not"}
    # "there is a" -> "there is no"
    if v.kind == "be" and s.before(k) == "there" and behind in ("a", "an", "some"):
        return {k + 1: "no"}
    # "is also" -> "is also not", "is" -> "is not"
    last = _last_adverb(s, k)
    if last > k:
        return {last: f"{s.tokens[last]} not"}
    word = s.tokens[k]
    return {k: cased("cannot" if low == "can" else f"{word} not", word)}


def _with_support(s: Sentence, k: int, support: str, verb: str) -> Edits:
    """Insert an auxiliary before a verb and its adverb: "quickly ran" -> "did not quickly run"."""
    adverb = s.before(k)
    stands_before_auxiliary = adverb in _MIDDLE or adverb in ("only", "finally")
    if k - 1 in s.starts or not adverb.endswith("ly") or len(adverb) < 5 or stands_before_auxiliary:
        return {k: cased(f"{support} {verb}", s.tokens[k])}
    return {k - 1: f"{support} {s.tokens[k - 1]}", k: verb}


def _last_adverb(s: Sentence, k: int) -> int:
    """The last of the adverbs such as "also" behind k; k itself if there are none."""
    while s.low[k + 1] in _MIDDLE:
        k += 1
    return k


def _asks_for_a_thing(s: Sentence, v: Verb) -> bool:
    """Whether a question asks for a thing ("Who is he?", "How much is it?"),
    so that negation makes no sense."""
    asks = {"how"} if v.kind != "be" else {"how", "what", "who", "which", "whose"}
    return any(s.low[start] in asks for start in s.starts if start < v.k)


def _coordinated(s: Sentence, k: int) -> bool:
    """Whether the verb is coordinated ("saw or heard"), where do-support,
    a modal or "will" needs two edits."""
    return s.low[k + 1] in ("and", "or", ",") and s.low[k + 2] in FORMS


def _affirm(s: Sentence, v: Verb) -> Edits | None:
    """The edits that take the negation away from a verb; None where the sentence needs it."""
    k = v.k
    word = s.tokens[k]
    is_one_word = s.low[k] == "cannot"
    end = k + 1 if is_one_word else k + 2  # behind the negation
    following = s.low[end]
    # "not only", "do not be"
    if following in _AFTER_NOT or (following == "be" and v.kind != "modal"):
        return None
    # Words such as "yet" ask for the negation that goes.
    if not _NEEDS_NEGATION.isdisjoint(s.low[end:]):
        return None
    edits: Edits = {}
    if not is_one_word:
        edits[k + 1] = ""
    for j in range(end, len(s)):  # "not any" -> "some"
        if s.low[j] in _POLARITY:
            edits[j] = cased(_POLARITY[s.low[j]], s.tokens[j])
    # "can't" is "ca" and "n't": the verb gets its whole form.
    if v.kind == "modal" and s.low[k] not in ("'ll", "'d"):
        edits[k] = cased(v.base, word)
    if v.kind != "do" or v.inverted:
        return edits

    # "does not like" becomes "likes"
    if following in VERBS:
        form = {"s": "s", "past": "past"}.get(v.tense, "base")
        edits[end] = VERBS[following][form]
    elif following and v.tense == "imperative":
        edits[end] = following
    else:
        return None
    edits[k] = ""
    return edits


# --- modal verbs

_MODAL_CHANGES = {
    "can": ("must", "should"),
    "could": ("must", "should"),
    "will": ("might", "should"),
    "would": ("might", "must"),
    "shall": ("might", "could"),
    "should": ("might", "could"),
    "may": ("will", "must"),
    "might": ("will", "must"),
    "must": ("may", "might"),
}


def modal(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that change the modal verb,
    or add one for possibility or obligation ("is" -> "may be")."""
    verbs = finite_verbs(s)
    for verb in verbs:
        if verb.kind == "modal":
            edits = _change_modal(s, verb, rng)
            if edits:
                yield edits
    for verb in verbs:
        if verb.kind != "modal" and not verb.inverted:
            edits = _add_modal(s, verb, rng)
            if edits:
                yield edits


def _change_modal(s: Sentence, v: Verb, rng: Random) -> Edits | None:
    """The edit that puts another modal verb in place of one."""
    k = v.k
    low = s.low[k]
    # "would like" is a wish: another modal verb changes more than the modality.
    if v.base == "would" and s.low[after_adverbs(s, k + 1)] in ("like", "rather", "love"):
        return None
    new = rng.choice(_MODAL_CHANGES[v.base])
    # Nobody says "Might he" or "mayn't".
    contracted = s.low[k + 1] == "n't"
    if (v.inverted and new in ("might", "must")) or (contracted and new in ("might", "may")):
        new = "could" if v.base == "should" else "should"
    if low in ("'ll", "'d"):
        return {k: f" {new}"}
    if low == "cannot":
        new += " not"
    return {k: cased(new, s.tokens[k])}


def _add_modal(s: Sentence, v: Verb, rng: Random) -> Edits | None:
    """The edits that put a modal verb in front of a finite verb: "is" -> "may be"."""
    if not v.base:
        return None  # "he's gone" may be "is" or "has"
    past = v.tense == "past"
    new = "might" if past else rng.choice(("may", "should", "might"))
    if v.kind == "lexical":
        return _add_modal_to_verb(s, v, new, rng)
    k = v.k
    word = s.tokens[k]
    if v.kind == "do":  # "did not go" -> "could not go"
        if not v.negated or v.tense == "imperative" or not is_base(s.low[k + 2]):
            return None
        return {k: cased("could" if past else rng.choice(("should", "would")), word)}

    # "is" -> "may be", "was" -> "might have been", "has gone" -> "may have gone"
    infinitive = "have"
    if v.kind == "be":
        infinitive = "have been" if past else "be"
    before = " " if word[0] in "'’" else ""  # they're -> they may be
    if v.negated:
        space = " " if s.low[k + 1] == "n't" else ""
        return {k: before + cased(new, word), k + 1: f"{space}not {infinitive}"}
    last = _last_adverb(s, k)
    if last > k:
        return {k: before + cased(new, word), last: f"{s.tokens[last]} {infinitive}"}
    return {k: before + cased(f"{new} {infinitive}", word)}


def _add_modal_to_verb(s: Sentence, v: Verb, new: str, rng: Random) -> Edits | None:
    """As `_add_modal`, for a full verb: "goes" -> "may go", "went" -> "might have gone"."""
    k = v.k
    if v.tense == "imperative":
        if k not in s.starts:
            return None
        return {k: cased(f"you {rng.choice(('may', 'should'))} {v.base}", s.tokens[k])}
    # "used to go", and manuals without a subject ("Returns the number"), take no modal.
    used_to = s.low[k : k + 2] == ["used", "to"]
    without_subject = v.tense == "s" and k in s.starts
    if _coordinated(s, k) or used_to or without_subject:
        return None
    if v.tense == "past":
        return _with_support(s, k, new, f"have {VERBS[v.base]['participle']}")
    return _with_support(s, k, new, v.base)


# --- tense

# with these words another tense would contradict the sentence
_TIME_WORDS = word_set("time_words")
_BE_TENSE = {"is": "was", "are": "were", "am": "was", "'m": " was", "'s": " was", "'re": " were"}


def tense(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that change the tense of the only finite verb
    (present to past, past to present or future).

    Sentences with a time expression, a year or a second finite verb are skipped, because one edit
    is not enough.
    """
    # Another tense would contradict a year or "yesterday".
    has_year = any(token.isdigit() and len(token) == 4 for token in s.low)
    if has_year or not _TIME_WORDS.isdisjoint(s.low):
        return
    verbs = finite_verbs(s)
    if len(verbs) == 1:
        edits = _change_tense(s, verbs[0])
        if edits:
            yield edits


def _change_tense(s: Sentence, v: Verb) -> Edits | None:
    """The edits that move a verb from present to past, or from past to future."""
    if not v.base or v.tense == "imperative":
        return None
    k = v.k
    low = s.low[k]
    word = s.tokens[k]
    contracted = s.low[k + 1] == "n't"
    if v.kind == "be":
        return _change_tense_of_be(s, k, contracted)
    if v.kind == "lexical":  # "goes" -> "went", "went" -> "will go"
        if v.tense != "past":
            return {k: cased(VERBS[v.base]["past"], word)}
        return None if _coordinated(s, k) else {k: cased(f"will {v.base}", word)}
    if v.kind == "have" and low != "had":
        return {k: " had" if low == "'ve" else cased("had", word)}
    if v.kind == "do":  # "does he" -> "did he", "didn't" -> "won't"
        if low != "did":
            return {k: cased("did", word)}
        return {k: cased("wo" if contracted else "will", word)}
    # "will go" -> "went"
    if v.base == "will" and not v.inverted and not v.negated and s.low[k + 1] in VERBS:
        past = VERBS[s.low[k + 1]]["past"]
        return {k: f" {past}" if low == "'ll" else past, k + 1: ""}
    return None


def _change_tense_of_be(s: Sentence, k: int, contracted: bool) -> Edits | None:
    """The edit that moves a form of "be" to another tense."""
    low = s.low[k]
    word = s.tokens[k]
    if low in _BE_TENSE:
        if s.low[k + 1 : k + 3] == ["going", "to"]:
            return None
        return {k: cased(_BE_TENSE[low], word)}
    # From past to present: "I was" -> "I am", "was" -> "is", "were" -> "are".
    if "i" in (s.before(k), s.low[k + 1 + contracted]):
        if contracted or low == "were":
            return None
        return {k: cased("am", word)}
    return {k: cased("is" if low == "was" else "are", word)}
