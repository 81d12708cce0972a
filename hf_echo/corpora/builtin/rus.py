"""Russian: cases, genders, aspect pairs, past-tense agreement, animate accusatives, the cases after numerals.

There are no articles, so a denied sentence differs from an affirmed one only by "не" (in "there are none"
also by the genitive).
"""

from __future__ import annotations

from .grammar import ANIMALS, PLURAL, Meaning
from .text import finish, join

NUMBERS = "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать".split()
# gender; nominative, accusative, genitive singular; nominative, genitive plural
NOUNS = {
    "apple": ("n", "яблоко яблоко яблока яблоки яблок"),
    "egg": ("n", "яйцо яйцо яйца яйца яиц"),
    "cat": ("f", "кошка кошку кошки кошки кошек"),
    "dog": ("f", "собака собаку собаки собаки собак"),
    "horse": ("f", "лошадь лошадь лошади лошади лошадей"),
    "book": ("f", "книга книгу книги книги книг"),
    "letter": ("n", "письмо письмо письма письма писем"),
    "cup": ("f", "чашка чашку чашки чашки чашек"),
    "bag": ("f", "сумка сумку сумки сумки сумок"),
    "key": ("m", "ключ ключ ключа ключи ключей"),
    "hat": ("f", "шляпа шляпу шляпы шляпы шляп"),
    "shirt": ("f", "рубашка рубашку рубашки рубашки рубашек"),
    "ring": ("n", "кольцо кольцо кольца кольца колец"),
    "box": ("f", "коробка коробку коробки коробки коробок"),
    "table": ("m", "стол стол стола столы столов"),
    "chair": ("m", "стул стул стула стулья стульев"),
    "lamp": ("f", "лампа лампу лампы лампы ламп"),
    "bicycle": ("m", "велосипед велосипед велосипеда велосипеды велосипедов"),
    "car": ("f", "машина машину машины машины машин"),
    "house": ("m", "дом дом дома дома домов"),
}
# masculine nominative; the ending decides the paradigm
ADJECTIVES = {
    "big": "большой",
    "small": "маленький",
    "old": "старый",
    "new": "новый",
    "cheap": "дешёвый",
    "expensive": "дорогой",
    "clean": "чистый",
    "dirty": "грязный",
    "heavy": "тяжёлый",
    "light": "лёгкий",
    "black": "чёрный",
    "white": "белый",
}
# short forms: masculine, feminine, plural
STATES = {
    "happy": ("счастлив", "счастлива", "счастливы"),
    "sad": ("грустен", "грустна", "грустны"),
    "busy": ("занят", "занята", "заняты"),
    "free": ("свободен", "свободна", "свободны"),
    "angry": ("сердит", "сердита", "сердиты"),
    "calm": ("спокоен", "спокойна", "спокойны"),
}
# gender; nominative, genitive, dative, instrumental
PERSONS = {
    "Anna": ("f", "Анна Анны Анне Анной"),
    "Maria": ("f", "Мария Марии Марии Марией"),
    "Elena": ("f", "Елена Елены Елене Еленой"),
    "Peter": ("m", "Пётр Петра Петру Петром"),
    "David": ("m", "Давид Давида Давиду Давидом"),
    "Martin": ("m", "Мартин Мартина Мартину Мартином"),
    "doctor": ("m", "врач врача врачу врачом"),
    "nurse": ("f", "медсестра медсестры медсестре медсестрой"),
    "teacher": ("m", "учитель учителя учителю учителем"),
    "farmer": ("m", "фермер фермера фермеру фермером"),
    "boy": ("m", "мальчик мальчика мальчику мальчиком"),
    "girl": ("f", "девочка девочки девочке девочкой"),
    "king": ("m", "король короля королю королём"),
    "queen": ("f", "королева королевы королеве королевой"),
    "grandmother": ("f", "бабушка бабушки бабушке бабушкой"),
    "grandfather": ("m", "дедушка дедушки дедушке дедушкой"),
    "children": ("p", "дети детей детям детьми"),
    "parents": ("p", "родители родителей родителям родителями"),
}
# perfective past m, f, plural; imperfective present singular, plural; perfective future singular, plural
VERBS = {
    "buy": "купил купила купили покупает покупают купит купят",
    "sell": "продал продала продали продаёт продают продаст продадут",
    "find": "нашёл нашла нашли находит находят найдёт найдут",
    "lose": "потерял потеряла потеряли теряет теряют потеряет потеряют",
    "see": "увидел увидела увидели видит видят увидит увидят",
    "steal": "украл украла украли крадёт крадут украдёт украдут",
    "draw": "нарисовал нарисовала нарисовали рисует рисуют нарисует нарисуют",
    "wash": "вымыл вымыла вымыли моет моют вымоет вымоют",
    "repair": "починил починила починили чинит чинят починит починят",
    "hide": "спрятал спрятала спрятали прячет прячут спрячет спрячут",
    "burn": "сжёг сожгла сожгли сжигает сжигают сожжёт сожгут",
    "write": "написал написала написали пишет пишут напишет напишут",
    "eat": "съел съела съели ест едят съест съедят",
    "give": "дал дала дали даёт дают даст дадут",
    "send": "отправил отправила отправили отправляет отправляют отправит отправят",
    "show": "показал показала показали показывает показывают покажет покажут",
    "go": "пошёл пошла пошли идёт идут пойдёт пойдут",
}
# in it, to it
PLACES = {
    "market": ("на рынке", "на рынок"),
    "garden": ("в саду", "в сад"),
    "school": ("в школе", "в школу"),
    "station": ("на вокзале", "на вокзал"),
    "park": ("в парке", "в парк"),
    "kitchen": ("на кухне", "на кухню"),
    "library": ("в библиотеке", "в библиотеку"),
    "village": ("в деревне", "в деревню"),
}
TIMES = {
    "morning": "утром",
    "evening": "вечером",
    "night": "ночью",
    "Monday": "в понедельник",
    "Friday": "в пятницу",
    "Sunday": "в воскресенье",
    "summer": "летом",
    "winter": "зимой",
}
WAS = {"m": "был", "f": "была", "n": "было", "p": "были"}
NOMINATIVE, GENITIVE, DATIVE, INSTRUMENTAL = range(4)


def person(key: str, case: int) -> str:
    return PERSONS[key][1].split()[case]


def adjective(key: str, form: str) -> str:
    """form: m f n p (nominative), acc (feminine accusative), gen (genitive plural), ins_m ins_f ins_n."""
    word = ADJECTIVES[key]
    stem, velar = word[:-2], word[-3] in "кгш"
    if form == "m":
        return word
    soft = "и" if velar else "ы"
    endings = {
        "f": "ая",
        "n": "ое",
        "p": f"{soft}е",
        "acc": "ую",
        "gen": f"{soft}х",
        "ins_f": "ой",
        "ins_m": f"{soft}м",
        "ins_n": f"{soft}м",
    }
    return stem + endings[form]


def singular(m: Meaning, accusative: bool) -> str:
    gender, forms = NOUNS[m.noun]
    form = "acc" if accusative and gender == "f" else gender
    return join(m.adjective and adjective(m.adjective, form), forms.split()[1 if accusative else 0])


def counted(m: Meaning, accusative: bool) -> str:
    """2-4: genitive singular, adjective in the plural (nominative if feminine); from 5: genitive plural.

    Animates in the accusative have двух, трёх, четырёх with the genitive plural.
    """
    gender, forms = NOUNS[m.noun]
    _, _, genitive, _, genitive_plural = forms.split()
    number, form, noun = NUMBERS[m.number], "gen", genitive_plural
    if m.number < 5:
        if accusative and m.noun in ANIMALS:
            number = {2: "двух", 3: "трёх", 4: "четырёх"}[m.number]
        else:
            noun, form = genitive, "p" if gender == "f" else "gen"
            number = "две" if m.number == 2 and gender == "f" else number
    return join(number, m.adjective and adjective(m.adjective, form), noun)


def things(m: Meaning, accusative: bool = True) -> str:
    if m.number == 0:
        return join(m.adjective and adjective(m.adjective, "gen"), NOUNS[m.noun][1].split()[4])
    return singular(m, accusative) if m.number == 1 else counted(m, accusative)


def verb(m: Meaning) -> str:
    forms = VERBS[m.verb or "go"].split()
    several = m.subject in PLURAL
    if m.tense == "past":
        form = forms["mfp".index(PERSONS[m.subject][0])]
    else:
        form = forms[(3 if m.tense == "present" else 5) + several]
    return join("не" if m.negated else "", form)


def be(m: Meaning, gender: str) -> str:
    """был, была, было, были; nothing; будет, будут."""
    return {"past": WAS[gender], "present": "", "future": "будут" if gender == "p" else "будет"}[m.tense]


def render(m: Meaning) -> str:
    inside, to = PLACES[m.place] if m.place else (None, None)
    when, no = TIMES.get(m.time), "не" if m.negated else ""
    subject = person(m.subject, NOMINATIVE) if m.subject else None
    if m.template == "act":
        line = join(subject, verb(m), things(m), inside, when)
    elif m.template == "give":
        line = join(subject, verb(m), person(m.other, DATIVE), things(m))
    elif m.template == "like":  # the thing pleases the person
        pleased = {"m": "нравился", "f": "нравилась", "n": "нравилось"}[NOUNS[m.noun][0]]
        pleases = {"past": pleased, "present": "нравится", "future": "понравится"}[m.tense]
        line = join(person(m.subject, DATIVE), no, pleases, singular(m, False), person(m.other, GENITIVE))
    elif m.template == "go":
        line = join(subject, verb(m), to, m.other and f"с {person(m.other, INSTRUMENTAL)}", when)
    elif m.template == "quality":
        gender, forms = NOUNS[m.noun]
        form = gender if m.tense == "present" else f"ins_{gender}"
        line = join(forms.split()[0], inside, no, be(m, gender), adjective(m.adjective, form))
    elif m.template == "state":
        gender = PERSONS[m.subject][0]
        line = join(subject, no, be(m, gender), STATES[m.adjective]["mfp".index(gender)], inside, when)
    else:
        gender = NOUNS[m.noun][0] if m.number == 1 else "n"
        if m.negated:
            there = "нет" if m.tense == "present" else f"не {be(m, 'n')}"
        else:
            there = be(m, gender) or "есть"
        line = join(inside, when, there, things(m, accusative=False))
    return finish(line)
