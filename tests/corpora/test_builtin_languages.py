"""The grammar's sentences against sentences written by hand, at least one for each rule of agreement."""

from __future__ import annotations

import pytest

from hf_echo.corpora.builtin import LANGUAGES, meaning_id, render

from .builtin_sentences import EXPECTED, MEANINGS, act, exist, give, go, like, quality, state

# rules of one language that the list does not touch
STEALS = act("farmer", "steal", 1, "egg", "dirty", "present", time="night")


NOT_RINGS = act("boy", "sell", 8, "ring", "old", "past", True, time="winter")


NOT_DOGS = act("Maria", "see", 3, "dog", "big", "past", True, time="morning")


ONE_DOG = act("Maria", "draw", 1, "dog", "small", "future", place="park")


NO_LETTER = act("Martin", "find", 1, "letter", None, "present", True, place="garden")


NOT_SEEN = act("Anna", "see", 2, "car", "white", "present", True, time="night")


WASHES = act("Peter", "wash", 2, "dog", None, "present", time="Friday")


NO_CUP = act("Anna", "lose", 1, "cup", "small", "future", True, place="library")


HAT = like("Martin", "David", "old", "hat")


BOYS_HAT = like("Anna", "boy", "old", "hat", "future")


LETTER = like("king", "parents", "old", "letter", "past")


CHEAP_BAG = like("queen", "children", "cheap", "bag", "past")


A_RING = like("Elena", "queen", "new", "ring")


A_DOG = like("Elena", "David", "white", "dog", "past")


WE_WENT = go("children", "market", other="nurse")


WITH_PETER = go("Anna", "park", "present", other="Peter")


EGG = quality("egg", "school", "dirty")


BLACK = quality("cup", "kitchen", "black", "past", True)


SAD = state("king", "sad", "past", True, place="school")


DOGS = exist(2, "dog", "garden", "big")


NO_CATS = exist(0, "cat", "kitchen", None, "past")


ONE = exist(1, "book", "library", "old", "past")


MORE = {
    "eng_Latn": [
        (STEALS, "The farmer steals a dirty egg at night."),
        (LETTER, "The king liked the parents' old letter."),
        (exist(2, "box", "school", "old", "future"), "There will be two old boxes at school."),
        (exist(1, "apple", "market"), "There was an apple at the market."),
    ],
    "fra_Latn": [
        (WE_WENT, "Les enfants sont allés au marché avec l'infirmière."),
        (CHEAP_BAG, "La reine aimait le sac bon marché des enfants."),
        (exist(3, "horse", "park"), "Il y avait trois chevaux dans le parc."),
        (EGG, "L'œuf de l'école était sale."),
        (NOT_SEEN, "Anna ne voit pas les deux voitures blanches la nuit."),
    ],
    "deu_Latn": [
        (HAT, "Martin mag Davids alten Hut."),
        (BOYS_HAT, "Anna wird den alten Hut des Jungen mögen."),
        (NO_CUP, "Anna wird in der Bibliothek die kleine Tasse nicht verlieren."),
        (WE_WENT, "Die Kinder sind mit der Krankenschwester zum Markt gegangen."),
        (STEALS, "Der Bauer stiehlt in der Nacht ein schmutziges Ei."),
        (exist(0, "dog", "park", "big"), "Es gab im Park keine großen Hunde."),
    ],
    "spa_Latn": [
        (NO_CUP, "Anna no perderá la taza pequeña en la biblioteca."),
        (
            give("king", "show", 2, "house", "parents", "small"),
            "El rey les mostró dos casas pequeñas a los padres.",
        ),
        (EGG, "El huevo de la escuela estaba sucio."),
    ],
    "ita_Latn": [
        (NOT_RINGS, "Il ragazzo non ha venduto gli otto anelli vecchi in inverno."),
        (STEALS, "Il contadino ruba un uovo sporco di notte."),
        (A_RING, "A Elena piace l'anello nuovo della regina."),
        (EGG, "L'uovo della scuola era sporco."),
        (WE_WENT, "I bambini sono andati al mercato con l'infermiera."),
        (CHEAP_BAG, "Alla regina piaceva la borsa economica dei bambini."),
        (like("Anna", "doctor", "white", "lamp"), "Ad Anna piace la lampada bianca del medico."),
    ],
    "tur_Latn": [
        (A_DOG, "Elena David'in beyaz köpeğini sevdi."),
        (WITH_PETER, "Anna Peter'le parka gidiyor."),
        (WASHES, "Peter cuma günü iki köpek yıkıyor."),
        (act("girl", "eat", 2, "egg", None, "present", time="morning"), "Kız sabahleyin iki yumurta yiyor."),
        (act("girl", "eat", 2, "egg", None, "future", time="morning"), "Kız sabahleyin iki yumurta yiyecek."),
        (
            act("king", "lose", 2, "key", None, "future", time="night"),
            "Kral geceleyin iki anahtar kaybedecek.",
        ),
        (act("king", "lose", 2, "key", None, "past", time="night"), "Kral geceleyin iki anahtar kaybetti."),
        (NO_LETTER, "Martin bahçede mektubu bulmuyor."),
        (quality("lamp", "station", "small"), "İstasyondaki lamba küçüktü."),
        (BLACK, "Mutfaktaki fincan siyah değildi."),
        (CHEAP_BAG, "Kraliçe çocukların ucuz çantasını sevdi."),
        (go("Maria", "kitchen", other="queen"), "Maria kraliçeyle mutfağa gitti."),
        (give("king", "give", 2, "book", "Peter", "old"), "Kral Peter'e iki eski kitap verdi."),
    ],
    "rus_Cyrl": [
        (NOT_DOGS, "Мария не увидела трёх больших собак утром."),
        (ONE_DOG, "Мария нарисует маленькую собаку в парке."),
        (DOGS, "В саду было две большие собаки."),
        (
            act("king", "steal", 6, "horse", "black", "past", time="night"),
            "Король украл шесть чёрных лошадей ночью.",
        ),
        (LETTER, "Королю нравилось старое письмо родителей."),
        (ONE, "В библиотеке была старая книга."),
        (exist(0, "ring", "kitchen", "big", "present"), "На кухне нет больших колец."),
        (SAD, "Король не был грустен в школе."),
        (quality("letter", "kitchen", "light"), "Письмо на кухне было лёгким."),
    ],
    "ell_Grek": [
        (NOT_DOGS, "Η Μαρία δεν είδε τους τρεις μεγάλους σκύλους το πρωί."),
        (ONE_DOG, "Η Μαρία θα ζωγραφίσει έναν μικρό σκύλο στο πάρκο."),
        (A_DOG, "Στην Έλενα άρεσε ο άσπρος σκύλος του Δαβίδ."),
        (exist(4, "dog", "garden", "black", "present"), "Υπάρχουν τέσσερις μαύροι σκύλοι στον κήπο."),
        (go("Anna", "park", other="Maria"), "Η Άννα πήγε στο πάρκο με τη Μαρία."),
        (quality("bag", "school", "heavy", "present"), "Η τσάντα στο σχολείο είναι βαριά."),
        (state("parents", "happy", time="morning"), "Οι γονείς ήταν χαρούμενοι το πρωί."),
    ],
    "zho_Hans": [
        (NO_LETTER, "马丁在花园里找不到那封信。"),
        (NOT_SEEN, "安娜夜里看不见那两辆白汽车。"),
        (BLACK, "厨房里的杯子以前不是黑色的。"),
        (quality("cup", "kitchen", "white", "future"), "厨房里的杯子会是白色的。"),
        (give("boy", "show", 2, "key", "king", None, "past", True), "男孩没有给国王看那两把钥匙。"),
        (SAD, "国王以前在学校里不难过。"),
    ],
    "jpn_Jpan": [
        (NO_CATS, "台所に猫はいませんでした。"),
        (exist(1, "horse", "park", None, "future"), "公園に馬がいるでしょう。"),
        (BOYS_HAT, "アンナは男の子の古い帽子が好きになるでしょう。"),
        (SAD, "王様は学校で悲しんでいませんでした。"),
        (BLACK, "台所のカップは黒くなかったです。"),
        (quality("cup", "kitchen", "clean", "future", True), "台所のカップはきれいではないでしょう。"),
    ],
}


def lines(lang: str) -> list[str]:
    return [line.strip() for line in EXPECTED[lang].strip().splitlines()]


def test_every_language_is_proof_read():
    assert set(EXPECTED) == set(MORE) == set(LANGUAGES)
    for meaning in MEANINGS:
        meaning_id(meaning)  # a sentence of the grammar, not an invention of the test


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sentences_written_by_hand(lang):
    assert [render(meaning, lang) for meaning in MEANINGS] == lines(lang)


@pytest.mark.parametrize(
    ("lang", "meaning", "expected"), [(lang, *pair) for lang, pairs in MORE.items() for pair in pairs]
)
def test_rules_of_one_language(lang, meaning, expected):
    meaning_id(meaning)
    assert render(meaning, lang) == expected
