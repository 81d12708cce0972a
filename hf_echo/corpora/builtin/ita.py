"""Italian: il or l', i or gli, un', le uova; al, della, nel; avere and essere in the perfect; piacere."""

from __future__ import annotations

import re

from .grammar import NAMES, PLURAL, Meaning
from .text import finish, join

NUMBERS = "zero un due tre quattro cinque sei sette otto nove dieci undici dodici".split()
# singular, gender, plural, plural gender if it changes
NOUNS = {
    "apple": ("mela", "f", "mele"),
    "egg": ("uovo", "m", "uova", "f"),
    "cat": ("gatto", "m", "gatti"),
    "dog": ("cane", "m", "cani"),
    "horse": ("cavallo", "m", "cavalli"),
    "book": ("libro", "m", "libri"),
    "letter": ("lettera", "f", "lettere"),
    "cup": ("tazza", "f", "tazze"),
    "bag": ("borsa", "f", "borse"),
    "key": ("chiave", "f", "chiavi"),
    "hat": ("cappello", "m", "cappelli"),
    "shirt": ("camicia", "f", "camicie"),
    "ring": ("anello", "m", "anelli"),
    "box": ("scatola", "f", "scatole"),
    "table": ("tavolo", "m", "tavoli"),
    "chair": ("sedia", "f", "sedie"),
    "lamp": ("lampada", "f", "lampade"),
    "bicycle": ("bicicletta", "f", "biciclette"),
    "car": ("macchina", "f", "macchine"),
    "house": ("casa", "f", "case"),
}
# masculine, feminine, masculine plural, feminine plural
ADJECTIVES = {
    "big": "grande grande grandi grandi",
    "small": "piccolo piccola piccoli piccole",
    "old": "vecchio vecchia vecchi vecchie",
    "new": "nuovo nuova nuovi nuove",
    "cheap": "economico economica economici economiche",
    "expensive": "costoso costosa costosi costose",
    "clean": "pulito pulita puliti pulite",
    "dirty": "sporco sporca sporchi sporche",
    "heavy": "pesante pesante pesanti pesanti",
    "light": "leggero leggera leggeri leggere",
    "black": "nero nera neri nere",
    "white": "bianco bianca bianchi bianche",
    "happy": "felice felice felici felici",
    "sad": "triste triste tristi tristi",
    "busy": "occupato occupata occupati occupate",
    "free": "libero libera liberi libere",
    "angry": "arrabbiato arrabbiata arrabbiati arrabbiate",
    "calm": "calmo calma calmi calme",
}
PERSONS = {
    "doctor": ("il", "medico"),
    "nurse": ("la", "infermiera"),
    "teacher": ("il", "professore"),
    "farmer": ("il", "contadino"),
    "boy": ("il", "ragazzo"),
    "girl": ("la", "ragazza"),
    "king": ("il", "re"),
    "queen": ("la", "regina"),
    "grandmother": ("la", "nonna"),
    "grandfather": ("il", "nonno"),
    "children": ("i", "bambini"),
    "parents": ("i", "genitori"),
} | {name: ("", name) for name in NAMES}
FEMININE = {"Anna", "Maria", "Elena", "nurse", "girl", "queen", "grandmother"}
# participle, present singular and plural, future singular (plural: -anno)
VERBS = {
    "buy": "comprato compra comprano comprerà",
    "sell": "venduto vende vendono venderà",
    "find": "trovato trova trovano troverà",
    "lose": "perso perde perdono perderà",
    "see": "visto vede vedono vedrà",
    "steal": "rubato ruba rubano ruberà",
    "draw": "disegnato disegna disegnano disegnerà",
    "wash": "lavato lava lavano laverà",
    "repair": "riparato ripara riparano riparerà",
    "hide": "nascosto nasconde nascondono nasconderà",
    "burn": "bruciato brucia bruciano brucerà",
    "write": "scritto scrive scrivono scriverà",
    "eat": "mangiato mangia mangiano mangerà",
    "give": "dato dà danno darà",
    "send": "mandato manda mandano manderà",
    "show": "mostrato mostra mostrano mostrerà",
    "go": "andato va vanno andrà",
}
BE = {"past": ("era", "erano"), "present": ("è", "sono"), "future": ("sarà", "saranno")}
PLEASE = {"past": "piaceva", "present": "piace", "future": "piacerà"}
# with article, in it, to it
PLACES = {
    "market": ("il mercato", "a il mercato", "a il mercato"),
    "garden": ("il giardino", "in giardino", "in giardino"),
    "school": ("la scuola", "a scuola", "a scuola"),
    "station": ("la stazione", "a la stazione", "a la stazione"),
    "park": ("il parco", "in il parco", "a il parco"),
    "kitchen": ("la cucina", "in cucina", "in cucina"),
    "library": ("la biblioteca", "in biblioteca", "in biblioteca"),
    "village": ("il villaggio", "in il villaggio", "a il villaggio"),
}
TIMES = {
    "morning": "di mattina",
    "evening": "di sera",
    "night": "di notte",
    "Monday": "lunedì",
    "Friday": "venerdì",
    "Sunday": "domenica",
    "summer": "in estate",
    "winter": "in inverno",
}
_ARTICLE = re.compile(r"\b(il|la|i|una) (?=[aeiou])")
_BEFORE_VOWEL = {"il": "l'", "la": "l'", "i": "gli ", "una": "un'"}
_PREPOSITION = re.compile(r"\b(a|di|in) (il |l'|la |i |gli |le )")
HABITS = {"Monday": "il lunedì", "Friday": "il venerdì", "Sunday": "la domenica"}  # days in the present tense
_STEMS = {"a": "a", "di": "de", "in": "ne"}


def contract(line: str) -> str:
    """Articles by the sound that follows (l'uovo, gli otto anelli); al, all', dei, nel; "ad" before an a.

    No noun here begins with s + consonant, z, gn or ps in the masculine, so lo and uno never arise.
    """

    def fuse(m: re.Match) -> str:
        stem, form = _STEMS[m[1]], m[2]
        return stem + {"il ": "l ", "i ": "i ", "gli ": "gli "}.get(form, f"l{form}")  # all', alla, alle

    line = _ARTICLE.sub(lambda m: _BEFORE_VOWEL[m[1]], line)
    return re.sub(r"\ba (?=A)", "ad ", _PREPOSITION.sub(fuse, line))


def person(key: str) -> str:
    return join(*PERSONS[key])


def adjective(key: str, feminine: bool, several: bool) -> str:
    return ADJECTIVES[key].split()[feminine + 2 * several]


def noun_phrase(m: Meaning, several: bool) -> tuple[str, bool]:
    """The words and whether they are feminine: un uovo sporco, due uova sporche."""
    noun = NOUNS[m.noun]
    feminine = (noun[-1] if several and len(noun) == 4 else noun[1]) == "f"
    return join(noun[2 if several else 0], m.adjective and adjective(m.adjective, feminine, several)), feminine


def definite(m: Meaning) -> str:
    phrase, feminine = noun_phrase(m, False)
    return join("la" if feminine else "il", phrase)


def things(m: Meaning) -> str:
    """Affirmed indefinite, denied definite, none: a bare plural."""
    phrase, feminine = noun_phrase(m, m.number != 1)
    if m.number == 0:
        return phrase
    if m.number == 1:
        return definite(m) if m.negated else join("una" if feminine else "un", phrase)
    return join(("le" if feminine else "i") if m.negated else "", NUMBERS[m.number], phrase)


def verb(m: Meaning) -> str:
    several = m.subject in PLURAL
    participle, present, present_plural, future = VERBS[m.verb or "go"].split()
    if m.tense == "present":
        form = present_plural if several else present
    elif m.tense == "future":
        form = future[:-1] + "anno" if several else future
    elif m.template == "go":  # essere, and the participle agrees with the subject
        ending = ("e" if several else "a") if m.subject in FEMININE else ("i" if several else "o")
        form = f"{'sono' if several else 'è'} {participle[:-1]}{ending}"
    else:
        form = f"{'hanno' if several else 'ha'} {participle}"
    return join("non" if m.negated else "", form)


def render(m: Meaning) -> str:
    noun, inside, to = PLACES[m.place] if m.place else (None, None, None)
    when = HABITS.get(m.time) if m.tense == "present" else None
    when, several = when or TIMES.get(m.time), m.subject in PLURAL
    subject = person(m.subject) if m.subject else None
    no = "non" if m.negated else ""
    if m.template == "act":
        line = join(subject, verb(m), things(m), inside, when)
    elif m.template == "give":
        line = join(subject, verb(m), things(m), "a", person(m.other))
    elif m.template == "like":  # the thing pleases the person
        line = join("a", subject, no, PLEASE[m.tense], definite(m), "di", person(m.other))
    elif m.template == "go":
        line = join(subject, verb(m), to, m.other and f"con {person(m.other)}", when)
    elif m.template == "quality":
        thing, gender, *_ = NOUNS[m.noun]
        line = join(
            "la" if gender == "f" else "il",
            thing,
            "di",
            noun,
            no,
            BE[m.tense][0],
            adjective(m.adjective, gender == "f", False),
        )
    elif m.template == "state":
        described = adjective(m.adjective, m.subject in FEMININE, several)
        line = join(subject, no, BE[m.tense][several], described, inside, when)
    else:
        form = BE[m.tense][m.number != 1]
        line = join(no, ("c'" if form[0] in "eè" else "ci ") + form, things(m), inside, when)
    return finish(contract(line))
