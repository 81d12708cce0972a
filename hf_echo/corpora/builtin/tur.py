"""Turkish: vowel harmony, buffer consonants, softening stems, cases and possessives, apostrophes after names.

Suffixes are written with the linguists' capitals: A is a/e, I is ı/i/u/ü by the vowel before, D is d/t by the
consonant before; (y), (n), (s) appear after a vowel only and (I) after a consonant only.
"""

from __future__ import annotations

import re

from .grammar import NAMES, PLURAL, Meaning
from .text import join

NUMBERS = [
    "sıfır",
    "bir",
    "iki",
    "üç",
    "dört",
    "beş",
    "altı",
    "yedi",
    "sekiz",
    "dokuz",
    "on",
    "on bir",
    "on iki",
]
# the last consonant of the ones in SOFT weakens before a vowel
NOUNS = {
    "apple": "elma",
    "egg": "yumurta",
    "cat": "kedi",
    "dog": "köpek",
    "horse": "at",
    "book": "kitap",
    "letter": "mektup",
    "cup": "fincan",
    "bag": "çanta",
    "key": "anahtar",
    "hat": "şapka",
    "shirt": "gömlek",
    "ring": "yüzük",
    "box": "kutu",
    "table": "masa",
    "chair": "sandalye",
    "lamp": "lamba",
    "bicycle": "bisiklet",
    "car": "araba",
    "house": "ev",
}
SOFT = {
    "köpek": "köpeğ",
    "kitap": "kitab",
    "mektup": "mektub",
    "gömlek": "gömleğ",
    "yüzük": "yüzüğ",
    "mutfak": "mutfağ",
    "git": "gid",
    "kaybet": "kaybed",
}
ADJECTIVES = {
    "big": "büyük",
    "small": "küçük",
    "old": "eski",
    "new": "yeni",
    "cheap": "ucuz",
    "expensive": "pahalı",
    "clean": "temiz",
    "dirty": "kirli",
    "heavy": "ağır",
    "light": "hafif",
    "black": "siyah",
    "white": "beyaz",
    "happy": "mutlu",
    "sad": "üzgün",
    "busy": "meşgul",
    "free": "müsait",
    "angry": "kızgın",
    "calm": "sakin",
}
PERSONS = {
    "doctor": "doktor",
    "nurse": "hemşire",
    "teacher": "öğretmen",
    "farmer": "çiftçi",
    "boy": "oğlan",
    "girl": "kız",
    "king": "kral",
    "queen": "kraliçe",
    "grandmother": "büyükanne",
    "grandfather": "büyükbaba",
    "children": "çocuklar",
    "parents": "ebeveynler",
} | {name: name for name in NAMES}
VERBS = {
    "buy": "satın al",
    "sell": "sat",
    "find": "bul",
    "lose": "kaybet",
    "see": "gör",
    "steal": "çal",
    "draw": "çiz",
    "wash": "yıka",
    "repair": "onar",
    "hide": "sakla",
    "burn": "yak",
    "write": "yaz",
    "eat": "ye",
    "give": "ver",
    "send": "gönder",
    "show": "göster",
    "like": "sev",
    "go": "git",
}
PLACES = {
    "market": "pazar",
    "garden": "bahçe",
    "school": "okul",
    "station": "istasyon",
    "park": "park",
    "kitchen": "mutfak",
    "library": "kütüphane",
    "village": "köy",
}
TIMES = {
    "morning": "sabahleyin",
    "evening": "akşamleyin",
    "night": "geceleyin",
    "Monday": "pazartesi günü",
    "Friday": "cuma günü",
    "Sunday": "pazar günü",
    "summer": "yazın",
    "winter": "kışın",
}
_VOWELS = "aeıioöuü"
_HIGH = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
_LOW = {v: "a" if v in "aıou" else "e" for v in _VOWELS}


def add(stem: str, *suffixes: str) -> str:
    """Attach suffixes one by one: add("kitap", "(y)I") -> "kitabı", add("Anna", "(n)In") -> "Anna'nın"."""
    for suffix in suffixes:
        after_vowel = stem[-1].lower() in _VOWELS
        optional = re.match(r"\((.)\)", suffix)
        if optional:
            keep = (optional[1] == "I") != after_vowel  # a vowel joins consonants, a consonant joins vowels
            suffix = (optional[1] if keep else "") + suffix[3:]
        if suffix[0] in "AI" and stem in SOFT:
            stem = SOFT[stem]
        joint = "'" if stem in NAMES else ""
        vowel = next(c for c in reversed(stem.lower()) if c in _VOWELS)
        last = stem[-1]
        for letter in suffix:
            if letter == "I":
                letter = vowel = _HIGH[vowel]
            elif letter == "A":
                letter = vowel = _LOW[vowel]
            elif letter == "D":
                letter = "t" if last in "çfhkpsşt" else "d"
            elif letter in _VOWELS:
                vowel = letter
            joint += letter
            last = letter
        stem += joint
    return stem


def verb(key: str, m: Meaning) -> str:
    """-DI, -(I)yor, -(y)AcAk, denied with -mA; -lAr for several people."""
    stem = VERBS[key]
    light = stem.split()[-1]  # "satın al"
    if m.tense == "past":
        form = add(light, "mA", "DI") if m.negated else add(light, "DI")
    elif m.tense == "present":
        if m.negated:
            form = add(light, "mIyor")
        elif light[-1] in _VOWELS:  # yıka, ye: the vowel is raised before -yor
            form = add(light[:-1], "Iyor") if light != "ye" else "yiyor"
        else:
            form = add(light, "Iyor")
    elif m.negated:
        form = add(light, "mA", "(y)AcAk")
    else:
        form = add(light, "(y)AcAk") if light != "ye" else "yiyecek"
    return stem[: -len(light)] + (add(form, "lAr") if m.subject in PLURAL else form)


def be(m: Meaning, predicate: str) -> str:
    """büyüktü, büyük, büyük olacak; büyük değildi, büyük değil, büyük olmayacak."""
    if m.tense == "future":
        return f"{predicate} {'olmayacak' if m.negated else 'olacak'}"
    predicate = f"{predicate} değil" if m.negated else predicate
    return add(predicate, "(y)DI") if m.tense == "past" else predicate


def exist(m: Meaning) -> str:
    if m.tense == "future":
        return "olmayacak" if m.negated else "olacak"
    return {"past": "yoktu", "present": "yok"}[m.tense] if m.negated else {"past": "vardı", "present": "var"}[m.tense]


def things(m: Meaning) -> str:
    """The noun stays singular after a number; a denied (definite) object has the accusative."""
    described, noun = m.adjective and ADJECTIVES[m.adjective], NOUNS[m.noun]
    if m.number == 0:
        return join(described, noun)
    noun = add(noun, "(y)I") if m.negated else noun  # elmayı
    if m.number == 1:
        return join(described, "" if m.negated else "bir", noun)
    return join(NUMBERS[m.number], described, noun)


def finish(line: str) -> str:
    """Capital letter and full stop; the capital of i is İ."""
    return ("İ" if line[0] == "i" else line[0].upper()) + line[1:] + "."


def render(m: Meaning) -> str:
    when, place = TIMES.get(m.time), PLACES.get(m.place)
    where = place and add(place, "DA")
    subject = PERSONS[m.subject] if m.subject else None
    other = PERSONS[m.other] if m.other else None
    if m.template == "act":
        line = join(subject, when, where, things(m), verb(m.verb, m))
    elif m.template == "give":
        line = join(subject, add(other, "(y)A"), things(m), verb(m.verb, m))
    elif m.template == "like":
        liked = join(add(other, "(n)In"), ADJECTIVES[m.adjective], add(NOUNS[m.noun], "(s)I", "nI"))
        line = join(subject, liked, verb("like", m))
    elif m.template == "go":
        line = join(subject, when, other and add(other, "(y)lA"), add(place, "(y)A"), verb("go", m))
    elif m.template == "quality":
        line = join(f"{where}ki", NOUNS[m.noun], be(m, ADJECTIVES[m.adjective]))
    elif m.template == "state":
        line = join(subject, when, where, be(m, ADJECTIVES[m.adjective]))
    else:
        line = join(where, when, things(m), exist(m))
    return finish(line)
