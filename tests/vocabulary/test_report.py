"""The vocabulary report against counts written out by hand, on tokenizers whose tokens are
known."""

import json
import shutil
import unicodedata

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.report import vocabulary_report

from ..refusals import refusals

ROWS = [
    ("fra_Latn", "Le chat dort."),
    ("fra_Latn", "Été à Genève"),
    ("eng_Latn", "The cat"),
    ("tha_Thai", "แมวหลับ"),
    ("rus_Cyrl", "Кот спит, кот ест."),
]
LANGUAGES = ["fra_Latn", "eng_Latn", "tha_Thai", "rus_Cyrl"]


def byte_tokenizer(merges: tuple[tuple[str, str], ...] = ()) -> Tokenizer:
    """256 bytes, and these merges."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [left + right for left, right in merges]
    backend = Tokenizer(
        models.BPE({token: number for number, token in enumerate(tokens)}, list(merges))
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def report(tokenizers, rows=ROWS, **options):
    return vocabulary_report(tokenizers, [rows], progress=False, **options)


def texts_of(lang: str) -> list[str]:
    return [text for code, text in ROWS if code == lang]


def mean_bytes(lang: str) -> float:
    sizes = [len(text.encode()) for text in texts_of(lang)]
    return sum(sizes) / len(sizes)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_byte_tokenizer_has_a_token_a_byte(lang):
    row = report({"bytes": byte_tokenizer()}).get("bytes", lang)

    # A token for each byte: Python counts them.
    used_bytes = set("".join(texts_of(lang)).encode())
    assert row.languages == 1
    assert row.sentences == len(texts_of(lang))
    assert row.tokens_per_sentence == mean_bytes(lang)
    assert row.unused == pytest.approx(1 - len(used_bytes) / 256)
    assert row.failures == 0
    assert row.ratio == 1


def test_tokens_per_word_by_hand():
    byte_report = report({"bytes": byte_tokenizer()})
    assert byte_report.get("bytes", "fra_Latn").tokens_per_word == (13 + 16) / 6
    assert byte_report.get("bytes", "tha_Thai").tokens_per_word is None  # Thai writes no words


def test_a_script_is_the_mean_over_its_languages():
    row = report({"bytes": byte_tokenizer()}).get("bytes", "Latin")
    assert (row.languages, row.sentences) == (2, 3)
    assert row.tokens_per_sentence == (14.5 + 7) / 2  # French counts once, with two sentences
    assert row.tokens_per_word == ((13 + 16) / 6 + 7 / 2) / 2


def test_all_is_the_mean_over_languages():
    row = report({"bytes": byte_tokenizer()}).get("bytes")
    assert (row.languages, row.sentences) == (4, 5)
    assert row.tokens_per_sentence == sum(mean_bytes(lang) for lang in LANGUAGES) / 4
    # Thai writes no words: the mean is over the other three languages.
    assert row.tokens_per_word == pytest.approx((29 / 6 + 7 / 2 + mean_bytes("rus_Cyrl") / 4) / 3)


def test_unused_of_all_is_a_union():
    row = report({"bytes": byte_tokenizer()}).get("bytes")
    used_bytes = set("".join(text for _, text in ROWS).encode())
    assert row.unused == pytest.approx(1 - len(used_bytes) / 256)


@pytest.fixture(scope="module")
def old_new():
    """Two merges: "ca" + "t", of which the texts hold one "cat";
    "c" + "a" stands inside, "z" + "z" nowhere."""
    merges = (("c", "a"), ("ca", "t"), ("z", "z"))
    return report({"old": byte_tokenizer(), "new": byte_tokenizer(merges)})


def test_the_ratio_is_that_to_the_first_tokenizer(old_new):
    assert old_new.get("new", "eng_Latn").tokens_per_sentence == 5
    assert old_new.get("new", "eng_Latn").ratio == 5 / 7
    assert old_new.get("new", "rus_Cyrl").ratio == 1
    assert old_new.get("old", "eng_Latn").ratio == 1


def test_merges_that_no_text_has_are_unused(old_new):
    # used: T, h, e, space, cat
    assert old_new.get("new", "eng_Latn").unused == pytest.approx(1 - 5 / 259)


def test_json(old_new):
    content = json.loads(old_new.to_json())
    assert content["base"] == "old"
    assert content["sizes"] == {"old": 256, "new": 259}
    assert len(content["rows"]) == 2 * (4 + 3 + 1)
    (thai,) = [
        row for row in content["rows"] if row["tokenizer"] == "new" and row["name"] == "tha_Thai"
    ]
    assert thai["tokens_per_word"] is None
    assert thai["script"] == "Thai"


def test_a_table_by_language(old_new):
    header, _, *lines = old_new.to_markdown("language").splitlines()
    assert header == "| language | script | sentences | old | new | new / old |"
    assert [line.split(" ")[1] for line in lines] == [
        "rus_Cyrl",
        "tha_Thai",
        "fra_Latn",
        "eng_Latn",
        "all",
    ]
    assert lines[3] == "| eng_Latn | Latin | 1 | 7.0 | 5.0 | 0.71 |"


def test_a_table_by_script(old_new):
    assert old_new.to_markdown().splitlines()[2].startswith("| Cyrillic | 1 | 1 |")


def test_a_table_of_measures(old_new):
    assert "| failures | 0 | 0 |" in old_new.to_markdown("all")


def test_a_lossy_tokenizer_fails():
    lossy = byte_tokenizer()
    lossy.normalizer = normalizers.Lowercase()
    rows = [("deu_Latn", f"Satz {number}") for number in range(5)]
    rows.append(("deu_Latn", "klein"))

    lossy_report = report({"good": byte_tokenizer(), "lossy": lossy}, rows)

    assert lossy_report.get("good").failures == 0
    assert lossy_report.get("lossy", "deu_Latn").failures == 5
    assert lossy_report.get("lossy").failures == 5


def test_normal_forms_are_no_failure():
    """One tokenizer keeps NFD as it is, one composes, and our layout strips and puts a space in
    front."""
    composing = byte_tokenizer()
    composing.normalizer = normalizers.NFC()
    tokenizers = {
        "keeps": byte_tokenizer(),
        "composes": composing,
        "layout": EchoTokenizer.from_backend(byte_tokenizer()),
    }
    text = unicodedata.normalize("NFD", "Été à Genève")

    forms = report(tokenizers, [("fra_Latn", f" {text}")])

    assert [forms.get(name).failures for name in tokenizers] == [0, 0, 0]
    composed = len(unicodedata.normalize("NFC", text).encode())
    assert composed < len(text.encode())
    # all are given NFC; the layout's own space is a token here
    assert [forms.get(name).tokens_per_sentence for name in tokenizers] == [
        composed,
        composed,
        composed + 1,
    ]


@pytest.fixture
def padding_tokenizer():
    tokenizer = EchoTokenizer.from_backend(byte_tokenizer())
    tokenizer(
        ["a text that is cut and padded"], truncation=True, max_length=32, padding="max_length"
    )
    return tokenizer


def test_special_tokens_are_not_counted(padding_tokenizer):
    """CLS, BOS, EOS are left out, special entries are no unused vocabulary,
    and a text that spells one is text."""
    row = report({"echo": padding_tokenizer}, [("eng_Latn", "a</s>b")]).get("echo", "eng_Latn")
    assert row.tokens_per_sentence == len(" a</s>b")
    assert row.failures == 0
    assert row.unused == pytest.approx(1 - 7 / 256)


def test_the_callers_tokenizer_is_left_as_it_was(padding_tokenizer):
    report({"echo": padding_tokenizer})
    assert padding_tokenizer.backend_tokenizer.padding is not None


def test_languages_outside_the_table_have_a_script(tmp_path):
    (tmp_path / "a.tsv").write_text(
        "src_lang\tsrc\ttgt_lang\ttgt\neng_Latn\tcat\txyz_Grek\tγάτα\n", "utf-8"
    )
    (tmp_path / "xyz_Zzzz.txt").write_text("one\nthree\n")
    files = [tmp_path / "a.tsv", tmp_path / "xyz_Zzzz.txt"]

    file_report = vocabulary_report({"bytes": byte_tokenizer()}, files, progress=False)

    assert file_report.get("bytes", "Latin").tokens_per_sentence == 3
    assert file_report.get("bytes", "Greek").tokens_per_sentence == 8
    assert file_report.get("bytes", "Zzzz").tokens_per_sentence == 4
    assert file_report.get("bytes", "xyz_Grek").script == "Greek"


@pytest.mark.parametrize("source", ["tokenizer.json", ".", "folder"])
def test_loading(tmp_path, source):
    backend = byte_tokenizer((("c", "a"),))
    backend.save(str(tmp_path / "tokenizer.json"))
    EchoTokenizer.from_backend(backend).save_pretrained(tmp_path / "folder")

    tokenizer = load_tokenizer(tmp_path / source)

    assert tokenizer.encode("cat", add_special_tokens=False)[-2:] == backend.encode("cat").ids


test_errors = refusals(
    (lambda: report({"bytes": byte_tokenizer()}, [], split="dev"), "no row of split 'dev'"),
    (lambda: load_tokenizer("nowhere"), "nowhere", FileNotFoundError),
    (
        lambda tmp_path: load_tokenizer(shutil.copy(__file__, tmp_path / "a.json")),
        "a.json is not a tokenizer.json",
    ),
)
