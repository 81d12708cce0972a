"""Rules for hard negatives on the finite verb of a sentence: negation, modal verb, tense."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .clauses import Verb, after_adverbs, finite_verbs, has_negation, is_base
from .sentence import Sentence, cased
from .word_lists import FORMS, VERBS

Edits = dict[int, str]

_CONTRACTED = {"can": "can't", "will": "won't", "shall": "shan't"}
_POLARITY = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody"}
# before these words, "not" cannot be removed
_NEEDS_NEGATION = frozenset("yet either anymore ever longer much until but nor neither at".split())
_AFTER_NOT = frozenset("only just even until to necessarily yet all so".split())
# adverbs that stand between the auxiliary and "not"
_MIDDLE = frozenset("also still probably likely certainly currently apparently clearly".split())


def negation(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that add a negation (with do-support if English needs it) or remove one."""
    for verb in finite_verbs(s):
        edits = _affirm(s, verb) if verb.negated else _negate(s, verb)
        if edits:
            yield edits


def _negate(s: Sentence, v: Verb) -> Edits | None:
    k, word, low = v.k, s.tokens[v.k], s.low[v.k]
    if has_negation(s, max(k - 1, 0), 6) or s.low[k + 1] in ("better", "rather"):
        return None
    if s.before(k, 2) in ("as", "than"):
        return None  # "as young as she looks"
    if v.inverted:
        if low in ("am", "may", "shall", "might") or _asks_for_a_thing(s, v):
            return None
        return {k: cased(_CONTRACTED.get(low, low + "n't"), word)}
    if v.kind == "lexical":
        if _coordinated(s, k):
            return None
        support = {"s": "does not", "past": "did not", "present": "do not", "imperative": "do not"}[v.tense]
        return _with_support(s, k, support, v.base)
    if low in ("'ll", "'d"):
        return {k: " will not" if low == "'ll" else " would not"}
    if s.before(k) == "there" and s.low[k + 1] in ("a", "an", "some") and v.kind == "be":
        return {k + 1: "no"}
    j = _behind_middle(s, k)
    if j == k + 1:
        return {k: cased("cannot" if low == "can" else f"{word} not", word)}
    return {j - 1: f"{s.tokens[j - 1]} not"}


def _with_support(s: Sentence, k: int, support: str, verb: str, behind: str = "") -> Edits:
    """Insert an auxiliary before a verb and its adverb: "quickly ran" -> "did not quickly run"."""
    verb = f"{behind} {verb}" if behind else verb
    adverb = s.before(k)
    if k - 1 in s.starts or not adverb.endswith("ly") or len(adverb) < 5 or adverb in _MIDDLE | {"only", "finally"}:
        return {k: cased(f"{support} {verb}", s.tokens[k])}
    return {k - 1: f"{support} {s.tokens[k - 1]}", k: verb}


def _behind_middle(s: Sentence, k: int) -> int:
    """The first position after k without an adverb such as "also"."""
    k += 1
    while s.low[k] in _MIDDLE:
        k += 1
    return k


def _asks_for_a_thing(s: Sentence, v: Verb) -> bool:
    """Whether a question asks for a thing ("Who is he?", "How much is it?"), so that negation makes no sense."""
    asks = {"how"} if v.kind != "be" else {"how", "what", "who", "which", "whose"}
    return any(s.low[start] in asks for start in s.starts if start < v.k)


def _coordinated(s: Sentence, k: int) -> bool:
    """Whether the verb is coordinated ("saw or heard"), where do-support, a modal or "will" needs two edits."""
    return s.low[k + 1] in ("and", "or", ",") and s.low[k + 2] in FORMS


def _affirm(s: Sentence, v: Verb) -> Edits | None:
    k, word = v.k, s.tokens[v.k]
    cannot = s.low[k] == "cannot"
    end = k + 1 if cannot else k + 2
    if s.low[end] in _AFTER_NOT or s.low[end] == "be" and v.kind != "modal":
        return None
    if not _NEEDS_NEGATION.isdisjoint(s.low[end:]):
        return None
    edits: Edits = {} if cannot else {k + 1: ""}
    for j in range(end, len(s)):
        if s.low[j] in _POLARITY:
            edits[j] = cased(_POLARITY[s.low[j]], s.tokens[j])
    if v.kind != "do" or v.inverted:
        if v.kind == "modal":
            edits[k] = word if s.low[k] in ("'ll", "'d") else cased(v.base, word)
        return edits
    base = s.low[end]
    if not base or base not in VERBS and v.tense != "imperative":
        return None
    edits[k] = ""
    form = {"s": "s", "past": "past"}.get(v.tense, "base")
    edits[end] = VERBS[base][form] if base in VERBS else base
    return edits


# --- modal verbs --------------------------------------------------------------------------------------------

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
    """Yield edits that change the modal verb, or add one for possibility or obligation ("is" -> "may be")."""
    verbs = finite_verbs(s)
    for v in verbs:
        if v.kind == "modal" and (edits := _change_modal(s, v, rng)):
            yield edits
    for v in verbs:
        if v.kind != "modal" and not v.inverted and (edits := _add_modal(s, v, rng)):
            yield edits


def _change_modal(s: Sentence, v: Verb, rng: Random) -> Edits | None:
    k, low = v.k, s.low[v.k]
    if s.low[after_adverbs(s, k + 1)] in ("like", "rather", "love") and v.base == "would":
        return None
    new = rng.choice(_MODAL_CHANGES[v.base])
    contracted = s.low[k + 1] == "n't"
    if v.inverted and new in ("might", "must") or contracted and new in ("might", "may"):
        new = "should" if v.base != "should" else "could"
    if low in ("'ll", "'d"):
        return {k: f" {new}"}
    return {k: cased(f"{new} not" if low == "cannot" else new, s.tokens[k])}


def _add_modal(s: Sentence, v: Verb, rng: Random) -> Edits | None:
    if not v.base:
        return None  # "he's gone" may be "is" or "has"
    k, word = v.k, s.tokens[v.k]
    past = v.tense == "past"
    new = "might" if past else rng.choice(("may", "should", "might"))
    if v.kind == "lexical":
        if v.tense == "imperative":
            return {k: cased(f"you {rng.choice(('may', 'should'))} {v.base}", word)} if k in s.starts else None
        if _coordinated(s, k) or s.low[k : k + 2] == ["used", "to"] or v.tense == "s" and k in s.starts:
            return None
        if past:
            return _with_support(s, k, new, VERBS[v.base]["participle"], behind="have")
        return _with_support(s, k, new, v.base)
    if v.kind == "do":
        if not v.negated or v.tense == "imperative" or not is_base(s.low[k + 2]):
            return None
        return {k: cased("could" if past else rng.choice(("should", "would")), word)}
    space = " " if word[0] in "'’" else ""  # she're -> she may be
    tail = {("be", False): "be", ("be", True): "have been"}.get((v.kind, past), "have")
    if v.negated:
        return {k: space + cased(new, word), k + 1: f" not {tail}" if s.low[k + 1] == "n't" else f"not {tail}"}
    j = _behind_middle(s, k)
    if j == k + 1:
        return {k: space + cased(f"{new} {tail}", word)}
    return {k: space + cased(new, word), j - 1: f"{s.tokens[j - 1]} {tail}"}


# --- tense --------------------------------------------------------------------------------------------------

# with these words another tense would contradict the sentence
_TIME_WORDS = frozenset(
    "yesterday today tomorrow tonight now ago last next currently since recently soon already used later once when if "
    "until while as before after every always usually often never born".split()
)
_BE_TENSE = {"is": "was", "are": "were", "am": "was", "'m": " was", "'s": " was", "'re": " were"}


def tense(s: Sentence, rng: Random) -> Iterator[Edits]:
    """Yield edits that change the tense of the only finite verb (present to past, past to present or future).

    Sentences with a time expression, a year or a second finite verb are skipped, because one edit is not enough.
    """
    if not _TIME_WORDS.isdisjoint(s.low) or any(token.isdigit() and len(token) == 4 for token in s.low):
        return
    verbs = finite_verbs(s)
    if len(verbs) == 1 and (edits := _change_tense(s, verbs[0])):
        yield edits


def _change_tense(s: Sentence, v: Verb) -> Edits | None:
    if not v.base:
        return None
    k, low, word = v.k, s.low[v.k], s.tokens[v.k]
    contracted = s.low[k + 1] == "n't"
    if v.kind == "be":
        if low in _BE_TENSE:
            going = s.low[k + 1] == "going" and s.low[k + 2] == "to"
            return None if going else {k: cased(_BE_TENSE[low], word)}
        if "i" in (s.before(k), s.low[k + 1 + contracted]):
            return None if contracted or low == "were" else {k: cased("am", word)}
        return {k: cased("is" if low == "was" else "are", word)}
    if v.kind == "lexical" and v.tense != "imperative":
        if v.tense == "past":
            return None if _coordinated(s, k) else {k: cased(f"will {v.base}", word)}
        return {k: cased(VERBS[v.base]["past"], word)}
    if v.kind == "have" and low != "had":
        return {k: " had" if low == "'ve" else cased("had", word)}
    if v.kind == "do" and v.tense != "imperative":
        if low != "did":
            return {k: cased("did", word)}
        return {k: cased("wo" if contracted else "will", word)}
    if v.kind == "modal" and v.base == "will" and not v.inverted and not v.negated and s.low[k + 1] in VERBS:
        past = VERBS[s.low[k + 1]]["past"]
        return {k: f" {past}" if low == "'ll" else past, k + 1: ""}
    return None
