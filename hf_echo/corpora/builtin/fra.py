"""French: gender and number (adjectives before or after, participles), elision, au, du, ne ... pas (de)."""

from __future__ import annotations

import re

from .grammar import PLURAL, Meaning
from .text import finish, join

NUMBERS = "zéro un deux trois quatre cinq six sept huit neuf dix onze douze".split()
# word, gender, plural if it is not + s
NOUNS = {
    "apple": ("pomme", "f", ""),
    "egg": ("œuf", "m", ""),
    "cat": ("chat", "m", ""),
    "dog": ("chien", "m", ""),
    "horse": ("cheval", "m", "chevaux"),
    "book": ("livre", "m", ""),
    "letter": ("lettre", "f", ""),
    "cup": ("tasse", "f", ""),
    "bag": ("sac", "m", ""),
    "key": ("clé", "f", ""),
    "hat": ("chapeau", "m", "chapeaux"),
    "shirt": ("chemise", "f", ""),
    "ring": ("bague", "f", ""),
    "box": ("boîte", "f", ""),
    "table": ("table", "f", ""),
    "chair": ("chaise", "f", ""),
    "lamp": ("lampe", "f", ""),
    "bicycle": ("vélo", "m", ""),
    "car": ("voiture", "f", ""),
    "house": ("maison", "f", ""),
}
# masculine, feminine, masculine plural, feminine plural
ADJECTIVES = {
    "big": "grand grande grands grandes",
    "small": "petit petite petits petites",
    "old": "vieux vieille vieux vieilles",
    "new": "nouveau nouvelle nouveaux nouvelles",
    "expensive": "cher chère chers chères",
    "clean": "propre propre propres propres",
    "dirty": "sale sale sales sales",
    "heavy": "lourd lourde lourds lourdes",
    "light": "léger légère légers légères",
    "black": "noir noire noirs noires",
    "white": "blanc blanche blancs blanches",
    "happy": "heureux heureuse heureux heureuses",
    "sad": "triste triste tristes tristes",
    "busy": "occupé occupée occupés occupées",
    "free": "libre libre libres libres",
    "angry": "fâché fâchée fâchés fâchées",
    "calm": "calme calme calmes calmes",
}
BEFORE = ("big", "small", "old", "new")
PERSONS = {
    "Anna": ("", "Anna", "f"),
    "Maria": ("", "Maria", "f"),
    "Elena": ("", "Elena", "f"),
    "Peter": ("", "Peter", "m"),
    "David": ("", "David", "m"),
    "Martin": ("", "Martin", "m"),
    "doctor": ("le", "médecin", "m"),
    "nurse": ("la", "infirmière", "f"),
    "teacher": ("le", "professeur", "m"),
    "farmer": ("le", "fermier", "m"),
    "boy": ("le", "garçon", "m"),
    "girl": ("la", "fille", "f"),
    "king": ("le", "roi", "m"),
    "queen": ("la", "reine", "f"),
    "grandmother": ("la", "grand-mère", "f"),
    "grandfather": ("le", "grand-père", "m"),
    "children": ("les", "enfants", "m"),
    "parents": ("les", "parents", "m"),
}
# participle, present singular, present plural, future singular (plural: -a becomes -ont)
VERBS = {
    "buy": "acheté achète achètent achètera",
    "sell": "vendu vend vendent vendra",
    "find": "trouvé trouve trouvent trouvera",
    "lose": "perdu perd perdent perdra",
    "see": "vu voit voient verra",
    "steal": "volé vole volent volera",
    "draw": "dessiné dessine dessinent dessinera",
    "wash": "lavé lave lavent lavera",
    "repair": "réparé répare réparent réparera",
    "hide": "caché cache cachent cachera",
    "burn": "brûlé brûle brûlent brûlera",
    "write": "écrit écrit écrivent écrira",
    "eat": "mangé mange mangent mangera",
    "give": "donné donne donnent donnera",
    "send": "envoyé envoie envoient enverra",
    "show": "montré montre montrent montrera",
    "go": "allé va vont ira",
}
IMPERFECT = {"be": "était étaient est sont sera", "like": "aimait aimaient aime aiment aimera"}
# noun with article, in it, to it
PLACES = {
    "market": ("le marché", "à le marché", "à le marché"),
    "garden": ("le jardin", "dans le jardin", "dans le jardin"),
    "school": ("la école", "à la école", "à la école"),
    "station": ("la gare", "à la gare", "à la gare"),
    "park": ("le parc", "dans le parc", "à le parc"),
    "kitchen": ("la cuisine", "dans la cuisine", "dans la cuisine"),
    "library": ("la bibliothèque", "à la bibliothèque", "à la bibliothèque"),
    "village": ("le village", "à le village", "à le village"),
}
TIMES = {
    "morning": "le matin",
    "evening": "le soir",
    "night": "la nuit",
    "Monday": "lundi",
    "Friday": "vendredi",
    "Sunday": "dimanche",
    "summer": "en été",
    "winter": "en hiver",
}
_ELISION = re.compile(r"\b(l|d|n)(?:e|a) (?=[aeiouyéèêœAEIOU])")
_CONTRACTIONS = {"à le": "au", "à les": "aux", "de le": "du", "de les": "des"}
_CONTRACTED = re.compile(r"\b(à|de) les?\b")


def contract(line: str) -> str:
    """l'école, d'Anna, n'achète; au, aux, du, des. Elision goes first: "à l'école" is not "au école"."""
    return _CONTRACTED.sub(lambda m: _CONTRACTIONS[m[0]], _ELISION.sub(r"\1'", line))


def person(key: str) -> str:
    article, noun, _ = PERSONS[key]
    return join(article, noun)


def adjective(key: str, feminine: bool, several: bool) -> str:
    return "bon marché" if key == "cheap" else ADJECTIVES[key].split()[feminine + 2 * several]


def noun_phrase(m: Meaning, several: bool) -> str:
    noun, gender, plural = NOUNS[m.noun]
    word = (plural or noun + "s") if several else noun
    if m.adjective is None:
        return word
    described = adjective(m.adjective, gender == "f", several)
    return f"{described} {word}" if m.adjective in BEFORE else f"{word} {described}"


def definite(m: Meaning) -> str:
    return join("la" if NOUNS[m.noun][1] == "f" else "le", noun_phrase(m, False))


def things(m: Meaning) -> str:
    """un grand sac, trois grands sacs; denied: le grand sac, les trois grands sacs; none: de grands sacs."""
    if m.number == 0:
        return f"de {noun_phrase(m, True)}"
    if m.number == 1:
        indefinite = "une" if NOUNS[m.noun][1] == "f" else "un"
        return definite(m) if m.negated else f"{indefinite} {noun_phrase(m, False)}"
    return join("les" if m.negated else "", NUMBERS[m.number], noun_phrase(m, True))


def verb(m: Meaning) -> str:
    """ne <finite> pas <participle>."""
    several, rest = m.subject in PLURAL, ""
    simple = IMPERFECT.get({"state": "be", "quality": "be"}.get(m.template, m.template))
    if simple:
        forms = simple.split()
        finite = forms[4] if m.tense == "future" else forms[{"past": 0, "present": 2}[m.tense] + several]
    else:
        participle, *present, future = VERBS[m.verb or "go"].split()
        finite, rest = {"past": ("", participle), "present": (present[several], ""), "future": (future, "")}[m.tense]
        if m.tense == "past" and m.template == "go":  # être, and the participle agrees with the subject
            finite = "sont" if several else "est"
            rest = participle + ("e" if PERSONS[m.subject][2] == "f" else "") + ("s" if several else "")
        elif m.tense == "past":
            finite = "ont" if several else "a"
    if m.tense == "future" and several:
        finite = finite[:-1] + "ont"
    return join("ne" if m.negated else "", finite, "pas" if m.negated else "", rest)


def time(m: Meaning) -> str | None:
    """Days have an article when the present makes them a habit: "le lundi"."""
    habit = m.tense == "present" and m.time in ("Monday", "Friday", "Sunday")
    return m.time and join("le" if habit else "", TIMES[m.time])


def render(m: Meaning) -> str:
    noun, inside, to = PLACES[m.place] if m.place else (None, None, None)
    subject = person(m.subject) if m.subject else None
    if m.template == "act":
        line = join(subject, verb(m), things(m), inside, time(m))
    elif m.template == "give":
        line = join(subject, verb(m), things(m), "à", person(m.other))
    elif m.template == "like":
        line = join(subject, verb(m), definite(m), "de", person(m.other))
    elif m.template == "go":
        line = join(subject, verb(m), to, m.other and f"avec {person(m.other)}", time(m))
    elif m.template == "quality":
        thing, gender, _ = NOUNS[m.noun]
        described = adjective(m.adjective, gender == "f", False)
        line = join("la" if gender == "f" else "le", thing, "de", noun, verb(m), described)
    elif m.template == "state":
        described = adjective(m.adjective, PERSONS[m.subject][2] == "f", m.subject in PLURAL)
        line = join(subject, verb(m), described, inside, time(m))
    else:
        there = {"past": "y avait", "present": "y a", "future": "y aura"}[m.tense]
        there = f"ne {there} pas" if m.negated else there
        line = join("il", there, things(m), inside, time(m))
    return finish(contract(line))
