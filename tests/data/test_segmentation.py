"""Sentence segmentation by rules: pieces join to the text, known sentence ends of many scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data.segmentation import rule_segmenter, trimmed

from ..refusals import refuses

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
    text = ("" if lang in ("zho_Hans", "jpn_Jpan") else " ").join(SENTENCES[lang])
    pieces = rule_segmenter([text], lang)[0]
    assert "".join(pieces) == text
    assert trimmed(pieces) == SENTENCES[lang]


def test_rules_end_at_line_breaks():
    text = "\n  One line\r\n\r\nanother one. And more\n"
    pieces = rule_segmenter([text, "", " \n "], "eng_Latn")
    assert pieces[1:] == [[], [" \n "]]
    assert "".join(pieces[0]) == text
    assert trimmed(pieces[0]) == ["One line", "another one.", "And more"]


def test_thai_is_cut_at_spaces_of_long_sentences_only():
    short = "สวัสดี ครับ"
    long = " ".join(["ก" * 35] * 4)
    assert rule_segmenter([short], "tha_Thai") == [[short]]
    assert [len(piece.rstrip()) for piece in rule_segmenter([long], "tha_Thai")[0]] == [71, 71]


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.sampled_from("aB. !?。།၊။፡\n\r\t\u2028\u00a0”)’5ก")),
    st.sampled_from(["eng_Latn", "tha_Thai", "bod_Tibt", "amh_Ethi", "mya_Mymr", "jpn_Jpan"]),
)
def test_rule_pieces_join_to_the_text(text, lang):
    pieces = rule_segmenter([text], lang)[0]
    assert "".join(pieces) == text
    assert all(piece.strip() for piece in pieces) or not text.strip()


def test_command(run, refused, tmp_path):
    refuses("python has no sentences", rule_segmenter, ["x = 1"], "python")
    (tmp_path / "a.txt").write_text("Hi. You.\n")
    refused(
        "unknown language code 'fra_Hebr'",
        "segment",
        tmp_path / "a.txt",
        "--lang",
        "fra_Hebr",
        "--out",
        "o",
    )
    refused(
        "no folder ./sat",
        "segment",
        tmp_path / "a.txt",
        "--lang",
        "fra_Latn",
        "--out",
        "o",
        "--model",
        "./sat",
    )
    (tmp_path / "a.txt").write_text("Un chat dort. Un chien\tcourt !\n\nFin.\n", encoding="utf-8")
    code, out, _ = run(
        "segment", tmp_path / "a.txt", "--lang", "fra_Latn", "--out", tmp_path / "o" / "b.txt"
    )
    assert code == 0
    assert '"sentences": 3' in out
    assert (tmp_path / "o" / "b.txt").read_text() == "Un chat dort.\nUn chien court !\nFin.\n"
