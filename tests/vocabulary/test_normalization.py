"""Texts as people have them give the tokens of clean text, and clean text keeps its own."""

import json
import unicodedata

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import hf_echo
from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary.normalization import clean_text, put_in_front, rules
from hf_echo.vocabulary.train import train_tokenizer

CLEAN = [
    "Le chat fidèle dort sur le fleuve, effrayé.",
    "¿Qué hora es? El 1º y la 2ª, «no» – dijo…",
    "ฉันทำน้ำส้ม ຂ້ອຍກິນເຂົ້າຢູ່ບ້ານ",
    "می‌خواهم این کتاب را بخوانم.",
    "क्षत्रिय ने कहा, “ठीक है।”",
    "猫在睡觉。，！？（“好”）",
    "고양이가 잔다 ㅋㅋ",
    "Կատուն և շունը",
    "İstanbul'da ığdır",
    "الولد يقرأ الكتاب كل يوم",
]
NOISE = {
    "no-break spaces": lambda s: s.replace(" ", "\u00a0"),
    "thin spaces": lambda s: s.replace(" ", "\u2009"),
    "tabs": lambda s: s.replace(" ", "\t"),
    "double spaces": lambda s: s.replace(" ", "  "),
    "lines": lambda s: s.replace(" ", "\r\n", 2),
    "around": lambda s: f"\ufeff \u200b{s}\u00a0\n",
    "soft hyphens": lambda s: "\u00ad".join(s),
    "zero-width spaces": lambda s: s.replace(" ", " \u200b"),
    "direction": lambda s: f"\u202a{s}\u200e\u202c",
    "variation": lambda s: s.replace("a", "a\ufe0f"),
    "ligatures": lambda s: s.replace("fi", "ﬁ").replace("fl", "ﬂ").replace("ff", "ﬀ"),
    "full width": lambda s: "".join(
        chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in s
    ),
    "bold": lambda s: "".join(chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c for c in s),
    "half width": lambda s: s.replace("ガ", "ｶﾞ"),
    "presentation forms": lambda s: s.replace("الكتاب", "ﺍﻟﻜﺘﺎﺏ"),
    "tatweel": lambda s: s.replace("الكتاب", "الكـتـــاب"),
}


@pytest.fixture(scope="module")
def packaged() -> EchoTokenizer:
    return EchoTokenizer.from_pretrained(hf_echo.pretrained("echo-nano"))


@pytest.mark.parametrize("kind", NOISE)
def test_noise_gives_the_tokens_of_clean_text(kind, packaged):
    texts = [*CLEAN, "ガラス"]
    noisy = [NOISE[kind](text) for text in texts]
    assert noisy != texts
    assert packaged(noisy).input_ids == packaged(texts).input_ids


OUR_LAYERS = json.loads(clean_text().__getstate__())["normalizers"]


def test_the_packaged_tokenizer_cleans_text_behind_nfc(packaged):
    layers = json.loads(packaged.backend_tokenizer.to_str())["normalizer"]["normalizers"]
    assert layers[: 1 + len(OUR_LAYERS)] == [{"type": "NFC"}, *OUR_LAYERS]


def test_clean_text_keeps_its_tokens(packaged):
    """As without our layers of the normalizer."""
    content = json.loads(packaged.backend_tokenizer.to_str())
    del content["normalizer"]["normalizers"][1 : 1 + len(OUR_LAYERS)]
    before = Tokenizer.from_str(json.dumps(content))
    texts = [*CLEAN, "def f(x):\n    return x + 1"]
    expected = [encoding.ids for encoding in before.encode_batch(texts, add_special_tokens=False)]
    assert packaged.text_ids(texts) == expected


def test_replacements_are_those_of_unicode():
    normalizer = clean_text()
    for point, replacement in rules().items():
        assert normalizer.normalize_str(f"x{chr(point)}y") == f"x{replacement}y", hex(point)
        assert replacement in ("", unicodedata.normalize("NFKC", chr(point))), hex(point)


def test_only_letters_are_replaced():
    """Letters by letters; only invisible characters, marks and letters go without a replacement."""
    for point, replacement in rules().items():
        category = unicodedata.category(chr(point))
        assert category[0] in ("L" if replacement else "CLM"), hex(point)


def test_punctuation_stays_with_digits_of_all_kinds():
    kept = "µ，。！？…½²①㎏™ªº\u200c\u200dnʼnำຳևㄱ\u3007"
    assert clean_text().normalize_str(kept) == kept


CASED = [text for text in CLEAN if text[0] in "L¿"] + [
    "Công ty cổ phần Ấn Độ",
    "Ёжик и мышь, 12 раз",
    "Ο γάτος κοιμάται",
]


@pytest.mark.parametrize("text", CASED)
def test_a_text_in_capitals_has_the_tokens_of_its_lower_case(text, packaged):
    low = text.lower().replace("ς", "σ")
    assert packaged(text.upper()).input_ids == packaged(low).input_ids != packaged(text).input_ids
    assert packaged(unicodedata.normalize("NFD", text.upper())).input_ids == packaged(low).input_ids
    assert packaged(f"\ufeff{text.upper()}\u00a0").input_ids == packaged(low).input_ids


TITLES = {
    "The Cat Sleeps On The Sofa.": "The cat sleeps on the sofa.",
    "Don'T Stop, I'M Having A Good Time!": "Don't stop, I'm having A good time!",
    "Le Chat Dort Sur Le Canapé Bleu": "Le chat dort sur le canapé bleu",
    "Кіт Спить На Дивані. Він Дуже Втомився Сьогодні.": "Кіт спить на дивані. Він дуже втомився сьогодні.",
    "NATO And The European Union Met": "NATO and the european union met",
    "\u201cThe Old Man And The Sea\u201d is a book": "\u201cThe old man and the sea\u201d is a book",
}


@pytest.mark.parametrize("text", TITLES)
def test_title_case_has_the_tokens_of_its_lower_case(text, packaged):
    assert packaged(text).input_ids == packaged(TITLES[text]).input_ids
    assert clean_text().normalize_str(text) == TITLES[text]


NAMES = [
    "I live in Paris near the Gare du Nord.",
    "It is one of the South African National Parks (SANParks).",
    "New York City",
    "Paris, London, Rome, Berlin and Oslo",
    "Der Bundestag in Berlin",
    "A B C D E F",
    "McDonald's, BMW",
]


@pytest.mark.parametrize("text", NAMES)
def test_names_keep_their_capitals(text):
    assert clean_text().normalize_str(text) == text


@pytest.mark.parametrize("text", ["هـ", "سنة ١٤٤٥ هـ", "ـ", "a\u0640b"])
def test_a_tatweel_that_joins_no_letters_stays(text):
    assert clean_text().normalize_str(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "NATO",
        "U.S.A., NATO",  # seven capitals
        "LE CHAt",
        "MP3, A4 und DIN-Norm",
        "在NATO和UNESCO",
        "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᎠᎴ ᏗᎪᏪᎵ",
        "A\u0301" * 9,
        "DIE K" + 9 * " " + "Ä",
        "",
    ],
)
def test_short_runs_of_capitals_stay(text):
    """But for white space, which is single."""
    assert clean_text().normalize_str(text).rstrip() == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("DIE KATZE", "die katze"),  # eight capitals
        ("THE WHO, U.S.A.!", "the who, u.s.a.!"),
        ("İSTANBUL'DA IĞDIR", "istanbul'da iğdir"),
        ("EILMELDUNG AUS BONN Das Haus der NATO", "eilmeldung aus bonn Das Haus der NATO"),
        ("Er sagt: ICH KOMME NIE WIEDER. Sie", "Er sagt: ich komme nie wieder. Sie"),
        ("LE 1º DE MAYO EN MÉXICO", "le 1º de mayo en méxico"),
        ("DIE KATZE SCHLÄFT. " * 20_000, "die katze schläft. " * 20_000),
    ],
    ids=lambda text: text[:20],
)
def test_long_runs_of_capitals_are_lowered(text, lowered):
    assert clean_text().normalize_str(text) == lowered


def test_a_mark_of_runs_in_a_text_is_removed():
    assert clean_text().normalize_str("Die Katze\ufdd0") == "Die Katze"


@pytest.mark.parametrize("stock", [False, True])
def test_new_tokenizers_read_noisy_text(tmp_path, stock):
    """Also when transformers opens them without this package."""
    tokenizer = train_tokenizer([*CLEAN, "French: Unspecified language:"] * 3, 600, progress=False)
    if stock:
        tokenizer.save_pretrained(tmp_path)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    noisy = [NOISE["around"](NOISE["no-break spaces"](text)) for text in CLEAN]
    assert tokenizer(noisy).input_ids == tokenizer(CLEAN).input_ids


def test_put_in_front_of_any_normalizer_once():
    backend = Tokenizer(models.WordLevel({"fin": 0, "?": 1}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    for ours in (
        None,
        normalizers.Lowercase(),
        normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]),
    ):
        if ours is not None:
            backend.normalizer = ours
        put_in_front(backend)
        once = backend.to_str()
        put_in_front(backend)
        assert backend.to_str() == once
        assert backend.encode("\ufeffﬁn").tokens == ["fin"]
