"""Sentence segmentation by rules: pieces join to the text, known sentence ends of many scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data.segmentation import rule_segmenter, trimmed

COMMAND = "data"

SENTENCES = {
    "eng_Latn": [
        "Dr. Smith paid 3.5 dollars.",
        "Why?",
        "He said: “I know!”",
        "It was 5 p.m. in the U.S. already.",
    ],
    "fra_Latn": ["Il est venu hier.", "Pourquoi ?", "Elle l'a vu à 10 h 30."],
    "hin_Deva": ["वह कल आया।", "क्यों?", "उसने 3.5 रुपये दिए।"],
    "amh_Ethi": ["ትናንት መጣ።", "ለምን መጣ፡፡", "አላውቅም።"],
    "urd_Arab": ["وہ کل آیا۔", "کیوں آیا؟", "معلوم نہیں۔"],
    "arb_Arab": ["جاء أمس.", "لماذا جاء؟", "لا أعرف!"],
    "zho_Hans": ["他昨天来了。", "为什么？", "我不知道（真的！）。"],
    "jpn_Jpan": ["昨日来ました。", "なぜですか？", "知りません！"],
    "khm_Khmr": ["គាត់មកម្សិលមិញ។", "ខ្ញុំមិនដឹង។"],
    "mya_Mymr": ["သူ မနေ့က၊ လာတယ်။", "မသိဘူး။"],
    "bod_Tibt": ["ཁོ་ཁ་སང་འབྱོར་སོང་།", "ང་ལ་ཤེས་མེད།"],
    "hye_Armn": ["Նա եկավ երեկ։", "Չգիտեմ։"],
    "ell_Grek": ["Ήρθε χθες.", "Γιατί ήρθε;", "Δεν ξέρω."],
}


@pytest.mark.parametrize("lang", SENTENCES)
def test_rules_find_the_sentences_of_many_scripts(lang):
    space = "" if lang in ("zho_Hans", "jpn_Jpan") else " "
    text = space.join(SENTENCES[lang])

    (pieces,) = rule_segmenter([text], lang)

    assert "".join(pieces) == text
    assert trimmed(pieces) == SENTENCES[lang]


def test_rules_end_at_line_breaks():
    text = "\n  One line\r\n\r\nanother one. And more\n"

    (pieces,) = rule_segmenter([text], "eng_Latn")

    assert "".join(pieces) == text
    assert trimmed(pieces) == ["One line", "another one.", "And more"]


def test_blank_texts_have_no_sentence():
    assert rule_segmenter(["", " \n "], "eng_Latn") == [[], [" \n "]]


def test_a_short_thai_text_is_one_sentence():
    assert rule_segmenter(["สวัสดี ครับ"], "tha_Thai") == [["สวัสดี ครับ"]]


def test_a_long_thai_text_is_cut_at_spaces():
    words = "ก" * 35 + " "

    assert rule_segmenter([4 * words], "tha_Thai") == [[2 * words, 2 * words]]


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.sampled_from("aB. !?。།၊။፡\n\r\t\u2028\u00a0”)’5ก")),
    st.sampled_from(["eng_Latn", "tha_Thai", "bod_Tibt", "amh_Ethi", "mya_Mymr", "jpn_Jpan"]),
)
def test_rule_pieces_join_to_the_text(text, lang):
    """None of them is blank, unless the text is."""
    (pieces,) = rule_segmenter([text], lang)

    assert "".join(pieces) == text
    if text.strip():
        assert all(piece.strip() for piece in pieces)


def test_code_has_no_sentences():
    with pytest.raises(ValueError, match="python has no sentences"):
        rule_segmenter(["x = 1"], "python")


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Un chat dort. Un chien\tcourt !\n\nFin.\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "options, message",
    [
        ("--lang fra_Hebr", "unknown language code 'fra_Hebr'"),
        ("--lang fra_Latn --model ./sat", "no folder ./sat"),
    ],
)
def test_the_command_names_what_is_wrong(refused, text_file, options, message):
    refused(message, "segment", text_file, "--out", "o", *options.split())


def test_the_command_writes_a_sentence_a_line(answer, text_file, tmp_path):
    out = tmp_path / "o" / "b.txt"

    report = answer("segment", text_file, "--lang", "fra_Latn", "--out", out)

    assert report["sentences"] == 3
    assert out.read_text() == "Un chat dort.\nUn chien court !\nFin.\n"
