"""Meanings of the built-in corpus, with their splits and hard negatives.

A meaning is a choice of slots, independent of language; the sibling modules (eng.py, fra.py, ...) render it.
The keys in this file only look like English words.

The space is a union of sentence templates. Each template is a product of slots; a slot is a list of allowed
tuples of values, so what does not go together ("eat a house", "an old egg") is in no list. There are

* core slots (who, what, to whom, where, when), which determine the split by an integer hash of their index;
* free slots (tense, polarity, number), which do not: a meaning and its forms with another tense, number or polarity
  share a split, so a held-out sentence never differs from a training sentence in tense alone.

The hash uses the index in the lists below, so adding a word reshuffles the splits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

SPLITS = ("train", "dev", "test")
KINDS = ("negation", "antonym", "number", "entity", "tense")
TENSES = ("past", "present", "future")
NUMBERS = tuple(range(1, 13))

NAMES = ("Anna", "Maria", "Elena", "Peter", "David", "Martin")
PLURAL = frozenset({"children", "parents"})  # persons that take a plural verb
PERSONS = (
    *NAMES,
    *"doctor nurse teacher farmer boy girl king queen grandmother grandfather children parents".split(),
)
PLACES = tuple("market garden school station park kitchen library village".split())
TIMES = tuple("morning evening night Monday Friday Sunday summer winter".split())  # each goes with every tense
ADJECTIVES = tuple("big small old new cheap expensive clean dirty heavy light black white".split())
STATES = ("happy", "sad", "busy", "free", "angry", "calm")
_OPPOSITES = (*ADJECTIVES, *STATES, "buy", "sell", "find", "lose")  # in pairs
ANTONYMS = {word: _OPPOSITES[i ^ 1] for i, word in enumerate(_OPPOSITES)}

ANIMALS = ("cat", "dog", "horse")
_FOOD = ("apple", "egg")
_SMALL = ("book", "letter", "cup", "bag", "key", "hat", "shirt", "ring", "box")
_LARGE = ("table", "chair", "lamp", "bicycle", "car")
NOUNS = (*_FOOD, *ANIMALS, *_SMALL, *_LARGE, "house")

# verb -> the nouns that it can be done to
_TRANSITIVE = {
    "buy": [n for n in NOUNS if n != "letter"],
    "sell": [n for n in NOUNS if n != "letter"],
    "find": [*_FOOD, *ANIMALS, *_SMALL, "lamp", "bicycle"],
    "lose": [*ANIMALS, *_SMALL, "bicycle"],
    "see": list(NOUNS),
    "steal": [*_FOOD, *ANIMALS, *_SMALL, *_LARGE],
    "draw": [n for n in NOUNS if n != "letter"],
    "wash": [*_FOOD, *ANIMALS, "cup", "table", "chair", "bicycle", "car"],
    "repair": [*_LARGE],
    "hide": [*_FOOD, *_SMALL],
    "burn": ["book", "letter", "hat", "shirt", "box", "table", "chair"],
    "write": ["book", "letter"],
    "eat": [*_FOOD],
}
_DITRANSITIVE = {
    "give": [*_FOOD, *ANIMALS, *_SMALL, "chair", "lamp", "bicycle"],
    "send": [*_SMALL, "lamp"],
    "show": [*ANIMALS, *_SMALL, *_LARGE, "house"],
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """One meaning. Slots that its template does not use are None.

    template: "act" (S does something to N things), "give" (S gives N things to O), "like" (S likes O's
    thing), "go" (S goes somewhere, with O or at a time), "quality" (the thing in a place is ADJ), "state"
    (S is ADJ somewhere or at a time), "exist" (there are N things in a place; if negated, N is 0).
    """

    template: str
    tense: str
    negated: bool
    subject: str | None = None
    verb: str | None = None
    number: int | None = None
    adjective: str | None = None
    noun: str | None = None
    other: str | None = None  # recipient, owner or companion
    place: str | None = None
    time: str | None = None


def adjectives_of(noun: str) -> list[str]:
    """Adjectives that fit a noun in every language: Turkish has different words for old cats and old books."""
    without: tuple[str, ...] = ()
    if noun in ANIMALS:
        without = ("old", "new", "heavy", "light")
    elif noun in _FOOD:
        without = ("old", "new", "heavy", "light", "black", "white")
    elif noun in ("house", "lamp"):
        without = ("heavy", "light")
    elif noun == "letter":
        without = ("cheap", "expensive")
    return [a for a in ADJECTIVES if a not in without]


def places_of(noun: str) -> list[str]:
    """Plausible places of a thing: no house in the kitchen."""
    if noun == "house":
        return ["garden", "park", "village"]
    return [p for p in PLACES if noun not in ("car", "horse") or p not in ("school", "kitchen", "library")]


class _Slot(NamedTuple):
    fields: tuple[str, ...]
    values: list[tuple]
    index: dict[tuple, int]


class _Template(NamedTuple):
    number: int
    core: list[_Slot]
    free: list[_Slot]
    cores: int
    frees: int
    share: float  # share of a sample, if the split has enough meanings


def _slot(fields: str, values) -> _Slot:
    values = [v if isinstance(v, tuple) else (v,) for v in values]
    return _Slot(tuple(fields.split()), values, {v: i for i, v in enumerate(values)})


def _verb_phrases(verbs: dict[str, list[str]]) -> Iterator[tuple[str, str, str | None]]:
    for verb, nouns in verbs.items():
        for noun in nouns:
            # nobody writes an old letter
            allowed = ["big", "small"] if verb == "write" else adjectives_of(noun)
            yield from ((verb, noun, adjective) for adjective in (None, *allowed))


@cache
def _templates() -> dict[str, _Template]:
    persons, tense = _slot("subject", PERSONS), _slot("tense", TENSES)
    polarity, number = _slot("negated", (False, True)), _slot("number", NUMBERS)
    pairs = [(a, b) for a, b in product(PERSONS, PERSONS) if a != b]
    described = [(n, a) for n in NOUNS for a in adjectives_of(n)]
    where_or_when = [(p, None) for p in PLACES] + [(None, t) for t in TIMES]
    acts = [
        (*phrase, place, time)
        for phrase in _verb_phrases(_TRANSITIVE)
        for place, time in where_or_when
        if place is None or place in places_of(phrase[1])
    ]
    trips = [(a, b, None) for a, b in pairs] + [(a, None, t) for a in PERSONS for t in TIMES]
    amounts = [(True, 0)] + [(False, n) for n in NUMBERS]
    slots = {
        "act": ([persons, _slot("verb noun adjective place time", acts)], [tense, polarity, number], 0.28),
        "give": (
            [_slot("subject other", pairs), _slot("verb noun adjective", _verb_phrases(_DITRANSITIVE))],
            [tense, polarity, number],
            0.18,
        ),
        "like": (
            [_slot("subject other", pairs), _slot("noun adjective", described)],
            [tense, polarity],
            0.14,
        ),
        "go": ([_slot("subject other time", trips), _slot("place", PLACES)], [tense, polarity], 0.10),
        "quality": (
            [_slot("noun adjective place", [(n, a, p) for n, a in described for p in places_of(n)])],
            [tense, polarity],
            0.10,
        ),
        "state": (
            [persons, _slot("adjective", STATES), _slot("place time", where_or_when)],
            [tense, polarity],
            0.08,
        ),
        "exist": (
            [
                _slot(
                    "noun adjective place",
                    [(n, a, p) for n in NOUNS for a in (None, *adjectives_of(n)) for p in places_of(n)],
                ),
                _slot("time", (None, *TIMES)),
            ],
            [tense, _slot("negated number", amounts)],
            0.12,
        ),
    }
    return {
        name: _Template(i, core, free, prod(len(s.values) for s in core), prod(len(s.values) for s in free), share)
        for i, (name, (core, free, share)) in enumerate(slots.items())
    }


def _encode(meaning: Meaning, slots: list[_Slot]) -> int:
    index = 0
    for slot in slots:
        index = index * len(slot.values) + slot.index[tuple(getattr(meaning, f) for f in slot.fields)]
    return index


def _decode(index: int, slots: list[_Slot]) -> dict:
    chosen = {}
    for slot in reversed(slots):
        index, i = divmod(index, len(slot.values))
        chosen.update(zip(slot.fields, slot.values[i], strict=True))
    return chosen


def _bucket(key: np.ndarray) -> np.ndarray:
    """0 ... 19 by the SplitMix64 finaliser (Steele et al. 2014); uint64 overflow is intended."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (key ^ (key >> np.uint64(31))) % np.uint64(20)


@cache
def _core_splits(template: str) -> np.ndarray:
    """The split number of each core index of a template: 18 of 20 train, 1 dev, 1 test."""
    t = _templates()[template]
    buckets = _bucket(np.arange(t.cores, dtype=np.uint64) + np.uint64(t.number << 32))
    return np.where(buckets == 0, 1, np.where(buckets == 1, 2, 0)).astype(np.int8)


@cache
def _cores_of(template: str, split: str) -> np.ndarray:
    return np.flatnonzero(_core_splits(template) == SPLITS.index(split))


def meaning_count(split: str | None = None) -> int:
    """Exact number of distinct meanings in one split or in all."""
    if split is None:
        return sum(t.cores * t.frees for t in _templates().values())
    _check_split(split)
    return sum(len(_cores_of(name, split)) * t.frees for name, t in _templates().items())


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: the built-in corpus has {', '.join(SPLITS)}")


def meaning_id(meaning: Meaning) -> int:
    """The index of a meaning, 0 ... meaning_count() - 1.

    Raises:
        ValueError: the meaning is not in the grammar.
    """
    offset = 0
    for name, t in _templates().items():
        if name == meaning.template:
            try:
                return offset + _encode(meaning, t.core) * t.frees + _encode(meaning, t.free)
            except KeyError as error:
                raise ValueError(f"not a meaning of the built-in grammar ({error.args[0]!r}): {meaning}") from None
        offset += t.cores * t.frees
    raise ValueError(f"unknown template {meaning.template!r}: use one of {', '.join(_templates())}")


def split_of(meaning: Meaning) -> str:
    """The split that a meaning belongs to."""
    return SPLITS[_core_splits(meaning.template)[_encode(meaning, _templates()[meaning.template].core)]]


def _quotas(n: int, sizes: dict[str, int]) -> dict[str, int]:
    """Divide n by the templates' shares; what a small template lacks is taken from the others."""
    quota = dict.fromkeys(sizes, 0)
    while rest := n - sum(quota.values()):
        open_ = [name for name in sizes if quota[name] < sizes[name]]
        total = sum(_templates()[name].share for name in open_)
        for name in open_:
            more = min(int(rest * _templates()[name].share / total), sizes[name] - quota[name])
            quota[name] += more
        if n - sum(quota.values()) == rest:  # the remainder of the division, fewer than the templates
            for name in open_[:rest]:
                quota[name] += 1
    return quota


def sample_meanings(n: int, *, seed: int = 0, split: str = "train") -> list[Meaning]:
    """Sample n different meanings of a split; the same arguments give the same meanings on every machine.

    Templates have fixed shares; in proportion to their sizes nearly all would be "act".
    """
    size = meaning_count(split)
    if not 0 <= n <= size:
        raise ValueError(f"cannot sample {n} meanings: the {split} split of the built-in corpus has {size}")
    rng = random.Random(f"{seed} {split}")
    templates = _templates()
    quota = _quotas(n, {name: len(_cores_of(name, split)) * t.frees for name, t in templates.items()})
    meanings = []
    for name, t in templates.items():
        cores = _cores_of(name, split)
        for rank in rng.sample(range(len(cores) * t.frees), quota[name]):
            core, free = divmod(rank, t.frees)
            meanings.append(Meaning(name, **_decode(int(cores[core]), t.core), **_decode(free, t.free)))
    rng.shuffle(meanings)
    return meanings


def _is_meaning(meaning: Meaning) -> bool:
    t = _templates()[meaning.template]
    return all(tuple(getattr(meaning, f) for f in s.fields) in s.index for s in (*t.core, *t.free))


_ENTITIES = {"subject": PERSONS, "other": PERSONS, "noun": NOUNS, "place": PLACES, "time": TIMES}


def _variants(m: Meaning, kind: str) -> list[Meaning]:
    """All changes of one kind, including impossible ones."""
    if kind == "tense":
        return [replace(m, tense=t) for t in TENSES if t != m.tense]
    if kind == "negation":
        if m.template == "exist":
            return [replace(m, negated=n == 0, number=n) for n in (NUMBERS if m.negated else (0,))]
        return [replace(m, negated=not m.negated)]
    if kind == "number":
        return [replace(m, number=n) for n in NUMBERS if n != m.number] if m.number else []
    if kind == "antonym":
        words = [(field, ANTONYMS.get(getattr(m, field))) for field in ("adjective", "verb")]
        return [replace(m, **{field: word}) for field, word in words if word]
    # swapping the persons is rare among so many other entities, so it is drawn with weight three
    changed = [replace(m, subject=m.other, other=m.subject)] * 3 if m.other else []
    for field, values in _ENTITIES.items():
        if (old := getattr(m, field)) is not None:
            changed += [replace(m, **{field: v}) for v in values if v != old]
    return changed


def negative_meanings(meaning: Meaning, n: int, *, seed: int = 0) -> list[tuple[Meaning, str]]:
    """Up to n hard negatives: meanings that differ in one change, with its kind; the first ones have different kinds.

    Changes of tense, number and polarity stay in the meaning's split by construction. Antonyms and entities of a train
    meaning come from train, so no dev or test sentence is ever seen as a negative; those of other
    meanings may come from any split.
    """
    rng = random.Random(f"{seed} {meaning_id(meaning)}")
    train_only = split_of(meaning) == "train"
    pools = []
    for kind in rng.sample(KINDS, len(KINDS)):
        pool = _variants(meaning, kind)
        rng.shuffle(pool)
        pools.append((kind, iter(pool)))
    negatives: dict[Meaning, str] = {}
    while pools and len(negatives) < n:
        kind, pool = pools.pop(0)
        for other in pool:
            if other != meaning and other not in negatives and _is_meaning(other):
                if not train_only or split_of(other) == "train":
                    negatives[other] = kind
                    pools.append((kind, pool))
                    break
    return list(negatives.items())
