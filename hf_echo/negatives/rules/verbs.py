"""English verb lexicon: the forms of some six hundred frequent verbs, and the form of a given word.

``FORMS["went"] == {"past": "go"}``, ``FORMS["put"] == {"base": "put", "past": "put", "participle": "put"}``. Words that
are mostly nouns in running text (``time``, ``point``, ``place``) are left out: a rule that takes a noun for a verb
writes bad English, while a rule that misses a verb writes nothing.
"""

from __future__ import annotations

# base, past, participle; a participle equal to the past is left out
_IRREGULAR = """
arise arose arisen, awake awoke awoken, bear bore borne, beat beat beaten, become became become, begin began
begun, bend bent, bind bound, bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred,
bring brought, broadcast broadcast, build built, burst burst, buy bought, catch caught, choose chose chosen,
cling clung, come came come, cost cost, creep crept, cut cut, deal dealt, dig dug, do did done, draw drew
drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight
fought, find found, flee fled, fly flew flown, forbid forbade forbidden, forecast forecast, forget forgot
forgotten, forgive forgave forgiven, freeze froze frozen, get got got, give gave given, go went gone, grow
grew grown, hang hung, have had, hear heard, hide hid hidden, hit hit, hold held, hurt hurt, keep kept,
kneel knelt, know knew known, lay laid, lead led, leave left, lend lent, let let, lie lay lain, light lit,
lose lost, make made, mean meant, meet met, overcome overcame overcome, pay paid, prove proved proven, put
put, quit quit, read read, ride rode ridden, ring rang rung, rise rose risen, run ran run, say said, see saw
seen, seek sought, sell sold, send sent, set set, shake shook shaken, shine shone, shoot shot, show showed
shown, shrink shrank shrunk, shut shut, sing sang sung, sink sank sunk, sit sat, sleep slept, slide slid,
speak spoke spoken, spend spent, spin spun, split split, spread spread, spring sprang sprung, stand stood,
steal stole stolen, stick stuck, strike struck, strive strove striven, swear swore sworn, sweep swept, swim
swam swum, swing swung, take took taken, teach taught, tear tore torn, tell told, think thought, throw threw
thrown, undergo underwent undergone, understand understood, undo undid undone, upset upset, wake woke woken,
wear wore worn, weep wept, win won, withdraw withdrew withdrawn, write wrote written, foresee foresaw
foreseen, mistake mistook mistaken, sow sowed sown,
"""

_REGULAR = """
abandon accept accompany accuse achieve acquire act adapt add address adjust admire adopt advise affect
afford agree aim allow amuse announce annoy answer apologize appear apply appoint appreciate approach
approve argue arrange arrest arrive ask assemble assert assess assign assume attach attack attempt attend
attract avoid bake bark bathe begrudge believe belong bless boast boil borrow bother breathe burn bury
calculate call capture care carry cause celebrate challenge change charge chase check cheer choke clean
clear click climb close collapse collect combine compare compete complain complete compose compute concern
conclude conduct confess confirm confuse connect consider consist contact contain continue contribute
convert convince cook copy correct count cover crash crawl create criticize cross cry cure damage dance deal
debate decide declare decline decorate decrease defeat defend define delay delete deliver demand deny depend
describe deserve destroy detect determine develop die differ disable disagree disappear discover discuss
dislike display distribute disturb divide doubt download drown dry earn edit elect eliminate embarrass
emerge employ enable encourage end enforce enjoy ensure enter entertain escape establish estimate evaluate
evolve examine exceed exclude execute exist expand expect expire explain explode explore export express
extend face fail fasten fear feature fetch fill finish fire fix float flow fold follow force form free
frighten function gain gather generate grant greet guard guess guide handle happen harm hate head heal help
hesitate hire hope hunt hurry identify ignore imagine impact implement imply import impose improve include
increase indicate inform inherit injure insert insist inspire install intend introduce invade invent invest
invite involve join joke judge jump justify kick kill kiss knock know label lack land last laugh launch lean
learn like limit link listen live load locate lock look love lower maintain manage march mark marry match
matter measure melt mention miss mix monitor mount move murder name need negotiate notice obey object
observe obtain offer open operate oppose order organize overlook owe own pack paint park participate pass
pause perform permit persuade phone pick place plant play please point possess postpone pour practise praise
pray preach predict prepare present press pretend prevent print proceed process produce promise promote
propose protect protest provide publish pull punish purchase push question raise reach react realize rebuild
receive recognize recommend record recover recruit reduce reflect refuse regard reject relate relax release
rely remain remember remind remove rename repair repeat replace reply report represent request require
rescue resemble reset resign resist resolve respect respond rest restore restrict result retire retrieve
return reveal reverse review revise reward risk rule rush sail save scare scream search select separate
serve settle share shout sign smell smile smoke sneeze solve sound specify spell stare start state stay
store stretch struggle study succeed suffer suggest suit supply support suppose surprise surround survive
suspect suspend switch talk taste tease test thank threaten tie touch train translate treat tremble trust
try turn type understand unlock update upgrade upload use vanish view visit vote wait walk wander want warn
wash waste watch water weigh welcome whisper wish wonder work worry yell worship rejoice perish anoint
gather sin dwell hearken bow serve sacrifice pursue seize belong overwhelm
"""

_DOUBLING = """
admit ban beg cancel chat clap commit control drag drop equip fit grab hop hug jog knit nod occur patrol
permit plan plug prefer refer regret rob rub ship shop skip slap slip snap step stop submit swap tap
transfer trap travel trip wrap
"""

# forms that are mostly another part of speech in running text
_AMBIGUOUS = frozenset(
    """
    bound found fell bore lay saw rose felt lit ground left kind ring rest state present sound like mean
    shot hunting objects features forces forms functions heads points places results states orders plants
    presents records reports reviews rules tests types views votes works marks names needs offers
    processes limits links lists lies hopes fears plays matters questions charges changes causes claims
    checks studies parks prints copies covers displays ends faces fires guards guides impacts judges jumps
    kicks kisses labels lands laughs loads looks loves matches measures moves parks phones practices
    presses promises protests purchases requests rewards risks searches shares shouts signs smiles stores
    struggles supplies supports surprises talks tastes trains treats trips visits walks watches waters
    winds wishes worries drinks drives falls fights flies gives reads rides rises runs sets shows sleeps
    stands strikes swings swims cuts costs hits deals beats bears bites blows breaks builds limit link
    label list process record report review rule test type view vote work mark name need offer
    """.split()
)


def _s_form(base: str) -> str:
    special = {"have": "has", "do": "does", "go": "goes", "undergo": "undergoes", "undo": "undoes"}
    if base in special:
        return special[base]
    if base.endswith(("s", "x", "z", "ch", "sh")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _ed_form(base: str, doubling: bool) -> str:
    if doubling:
        return base + base[-1] + "ed"
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


def _ing_form(base: str, doubling: bool) -> str:
    if doubling:
        return base + base[-1] + "ing"
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + "ing"
    return base + "ing"


_IRREGULAR_DOUBLING = frozenset(
    "begin cut dig forbid forget get hit let put quit run set shut sit spin split swim upset win".split()
)


def _lexicon() -> dict[str, dict[str, str]]:
    verbs: dict[str, dict[str, str]] = {}
    for doubling, words in ((False, _REGULAR), (True, _DOUBLING)):
        for base in words.split():
            past = _ed_form(base, doubling)
            verbs[base] = {"past": past, "participle": past, "ing": _ing_form(base, doubling)}
    for entry in _IRREGULAR.split(","):
        if entry.strip():
            base, past, *participle = entry.split()
            ing = _ing_form(base, base in _IRREGULAR_DOUBLING)
            verbs[base] = {"past": past, "participle": (participle or [past])[0], "ing": ing}
    for base, forms in verbs.items():
        forms |= {"base": base, "s": _s_form(base)}
    return verbs


#: base -> {"base", "s", "past", "participle", "ing"} -> word
VERBS: dict[str, dict[str, str]] = _lexicon()

#: word -> {form: base}
FORMS: dict[str, dict[str, str]] = {}
for _base, _forms in VERBS.items():
    for _form, _word in _forms.items():
        FORMS.setdefault(_word, {}).setdefault(_form, _base)

#: words that are rarely verbs: they count as verbs only after a pronoun
AMBIGUOUS: frozenset[str] = _AMBIGUOUS
