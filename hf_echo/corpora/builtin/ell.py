"""Greek: three genders, cases of articles, adjectives and persons, agreeing numerals, the final -ν of την."""

from __future__ import annotations

import re

from .grammar import PLURAL, Meaning
from .text import finish, join

NUMBERS = "μηδέν ένα δύο τρία τέσσερα πέντε έξι επτά οκτώ εννέα δέκα έντεκα δώδεκα".split()
# gender, singular (nominative and accusative), plural; the dog has forms of its own
NOUNS = {
    "apple": ("n", "μήλο", "μήλα"),
    "egg": ("n", "αυγό", "αυγά"),
    "cat": ("f", "γάτα", "γάτες"),
    "dog": ("m", "σκύλος σκύλο", "σκύλοι σκύλους"),
    "horse": ("n", "άλογο", "άλογα"),
    "book": ("n", "βιβλίο", "βιβλία"),
    "letter": ("n", "γράμμα", "γράμματα"),
    "cup": ("f", "κούπα", "κούπες"),
    "bag": ("f", "τσάντα", "τσάντες"),
    "key": ("n", "κλειδί", "κλειδιά"),
    "hat": ("n", "καπέλο", "καπέλα"),
    "shirt": ("n", "πουκάμισο", "πουκάμισα"),
    "ring": ("n", "δαχτυλίδι", "δαχτυλίδια"),
    "box": ("n", "κουτί", "κουτιά"),
    "table": ("n", "τραπέζι", "τραπέζια"),
    "chair": ("f", "καρέκλα", "καρέκλες"),
    "lamp": ("f", "λάμπα", "λάμπες"),
    "bicycle": ("n", "ποδήλατο", "ποδήλατα"),
    "car": ("n", "αυτοκίνητο", "αυτοκίνητα"),
    "house": ("n", "σπίτι", "σπίτια"),
}
# nominative singular m f n; nominative plural m f n; accusative singular m, accusative plural m
_US = "{0}ύς {0}ιά {0}ύ {0}ιοί {0}ιές {0}ιά {0}ύ {0}ιούς"  # heavy, light: βαρύς
_END = "{0}ος {0}{1} {0}ο {0}οι {0}ες {0}α {0}ο {0}ους"  # accent on the stem: μεγάλος
_OXY = "{0}ός {0}{1} {0}ό {0}οί {0}ές {0}ά {0}ό {0}ούς"  # accent on the ending: μικρός
ADJECTIVES = {
    "big": _END.format("μεγάλ", "η"),
    "small": _OXY.format("μικρ", "ή"),
    "old": _OXY.format("παλι", "ά"),
    "new": _END.format("καινούργι", "α"),
    "cheap": _OXY.format("φτην", "ή"),
    "expensive": _OXY.format("ακριβ", "ή"),
    "clean": _OXY.format("καθαρ", "ή"),
    "dirty": _END.format("βρώμικ", "η"),
    "heavy": _US.format("βαρ"),
    "light": _US.format("ελαφρ"),
    "black": _END.format("μαύρ", "η"),
    "white": _END.format("άσπρ", "η"),
    "happy": _END.format("χαρούμεν", "η"),
    "sad": _END.format("λυπημέν", "η"),
    "busy": _END.format("απασχολημέν", "η"),
    "free": _END.format("ελεύθερ", "η"),
    "angry": _END.format("θυμωμέν", "η"),
    "calm": _END.format("ήρεμ", "η"),
}
# gender, nominative, accusative and genitive with article (before the rule of final -n)
PERSONS = {
    "Anna": ("f", "η Άννα", "την Άννα", "της Άννας"),
    "Maria": ("f", "η Μαρία", "την Μαρία", "της Μαρίας"),
    "Elena": ("f", "η Έλενα", "την Έλενα", "της Έλενας"),
    "Peter": ("m", "ο Πέτρος", "τον Πέτρο", "του Πέτρου"),
    "David": ("m", "ο Δαβίδ", "τον Δαβίδ", "του Δαβίδ"),
    "Martin": ("m", "ο Μάρτιν", "τον Μάρτιν", "του Μάρτιν"),
    "doctor": ("m", "ο γιατρός", "τον γιατρό", "του γιατρού"),
    "nurse": ("f", "η νοσοκόμα", "την νοσοκόμα", "της νοσοκόμας"),
    "teacher": ("m", "ο δάσκαλος", "τον δάσκαλο", "του δασκάλου"),
    "farmer": ("m", "ο αγρότης", "τον αγρότη", "του αγρότη"),
    "boy": ("n", "το αγόρι", "το αγόρι", "του αγοριού"),
    "girl": ("n", "το κορίτσι", "το κορίτσι", "του κοριτσιού"),
    "king": ("m", "ο βασιλιάς", "τον βασιλιά", "του βασιλιά"),
    "queen": ("f", "η βασίλισσα", "την βασίλισσα", "της βασίλισσας"),
    "grandmother": ("f", "η γιαγιά", "την γιαγιά", "της γιαγιάς"),
    "grandfather": ("m", "ο παππούς", "τον παππού", "του παππού"),
    "children": ("n", "τα παιδιά", "τα παιδιά", "των παιδιών"),
    "parents": ("m", "οι γονείς", "τους γονείς", "των γονιών"),
}
# aorist, present, dependent (after θα), each singular and plural
VERBS = {
    "buy": "αγόρασε αγόρασαν αγοράζει αγοράζουν αγοράσει αγοράσουν",
    "sell": "πούλησε πούλησαν πουλάει πουλούν πουλήσει πουλήσουν",
    "find": "βρήκε βρήκαν βρίσκει βρίσκουν βρει βρουν",
    "lose": "έχασε έχασαν χάνει χάνουν χάσει χάσουν",
    "see": "είδε είδαν βλέπει βλέπουν δει δουν",
    "steal": "έκλεψε έκλεψαν κλέβει κλέβουν κλέψει κλέψουν",
    "draw": "ζωγράφισε ζωγράφισαν ζωγραφίζει ζωγραφίζουν ζωγραφίσει ζωγραφίσουν",
    "wash": "έπλυνε έπλυναν πλένει πλένουν πλύνει πλύνουν",
    "repair": "επισκεύασε επισκεύασαν επισκευάζει επισκευάζουν επισκευάσει επισκευάσουν",
    "hide": "έκρυψε έκρυψαν κρύβει κρύβουν κρύψει κρύψουν",
    "burn": "έκαψε έκαψαν καίει καίνε κάψει κάψουν",
    "write": "έγραψε έγραψαν γράφει γράφουν γράψει γράψουν",
    "eat": "έφαγε έφαγαν τρώει τρώνε φάει φάνε",
    "give": "έδωσε έδωσαν δίνει δίνουν δώσει δώσουν",
    "send": "έστειλε έστειλαν στέλνει στέλνουν στείλει στείλουν",
    "show": "έδειξε έδειξαν δείχνει δείχνουν δείξει δείξουν",
    "go": "πήγε πήγαν πηγαίνει πηγαίνουν πάει πάνε",
    "please": "άρεσε άρεσαν αρέσει αρέσουν αρέσει αρέσουν",
    "be": "ήταν ήταν είναι είναι είναι είναι",
    "exist": "υπήρχε υπήρχαν υπάρχει υπάρχουν υπάρχει υπάρχουν",
}
PLACES = {
    "market": "στην αγορά",
    "garden": "στον κήπο",
    "school": "στο σχολείο",
    "station": "στον σταθμό",
    "park": "στο πάρκο",
    "kitchen": "στην κουζίνα",
    "library": "στην βιβλιοθήκη",
    "village": "στο χωριό",
}
TIMES = {
    "morning": "το πρωί",
    "evening": "το βράδυ",
    "night": "την νύχτα",
    "Monday": "την Δευτέρα",
    "Friday": "την Παρασκευή",
    "Sunday": "την Κυριακή",
    "summer": "το καλοκαίρι",
    "winter": "τον χειμώνα",
}
ARTICLES = {"m": "ο", "f": "η", "n": "το"}
# "την" keeps its -n before a vowel, κ π τ ξ ψ and μπ ντ γκ τσ τζ
_FINAL_N = re.compile(r"\b((?:σ)?τη)ν (?=[βγδζθλμνρσφχΜΔ])(?!μπ|ντ|γκ)")


def final_n(line: str) -> str:
    """την Άννα, την κούπα, but τη γάτα, στη βιβλιοθήκη."""
    return _FINAL_N.sub(r"\1 ", line)


def to(key: str) -> str:
    """στον, στην, στο, στους, στα: the preposition fused with the accusative article."""
    return "σ" + PERSONS[key][2]


def adjective(key: str, gender: str, several: bool, accusative: bool) -> str:
    forms = ADJECTIVES[key].split()
    if accusative and gender == "m":
        return forms[7 if several else 6]
    return forms["mfn".index(gender) + 3 * several]


def noun_phrase(m: Meaning, several: bool, accusative: bool) -> str:
    gender, *forms = NOUNS[m.noun]
    noun = forms[several].split()[-1 if accusative else 0]
    return join(m.adjective and adjective(m.adjective, gender, several, accusative), noun)


def numeral(n: int, gender: str) -> str:
    """Three and four agree; masculine and feminine are alike in both cases."""
    if gender != "n" and n in (3, 4):
        return {3: "τρεις", 4: "τέσσερις"}[n]
    return NUMBERS[n]


def things(m: Meaning, accusative: bool) -> str:
    """Affirmed indefinite, denied definite, none: a bare plural."""
    gender = NOUNS[m.noun][0]
    phrase = noun_phrase(m, m.number != 1, accusative)
    if m.number == 0:
        return phrase
    if m.number == 1:
        one = {"m": "έναν" if accusative else "ένας", "f": "μία", "n": "ένα"}[gender]
        the = {"m": "τον", "f": "την", "n": "το"}[gender]
        return f"{the if m.negated else one} {phrase}"
    the = {"m": "τους", "f": "τις", "n": "τα"}[gender] if m.negated else ""
    return join(the, numeral(m.number, gender), phrase)


def verb(key: str, m: Meaning, several: bool) -> str:
    tense = ("past", "present", "future").index(m.tense)
    form = VERBS[key].split()[2 * tense + several]
    return join("δεν" if m.negated else "", "θα" if m.tense == "future" else "", form)


def render(m: Meaning) -> str:
    when, where = TIMES.get(m.time), PLACES.get(m.place)
    several = m.subject in PLURAL
    subject = PERSONS[m.subject][1] if m.subject else None
    if m.template == "act":
        line = join(subject, verb(m.verb, m, several), things(m, True), where, when)
    elif m.template == "give":
        line = join(subject, verb(m.verb, m, several), things(m, True), to(m.other))
    elif m.template == "like":  # the thing pleases the person
        thing = join(ARTICLES[NOUNS[m.noun][0]], noun_phrase(m, False, False))
        line = join(to(m.subject), verb("please", m, False), thing, PERSONS[m.other][3])
    elif m.template == "go":
        line = join(subject, verb("go", m, several), where, m.other and f"με {PERSONS[m.other][2]}", when)
    elif m.template == "quality":
        gender, singular, _ = NOUNS[m.noun]
        line = join(
            ARTICLES[gender],
            singular.split()[0],
            where,
            verb("be", m, False),
            adjective(m.adjective, gender, False, False),
        )
    elif m.template == "state":
        described = adjective(m.adjective, PERSONS[m.subject][0], several, False)
        line = join(subject, verb("be", m, several), described, where, when)
    else:
        line = join(verb("exist", m, m.number != 1), things(m, False), where, when)
    return finish(final_n(line))
