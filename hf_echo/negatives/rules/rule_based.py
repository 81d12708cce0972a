"""Rule-based hard negatives: English sentences with another meaning in nearly the same words.

After xSIM++ (Chen et al. 2023) and the prompt of OS Figure 15: causality (negation, antonym, modal,
and also tense), entities (names, pronouns), numbers (quantities, dates, percentages). The rules use
word lists and neighbouring words, without tagger or parser; a rule that is not sure makes no
negative. English only. A negative may happen to be true.

Who needs them: hard negatives where no language model writes them, for training, for xsim++ and in
data recipes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from random import Random
from zlib import crc32

from ...languages import ENGLISH
from .antonyms import antonym
from .causality import modal, negation, tense
from .entities import entity, pronoun
from .numbers import date, number, percentage
from .sentence import Sentence

#: kind -> rule: (Sentence, Random) -> edits {token position: new text}, one dict per negative
RULES: dict[str, Callable[[Sentence, Random], Iterator[dict[int, str]]]] = {
    "negation": negation,
    "antonym": antonym,
    "modal": modal,
    "entity": entity,
    "pronoun": pronoun,
    "number": number,
    "date": date,
    "percentage": percentage,
    "tense": tense,
}

_NOT_LETTERS = re.compile(r"[\W_]+")


def normal_form(text: str) -> str:
    """Letters and digits of a text in lower case;
    texts with the same normal form count as equal."""
    return _NOT_LETTERS.sub(" ", text.lower()).strip()


def rule_based_hard_negatives(
    text: str, max_negatives: int = 5, *, exclude: Container[str] | None = None, seed: int = 0
) -> list[tuple[str, str]]:
    """Make up to ``max_negatives`` sentences that differ from ``text`` in meaning, as
    (sentence, kind).

    Kinds are the keys of :data:`RULES`. First comes one of each kind, in an order drawn from
    ``seed`` and the text, then further ones of the same kinds. Equal text and seed give an equal
    list.

    Args:
        text: English, one or a few sentences. An empty text gives an empty list.
        max_negatives: largest number; 0 gives an empty list.
        exclude: texts that no negative may equal (as texts or as :func:`normal_form`).
    """
    s = Sentence(text)
    if not s.tokens or max_negatives == 0:
        return []
    # The draw depends on the text and the seed alone, not on what was drawn before.
    rng = Random(crc32(text.encode()) ^ seed * 0x9E3779B1)
    kinds = list(RULES)
    rng.shuffle(kinds)
    edits_of_rules = {kind: RULES[kind](s, rng) for kind in kinds}
    seen = {normal_form(text)}
    negatives: list[tuple[str, str]] = []
    while edits_of_rules and len(negatives) < max_negatives:
        for kind in list(edits_of_rules):
            new = _next_new(s, edits_of_rules[kind], seen, exclude or ())
            if new is None:
                del edits_of_rules[kind]
                continue
            negatives.append((new, kind))
            if len(negatives) == max_negatives:
                break
    return negatives


def _next_new(
    s: Sentence, edits_of_rule: Iterator[dict[int, str]], seen: set[str], exclude: Container[str]
) -> str | None:
    """The next text of a rule that is neither seen nor excluded; None when the rule has no more."""
    for edits in edits_of_rule:
        new = s.render(edits)
        form = normal_form(new)
        if form not in seen and new not in exclude and form not in exclude:
            seen.add(form)
            return new
    return None


def hard_negatives_for(
    targets: Sequence[str], max_negatives: int = 5
) -> list[list[tuple[str, str]]]:
    """Make hard negatives of every target of a corpus, in order;
    none equals any target (:func:`normal_form`)."""
    exclude = {normal_form(target) for target in targets}
    return [rule_based_hard_negatives(target, max_negatives, exclude=exclude) for target in targets]


def hard_negatives_by_id(
    rows: Iterable[Mapping[str, str]], max_negatives: int = 5
) -> dict[str, list[tuple[str, str]]]:
    """{id of an English sentence: its hard negatives} of n-way rows (id, lang, text),
    where the rules make some."""
    english = {row["id"]: row["text"] for row in rows if row["lang"] == ENGLISH}
    negatives_by_id = {}
    negatives_of_texts = hard_negatives_for(list(english.values()), max_negatives)
    for sentence_id, negatives in zip(english, negatives_of_texts):
        if negatives:
            negatives_by_id[sentence_id] = negatives
    return negatives_by_id
