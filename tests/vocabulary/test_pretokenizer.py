"""Words: what Llama 3's pattern does to scripts with marks, and what ours does;
everything else stays the same."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from hf_echo.vocabulary import split_words
from hf_echo.vocabulary.pretokenizer import (
    ECHO_PATTERN,
    LLAMA3_PATTERN,
    PATTERNS,
    with_pattern,
)

# script: (text, its words by Llama 3, its words by our pattern), the first space left out.
SCRIPTS = {
    "Devanagari": ("हिन्दी में", "ह|िन|्द|ी| म|ें", "हिन्दी| में"),
    "Bengali": ("বাংলা ভাষা", "ব|াং|ল|া| ভ|াষ|া", "বাংলা| ভাষা"),
    "Tamil": ("தமிழ் மொழி", "தம|ிழ|்| ம|ொழ|ி", "தமிழ்| மொழி"),
    "Sinhala, ZWJ": ("ශ්‍රී ලංකාව", "ශ|්‍|ර|ී| ල|ංක|ාව", "ශ්‍රී| ලංකාව"),
    "Malayalam, ZWNJ": ("കണ്‌ണൂർ", "കണ|്‌|ണ|ൂർ", "കണ്‌ണൂർ"),
    "Khmer": ("ភាសាខ្មែរ", "ភ|ាស|ាខ|្ម|ែរ", "ភាសាខ្មែរ"),
    "Burmese": ("မြန်မာဘာသာ", "မ|ြန|်မ|ာဘ|ာသ|ာ", "မြန်မာဘာသာ"),
    "Burmese, genitive": ("လူ၏ အခွင့်", "လ|ူ၏| အခ|ွင|့်", "လူ၏| အခွင့်"),
    "Shan": ("လိၵ်ႈတႆး", "လ|ိၵ|်ႈ|တ|ႆး", "လိၵ်ႈတႆး"),
    "Tibetan": ("བོད་ཡིག་ནི།", "བ|ོད|་ཡ|ིག|་ན|ི།", "བོད་ཡིག་ནི|།"),
    "Thai": ("ภาษาไทยที่", "ภาษาไทยท|ี่", "ภาษาไทยที่"),
    "Lao": ("ພາສາລາວນີ້", "ພາສາລາວນ|ີ້", "ພາສາລາວນີ້"),
    "Arabic, harakat": ("كِتَابٌ جَدِيدٌ", "ك|ِت|َاب|ٌ| ج|َد|ِيد|ٌ", "كِتَابٌ| جَدِيدٌ"),
    "Arabic, tatweel": ("كـــتاب", "كـــتاب", "كـــتاب"),
    "Persian, ZWNJ": ("می‌خواهم", "می|‌خواهم", "می‌خواهم"),
    "Sindhi, in": ("سنڌ ۾ آهي", "سنڌ| ۾| آهي", "سنڌ| ۾| آهي"),
    "Hebrew, points": ("שָׁלוֹם", "ש|ָׁ|לו|ֹם", "שָׁלוֹם"),
    "Hebrew, geresh": ("ג׳ירפה", "ג|׳ירפה", "ג׳ירפה"),
    "Thaana": ("ދިވެހި", "ދ|ިވ|ެހ|ި", "ދިވެހި"),
    "N'Ko": ("ߒߞߏ ߞߊ߲ ߊ߬", "ߒߞߏ| ߞߊ|߲| ߊ|߬", "ߒߞߏ| ߞߊ߲| ߊ߬"),
    "N'Ko, apostrophe": ("ߊߴߊ", "ߊߴߊ", "ߊߴߊ"),
    "Ol Chiki": ("ᱥᱟᱱᱛᱟᱲᱤ ᱚᱞᱹ", "ᱥᱟᱱᱛᱟᱲᱤ| ᱚᱞᱹ", "ᱥᱟᱱᱛᱟᱲᱤ| ᱚᱞᱹ"),
    "Ge'ez": ("ሰላም፡ዓለም", "ሰላም|፡ዓለም", "ሰላም|፡ዓለም"),
    "Armenian": ("Ինչո՞ւ ես", "Ինչո|՞ւ| ես", "Ինչո՞ւ| ես"),
    "Adlam": ("𞤀𞤁𞤂𞤢𞤥𞥄", "𞤀𞤁𞤂𞤢𞤥|𞥄", "𞤀𞤁𞤂𞤢𞤥𞥄"),
    "Meetei Mayek": ("ꯃꯩꯇꯩꯂꯣꯟ", "ꯃ|ꯩꯇ|ꯩꯂ|ꯣꯟ", "ꯃꯩꯇꯩꯂꯣꯟ"),
    "Mongolian": ("ᠮᠣᠩᠭᠣᠯ᠎ᠠ", "ᠮᠣᠩᠭᠣᠯ|᠎ᠠ", "ᠮᠣᠩᠭᠣᠯ᠎ᠠ"),
    "Yoruba": ("ọ̀rọ̀ wọ̀nyí", "ọ|̀rọ|̀| wọ|̀nyí", "ọ̀rọ̀| wọ̀nyí"),
    "modifier apostrophe": ("hawaiʻi gaʼa", "hawaiʻi| gaʼa", "hawaiʻi| gaʼa"),
    "tone colon": ("a꞉bo", "a|꞉bo", "a꞉bo"),
    "Chinese, zero": ("二〇二四年", "二|〇|二四年", "二〇二四年"),
}
# English, French, German, Greek, Russian, Chinese, Japanese, code, symbols.
SAME = [
    "I'll say it's 12345 o'clock, don't you think?  They'VE gone...\n\nYes!",
    "L'été où l'on était là-bas, aujourd'hui, à 20 % : « Ça va ? »",
    "Die Straßenbahn fährt über die Brücke; „ja“, sagte er – für 3,50 €.",
    "Η Ελλάδα είναι όμορφη. Москва — столица; объём ёлки й.",
    "他在2024年去了北京。私はカタカナ・ひらがなを書く。한국어 문장입니다.",
    'def f(x: int) -> str:\n\treturn f"{x!r:>10}"  # it\'s\r\n\r\n    @cache\n  x_1 += 0x1F;\n',
    "<div class='a-b'>&amp;</div> https://example.org/?q=1&r=%20 a@b.c #tag 1️⃣ ½ x² Ⅳ",
    "👩‍❤️‍👨 👍🏽 🏳️‍🌈❤️❤️ ☕️!!! ⓘ️ ←→ ☺︎",
    "   leading,\ttabs \t and trailing   ",
    "\u00a0no-break\u202f; ideographic\u3000space\u2028line",
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_words_of_a_script(name):
    text, llama3, ours = SCRIPTS[name]
    text, llama3, ours = (unicodedata.normalize("NFC", " " + t) for t in (text, llama3, ours))
    assert split_words(text, "llama3") == llama3.split("|")
    assert split_words(text) == ours.split("|")


@pytest.mark.parametrize("text", SAME)
def test_other_text_is_split_as_by_llama3(text):
    assert split_words(text) == split_words(text, "llama3")


# Letters with marks and joiners, contractions in odd cases (ſ is an s to (?i:)), and anything else,
# newest Unicode too.
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *"aZ1 \n\r\t'.़̀ि្་՞׳〇۾",
                "\u200c",
                "\u200d",
                "\u200b",
                "'ſ",
                "'S",
                "'Re",
                "\u3000",
                "\x85",
            ]
        ),
        st.sampled_from([chr(c) for c in (0x0C5C, 0x1ACF, 0x11DB0, 0x11DE0, 0x16EA0, 0x10D4A)]),
        st.text(max_size=3),
    ),
    max_size=30,
).map("".join)


@given(TEXTS, st.sampled_from(sorted(PATTERNS)))
@settings(max_examples=300, deadline=None)
def test_words_join_to_the_text(text, pattern):
    words = split_words(text, pattern)
    stripped = text.strip()
    assert "".join(words) == (unicodedata.normalize("NFC", " " + stripped) if stripped else "")
    assert all(words)
    assert split_words(f" \n{text} ", pattern) == words


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
DIGITS = {"type": "Digits", "individual_digits": True}


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
LLAMA3, ECHO, X, Y = (
    SPLIT | {"pattern": {"Regex": regex}} for regex in (LLAMA3_PATTERN, ECHO_PATTERN, "x", "y")
)


def sequence(*steps: dict) -> dict:
    return {"type": "Sequence", "pretokenizers": list(steps)}


PATTERN_PLACED = [
    (sequence(LLAMA3, BYTES), sequence(ECHO, BYTES)),
    (BYTES | {"use_regex": True}, sequence(ECHO, BYTES)),
    (sequence(DIGITS, BYTES | {"use_regex": True}), sequence(DIGITS, ECHO, BYTES)),
    (sequence(X, Y, BYTES), sequence(X, ECHO, BYTES)),
]


@pytest.mark.parametrize(("old", "new"), PATTERN_PLACED)
def test_with_pattern(old, new):
    assert with_pattern(old, "echo") == new
    bare = json.loads(Tokenizer(models.BPE()).to_str())
    Tokenizer.from_str(json.dumps(bare | {"pre_tokenizer": new})).pre_tokenizer.pre_tokenize_str(
        " a"
    )
