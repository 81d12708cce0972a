"""Spanish: gender and number, al and del, ser and estar, gustar and its dative, le/les with a recipient."""

from __future__ import annotations

import re

from .grammar import NAMES, PLURAL, Meaning
from .text import finish, join

NUMBERS = "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce".split()
NOUNS = {
    "apple": ("manzana", "f"),
    "egg": ("huevo", "m"),
    "cat": ("gato", "m"),
    "dog": ("perro", "m"),
    "horse": ("caballo", "m"),
    "book": ("libro", "m"),
    "letter": ("carta", "f"),
    "cup": ("taza", "f"),
    "bag": ("bolsa", "f"),
    "key": ("llave", "f"),
    "hat": ("sombrero", "m"),
    "shirt": ("camisa", "f"),
    "ring": ("anillo", "m"),
    "box": ("caja", "f"),
    "table": ("mesa", "f"),
    "chair": ("silla", "f"),
    "lamp": ("lámpara", "f"),
    "bicycle": ("bicicleta", "f"),
    "car": ("coche", "m"),
    "house": ("casa", "f"),
}
ADJECTIVES = {
    "big": "grande",
    "small": "pequeño",
    "old": "viejo",
    "new": "nuevo",
    "cheap": "barato",
    "expensive": "caro",
    "clean": "limpio",
    "dirty": "sucio",
    "heavy": "pesado",
    "light": "ligero",
    "black": "negro",
    "white": "blanco",
    "happy": "contento",
    "sad": "triste",
    "busy": "ocupado",
    "free": "libre",
    "angry": "enfadado",
    "calm": "tranquilo",
}
PERSONS = {
    "doctor": ("el", "médico"),
    "nurse": ("la", "enfermera"),
    "teacher": ("el", "profesor"),
    "farmer": ("el", "granjero"),
    "boy": ("el", "chico"),
    "girl": ("la", "chica"),
    "king": ("el", "rey"),
    "queen": ("la", "reina"),
    "grandmother": ("la", "abuela"),
    "grandfather": ("el", "abuelo"),
    "children": ("los", "niños"),
    "parents": ("los", "padres"),
} | {name: ("", name) for name in NAMES}
FEMININE = {"Anna", "Maria", "Elena", "nurse", "girl", "queen", "grandmother"}
# preterite singular and plural, present singular, future singular (present and future plural: + n)
VERBS = {
    "buy": "compró compraron compra comprará",
    "sell": "vendió vendieron vende venderá",
    "find": "encontró encontraron encuentra encontrará",
    "lose": "perdió perdieron pierde perderá",
    "see": "vio vieron ve verá",
    "steal": "robó robaron roba robará",
    "draw": "dibujó dibujaron dibuja dibujará",
    "wash": "lavó lavaron lava lavará",
    "repair": "reparó repararon repara reparará",
    "hide": "escondió escondieron esconde esconderá",
    "burn": "quemó quemaron quema quemará",
    "write": "escribió escribieron escribe escribirá",
    "eat": "comió comieron come comerá",
    "give": "dio dieron da dará",
    "send": "envió enviaron envía enviará",
    "show": "mostró mostraron muestra mostrará",
    "go": "fue fueron va irá",
    "estar": "estaba estaban está estará",
    "ser": "era eran es será",
    "gustar": "gustaba gustaban gusta gustará",
    "haber": "había había hay habrá",
}
PLACES = {
    "market": "el mercado",
    "garden": "el jardín",
    "school": "la escuela",
    "station": "la estación",
    "park": "el parque",
    "kitchen": "la cocina",
    "library": "la biblioteca",
    "village": "el pueblo",
}
TIMES = {
    "morning": "por la mañana",
    "evening": "por la tarde",
    "night": "por la noche",
    "Monday": "el lunes",
    "Friday": "el viernes",
    "Sunday": "el domingo",
    "summer": "en verano",
    "winter": "en invierno",
}
_CONTRACTED = re.compile(r"\b(a|de) el\b")


def contract(line: str) -> str:
    """al, del."""
    return _CONTRACTED.sub(lambda m: m[1] + "l", line)


def person(key: str) -> str:
    return join(*PERSONS[key])


def adjective(key: str, feminine: bool, several: bool) -> str:
    word = ADJECTIVES[key]
    return (word[:-1] + "a" if feminine and word.endswith("o") else word) + "s" * several


def noun_phrase(m: Meaning, several: bool) -> str:
    noun, gender = NOUNS[m.noun]
    return join(noun + "s" * several, m.adjective and adjective(m.adjective, gender == "f", several))


def definite(m: Meaning) -> str:
    return join("la" if NOUNS[m.noun][1] == "f" else "el", noun_phrase(m, False))


def things(m: Meaning) -> str:
    """Affirmed indefinite, denied definite, none: a bare plural."""
    feminine = NOUNS[m.noun][1] == "f"
    if m.number == 0:
        return noun_phrase(m, True)
    if m.number == 1:
        return definite(m) if m.negated else join("una" if feminine else "un", noun_phrase(m, False))
    article = ("las" if feminine else "los") if m.negated else ""
    return join(article, NUMBERS[m.number], noun_phrase(m, True))


def verb(key: str, m: Meaning, several: bool, clitic: str = "") -> str:
    past, past_plural, present, future = VERBS[key].split()
    if m.tense == "past":
        form = past_plural if several else past
    else:
        form = (present if m.tense == "present" else future) + "n" * several
    return join("no" if m.negated else "", clitic, form)


def render(m: Meaning) -> str:
    when, where = TIMES.get(m.time), m.place and f"en {PLACES[m.place]}"
    several = m.subject in PLURAL
    subject = person(m.subject) if m.subject else None
    if m.template == "act":
        line = join(subject, verb(m.verb, m, several), things(m), where, when)
    elif m.template == "give":
        clitic = "les" if m.other in PLURAL else "le"
        line = join(subject, verb(m.verb, m, several, clitic), things(m), "a", person(m.other))
    elif m.template == "like":  # the thing pleases the person
        clitic = "les" if several else "le"
        line = join("a", subject, verb("gustar", m, False, clitic), definite(m), "de", person(m.other))
    elif m.template == "go":
        goal = f"a {PLACES[m.place]}"
        line = join(subject, verb("go", m, several), goal, m.other and f"con {person(m.other)}", when)
    elif m.template == "quality":
        noun, gender = NOUNS[m.noun]
        copula = "estar" if m.adjective in ("clean", "dirty") else "ser"  # a state, a property
        line = join(
            "la" if gender == "f" else "el",
            noun,
            "de",
            PLACES[m.place],
            verb(copula, m, False),
            adjective(m.adjective, gender == "f", False),
        )
    elif m.template == "state":
        described = adjective(m.adjective, m.subject in FEMININE, several)
        line = join(subject, verb("estar", m, several), described, where, when)
    else:
        line = join(verb("haber", m, False), things(m), where, when)
    return finish(contract(line))
