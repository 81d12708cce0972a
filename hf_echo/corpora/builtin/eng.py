"""English: a/an, do-support, third person -s, irregular plurals and past tenses, possessive 's and s'."""

from __future__ import annotations

from .grammar import NAMES, PLURAL, Meaning
from .text import finish, join

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
PLURALS = {"box": "boxes"}
# base -> (third person, past)
VERBS = {
    "buy": ("buys", "bought"),
    "sell": ("sells", "sold"),
    "find": ("finds", "found"),
    "lose": ("loses", "lost"),
    "see": ("sees", "saw"),
    "steal": ("steals", "stole"),
    "draw": ("draws", "drew"),
    "wash": ("washes", "washed"),
    "repair": ("repairs", "repaired"),
    "hide": ("hides", "hid"),
    "burn": ("burns", "burned"),
    "write": ("writes", "wrote"),
    "eat": ("eats", "ate"),
    "give": ("gives", "gave"),
    "send": ("sends", "sent"),
    "show": ("shows", "showed"),
    "like": ("likes", "liked"),
    "go": ("goes", "went"),
}
PLACES = {
    "market": "at the market",
    "garden": "in the garden",
    "school": "at school",
    "station": "at the station",
    "park": "in the park",
    "kitchen": "in the kitchen",
    "library": "in the library",
    "village": "in the village",
}
TIMES = {
    "morning": "in the morning",
    "evening": "in the evening",
    "night": "at night",
    "Monday": "on Monday",
    "Friday": "on Friday",
    "Sunday": "on Sunday",
    "summer": "in summer",
    "winter": "in winter",
}


def person(key: str) -> str:
    return key if key in NAMES else f"the {key}"


def owner(key: str) -> str:
    return person(key) + ("'" if key.endswith("s") else "'s")


def plural(noun: str) -> str:
    return PLURALS.get(noun, noun + "s")


def things(m: Meaning) -> str:
    """A thing or several: indefinite when affirmed, definite when denied ("did not buy the three apples")."""
    if m.number == 0:
        return join("no", m.adjective, plural(m.noun))
    if m.number == 1:
        phrase = join(m.adjective, m.noun)
        article = "an" if phrase[0] in "aeiou" else "a"
    else:
        phrase = join(NUMBERS[m.number], m.adjective, plural(m.noun))
        article = ""
    return join("the" if m.negated and m.template != "exist" else article, phrase)


def verb(base: str, m: Meaning) -> str:
    third, past = VERBS[base]
    several = m.subject in PLURAL
    if m.tense == "future":
        return f"will not {base}" if m.negated else f"will {base}"
    if m.negated:
        return ("did" if m.tense == "past" else "do" if several else "does") + f" not {base}"
    return past if m.tense == "past" else base if several else third


def be(m: Meaning, several: bool) -> str:
    if m.tense == "future":
        return "will not be" if m.negated else "will be"
    form = {"past": ("was", "were"), "present": ("is", "are")}[m.tense][several]
    return f"{form} not" if m.negated else form


def render(m: Meaning) -> str:
    when, where = TIMES.get(m.time), PLACES.get(m.place)
    subject = person(m.subject) if m.subject else None
    if m.template == "act":
        line = join(subject, verb(m.verb, m), things(m), where, when)
    elif m.template == "give":
        line = join(subject, verb(m.verb, m), things(m), "to", person(m.other))
    elif m.template == "like":
        line = join(subject, verb("like", m), owner(m.other), m.adjective, m.noun)
    elif m.template == "go":
        goal = "to school" if m.place == "school" else f"to the {m.place}"
        line = join(subject, verb("go", m), goal, m.other and f"with {person(m.other)}", when)
    elif m.template == "quality":
        line = join("the", m.noun, where, be(m, False), m.adjective)
    elif m.template == "state":
        line = join(subject, be(m, m.subject in PLURAL), m.adjective, where, when)
    else:
        form = {"past": ("was", "were"), "present": ("is", "are"), "future": ("will be",) * 2}[m.tense][m.number != 1]
        line = join("there", form, things(m), where, when)
    return finish(line)
