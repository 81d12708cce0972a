"""German: cases, strong and weak adjectives, genitive owners, verbal brackets, nicht and keine."""

from __future__ import annotations

from .grammar import NAMES, PLURAL, Meaning
from .text import finish, join

NUMBERS = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
# word, gender, plural
NOUNS = {
    "apple": ("Apfel", "m", "Äpfel"),
    "egg": ("Ei", "n", "Eier"),
    "cat": ("Katze", "f", "Katzen"),
    "dog": ("Hund", "m", "Hunde"),
    "horse": ("Pferd", "n", "Pferde"),
    "book": ("Buch", "n", "Bücher"),
    "letter": ("Brief", "m", "Briefe"),
    "cup": ("Tasse", "f", "Tassen"),
    "bag": ("Tasche", "f", "Taschen"),
    "key": ("Schlüssel", "m", "Schlüssel"),
    "hat": ("Hut", "m", "Hüte"),
    "shirt": ("Hemd", "n", "Hemden"),
    "ring": ("Ring", "m", "Ringe"),
    "box": ("Schachtel", "f", "Schachteln"),
    "table": ("Tisch", "m", "Tische"),
    "chair": ("Stuhl", "m", "Stühle"),
    "lamp": ("Lampe", "f", "Lampen"),
    "bicycle": ("Fahrrad", "n", "Fahrräder"),
    "car": ("Auto", "n", "Autos"),
    "house": ("Haus", "n", "Häuser"),
}
# predicate form; STEMS: the stem before endings where it differs ("teuer", "teure")
ADJECTIVES = {
    "big": "groß",
    "small": "klein",
    "old": "alt",
    "new": "neu",
    "cheap": "billig",
    "expensive": "teuer",
    "clean": "sauber",
    "dirty": "schmutzig",
    "heavy": "schwer",
    "light": "leicht",
    "black": "schwarz",
    "white": "weiß",
    "happy": "glücklich",
    "sad": "traurig",
    "busy": "beschäftigt",
    "free": "frei",
    "angry": "wütend",
    "calm": "ruhig",
}
STEMS = {"expensive": "teur"}
# nominative, dative, genitive
PERSONS = {
    "doctor": ("der Arzt", "dem Arzt", "des Arztes"),
    "nurse": ("die Krankenschwester", "der Krankenschwester", "der Krankenschwester"),
    "teacher": ("der Lehrer", "dem Lehrer", "des Lehrers"),
    "farmer": ("der Bauer", "dem Bauern", "des Bauern"),
    "boy": ("der Junge", "dem Jungen", "des Jungen"),
    "girl": ("das Mädchen", "dem Mädchen", "des Mädchens"),
    "king": ("der König", "dem König", "des Königs"),
    "queen": ("die Königin", "der Königin", "der Königin"),
    "grandmother": ("die Großmutter", "der Großmutter", "der Großmutter"),
    "grandfather": ("der Großvater", "dem Großvater", "des Großvaters"),
    "children": ("die Kinder", "den Kindern", "der Kinder"),
    "parents": ("die Eltern", "den Eltern", "der Eltern"),
} | {name: (name, name, f"{name}s") for name in NAMES}
# infinitive (also the present plural), present singular, participle
VERBS = {
    "buy": "kaufen kauft gekauft",
    "sell": "verkaufen verkauft verkauft",
    "find": "finden findet gefunden",
    "lose": "verlieren verliert verloren",
    "see": "sehen sieht gesehen",
    "steal": "stehlen stiehlt gestohlen",
    "draw": "zeichnen zeichnet gezeichnet",
    "wash": "waschen wäscht gewaschen",
    "repair": "reparieren repariert repariert",
    "hide": "verstecken versteckt versteckt",
    "burn": "verbrennen verbrennt verbrannt",
    "write": "schreiben schreibt geschrieben",
    "eat": "essen isst gegessen",
    "give": "geben gibt gegeben",
    "send": "schicken schickt geschickt",
    "show": "zeigen zeigt gezeigt",
    "go": "gehen geht gegangen",
}
# in it, to it
PLACES = {
    "market": ("auf dem Markt", "zum Markt"),
    "garden": ("im Garten", "in den Garten"),
    "school": ("in der Schule", "zur Schule"),
    "station": ("am Bahnhof", "zum Bahnhof"),
    "park": ("im Park", "in den Park"),
    "kitchen": ("in der Küche", "in die Küche"),
    "library": ("in der Bibliothek", "in die Bibliothek"),
    "village": ("im Dorf", "ins Dorf"),
}
TIMES = {
    "morning": "am Morgen",
    "evening": "am Abend",
    "night": "in der Nacht",
    "Monday": "am Montag",
    "Friday": "am Freitag",
    "Sunday": "am Sonntag",
    "summer": "im Sommer",
    "winter": "im Winter",
}
DEFINITE = {"m": "den", "f": "die", "n": "das"}  # accusative
INDEFINITE = {"m": "einen", "f": "eine", "n": "ein"}


def _described(m: Meaning, ending: str, word: str) -> str:
    return join(m.adjective and STEMS.get(m.adjective, ADJECTIVES[m.adjective]) + ending, word)


def after_definite(m: Meaning) -> str:
    """Accusative singular, weak adjective: (den) alten Hut, (die) alte Tasse, (das) alte Buch."""
    noun, gender, _ = NOUNS[m.noun]
    return _described(m, "en" if gender == "m" else "e", noun)


def after_indefinite(m: Meaning) -> str:
    """Accusative singular after ein or an owner's name: (einen) alten Hut, (Annas) alte Tasse, altes Buch."""
    noun, gender, _ = NOUNS[m.noun]
    return _described(m, {"m": "en", "f": "e", "n": "es"}[gender], noun)


def things(m: Meaning) -> str:
    """Accusative. Affirmed indefinite, denied definite, none: keine."""
    _, gender, plural = NOUNS[m.noun]
    if m.number == 0:
        return f"keine {_described(m, 'en', plural)}"
    if m.number == 1:
        return f"{DEFINITE[gender]} {after_definite(m)}" if m.negated else f"{INDEFINITE[gender]} {after_indefinite(m)}"
    if m.negated:
        return f"die {NUMBERS[m.number]} {_described(m, 'en', plural)}"
    return f"{NUMBERS[m.number]} {_described(m, 'e', plural)}"


def bracket(m: Meaning, auxiliary: tuple[str, str] = ("hat", "haben")) -> tuple[str, str]:
    """The finite verb in second place and what stands at the end of the clause."""
    several = m.subject in PLURAL
    infinitive, singular, participle = VERBS[m.verb or "go"].split()
    if m.tense == "past":
        return auxiliary[several], participle
    if m.tense == "future":
        return ("werden" if several else "wird"), infinitive
    return (infinitive if several else singular), ""


def simple(m: Meaning, infinitive: str, past: str, present: str, present_plural: str) -> tuple[str, str]:
    """The same with a preterite instead of a perfect, for sein and mögen."""
    several = m.subject in PLURAL
    if m.tense == "future":
        return ("werden" if several else "wird"), infinitive
    if m.tense == "present":
        return (present_plural if several else present), ""
    return past + ("n" if several and past.endswith("e") else "en" if several else ""), ""


def render(m: Meaning) -> str:
    inside, to = PLACES[m.place] if m.place else (None, None)
    when = TIMES.get(m.time)
    subject = PERSONS[m.subject][0] if m.subject else None
    no = "nicht" if m.negated else ""
    if m.template in ("act", "give"):
        finite, last = bracket(m)
        line = join(subject, finite, m.other and PERSONS[m.other][1], when, inside, things(m), no, last)
    elif m.template == "like":
        finite, last = simple(m, "mögen", "mochte", "mag", "mögen")
        genitive, article = PERSONS[m.other][2], DEFINITE[NOUNS[m.noun][1]]
        liked = f"{genitive} {after_indefinite(m)}" if m.other in NAMES else f"{article} {after_definite(m)} {genitive}"
        line = join(subject, finite, liked, no, last)
    elif m.template == "go":
        finite, last = bracket(m, ("ist", "sind"))
        line = join(subject, finite, when, no, m.other and f"mit {PERSONS[m.other][1]}", to, last)
    elif m.template in ("quality", "state"):
        finite, last = simple(m, "sein", "war", "ist", "sind")
        if m.template == "quality":
            noun, gender, _ = NOUNS[m.noun]
            line = join({"m": "der", "f": "die", "n": "das"}[gender], noun, inside, finite)
        else:
            line = join(subject, finite, inside, when)
        line = join(line, no, ADJECTIVES[m.adjective], last)
    else:
        finite, last = {"past": ("gab", ""), "present": ("gibt", ""), "future": ("wird", "geben")}[m.tense]
        line = join("es", finite, when, inside, things(m), last)
    return finish(line)
