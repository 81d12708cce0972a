"""The vocabulary report against counts written out by hand, on tokenizers whose tokens are known."""

import json
import shutil
import unicodedata

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.report import vocabulary_report

from ..refusals import refusals

ROWS = [("fra_Latn", "Le chat dort."), ("fra_Latn", "Été à Genève"), ("eng_Latn", "The cat"), ("tha_Thai", "แมวหลับ")]
ROWS.append(("rus_Cyrl", "Кот спит, кот ест."))


def byte_tokenizer(merges: tuple[tuple[str, str], ...] = ()) -> Tokenizer:
    """256 bytes, and these merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*alphabet, *("".join(pair) for pair in merges)])}
    backend = Tokenizer(models.BPE(vocab, list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def report(tokenizers, rows=ROWS, **options):
    return vocabulary_report(tokenizers, [rows], progress=False, **options)


def of(lang: str) -> list[str]:
    return [text for code, text in ROWS if code == lang]


def test_byte_tokenizer_has_a_token_a_byte():
    found = report({"bytes": byte_tokenizer()})
    for lang in ("fra_Latn", "eng_Latn", "tha_Thai", "rus_Cyrl"):
        row, texts = found.get("bytes", lang), of(lang)
        size = sum(len(text.encode()) for text in texts)
        assert row.sentences == len(texts) and row.languages == 1
        assert row.tokens_per_sentence == size / len(texts)
        assert row.failures == 0 and row.ratio == 1
        assert row.unused == pytest.approx(1 - len(set("".join(texts).encode())) / 256)
    assert found.get("bytes", "fra_Latn").tokens_per_word == (13 + 16) / 6
    assert found.get("bytes", "tha_Thai").tokens_per_word is None
    assert found.sizes == {"bytes": 256}


def test_scripts_and_all_are_means_over_languages():
    found = report({"bytes": byte_tokenizer()})
    latin, everything = found.get("bytes", "Latin"), found.get("bytes")
    assert (latin.languages, latin.sentences) == (2, 3)
    assert latin.tokens_per_sentence == (14.5 + 7) / 2  # French counts once, with two sentences
    assert latin.tokens_per_word == ((13 + 16) / 6 + 7 / 2) / 2
    sentences = [14.5, 7, len(of("tha_Thai")[0].encode()), len(of("rus_Cyrl")[0].encode())]
    assert (everything.languages, everything.sentences) == (4, 5)
    assert everything.tokens_per_sentence == sum(sentences) / 4
    # Thai writes no words: the mean is over the other three languages.
    assert everything.tokens_per_word == pytest.approx((29 / 6 + 7 / 2 + sentences[3] / 4) / 3)
    used = set("".join(text for _, text in ROWS).encode())  # a union, no mean
    assert everything.unused == pytest.approx(1 - len(used) / 256)


def test_old_and_new_side_by_side():
    """Two merges: "ca" + "t", of which the texts hold one "cat"; "c" + "a" stands inside, "z" + "z" nowhere."""
    merges = (("c", "a"), ("ca", "t"), ("z", "z"))
    found = report({"old": byte_tokenizer(), "new": byte_tokenizer(merges)})
    english = found.get("new", "eng_Latn")
    assert english.tokens_per_sentence == 5 and english.ratio == 5 / 7
    assert english.unused == pytest.approx(1 - 5 / 259)  # T, h, e, space, cat
    assert found.get("old", "eng_Latn").ratio == 1
    assert found.get("new", "rus_Cyrl").ratio == 1
    content = json.loads(found.to_json())
    assert content["base"] == "old" and content["sizes"] == {"old": 256, "new": 259}
    assert len(content["rows"]) == 2 * (4 + 3 + 1)
    (thai,) = [r for r in content["rows"] if r["tokenizer"] == "new" and r["name"] == "tha_Thai"]
    assert thai["tokens_per_word"] is None and thai["script"] == "Thai"

    lines = found.to_markdown("language").splitlines()
    assert lines[0] == "| language | script | sentences | old | new | new / old |"
    assert [line.split(" ")[1] for line in lines[2:]] == ["rus_Cyrl", "tha_Thai", "fra_Latn", "eng_Latn", "all"]
    assert lines[5] == "| eng_Latn | Latin | 1 | 7.0 | 5.0 | 0.71 |"
    assert found.to_markdown().splitlines()[2].startswith("| Cyrillic | 1 | 1 |")
    assert "| failures | 0 | 0 |" in found.to_markdown("all")


def test_lossy_tokenizer_is_found_out():
    lossy = byte_tokenizer()
    lossy.normalizer = normalizers.Lowercase()
    rows = [*(("deu_Latn", f"Satz {i}") for i in range(5)), ("deu_Latn", "klein")]
    found = report({"good": byte_tokenizer(), "lossy": lossy}, rows)
    assert found.get("good").failures == 0
    assert found.get("lossy", "deu_Latn").failures == found.get("lossy").failures == 5


def test_normal_forms_and_outer_space_are_no_failure():
    """One tokenizer keeps NFD as it is, one composes, and our layout strips and puts a space in front."""
    composing = byte_tokenizer()
    composing.normalizer = normalizers.NFC()
    text = unicodedata.normalize("NFD", "Été à Genève")
    layout = EchoTokenizer.from_backend(byte_tokenizer())
    found = report({"keeps": byte_tokenizer(), "composes": composing, "layout": layout}, [("fra_Latn", f" {text}")])
    assert [found.get(name).failures for name in found.sizes] == [0, 0, 0]
    nfc, nfd = (len(unicodedata.normalize(form, text).encode()) for form in ("NFC", "NFD"))
    tokens = [found.get(name).tokens_per_sentence for name in found.sizes]
    assert tokens == [nfc, nfc, nfc + 1]  # all are given NFC; the layout's own space is a token here
    assert nfd > nfc


def test_layout_and_special_tokens_are_not_counted():
    """CLS, BOS, EOS are left out, special entries are no unused vocabulary, and a text that spells one is text."""
    tokenizer = EchoTokenizer.from_backend(byte_tokenizer())
    tokenizer(["a text that is cut and padded"], truncation=True, max_length=32, padding="max_length")
    row = report({"echo": tokenizer}, [("eng_Latn", "a</s>b")]).get("echo", "eng_Latn")
    assert row.tokens_per_sentence == len(" a</s>b") and row.failures == 0
    assert row.unused == pytest.approx(1 - 7 / 256)
    assert tokenizer.backend_tokenizer.padding is not None  # the caller's tokenizer is as it was


def test_pairs_and_languages_outside_the_table(tmp_path):
    (tmp_path / "a.tsv").write_text("src_lang\tsrc\ttgt_lang\ttgt\neng_Latn\tcat\txyz_Grek\tγάτα\n", "utf-8")
    (tmp_path / "xyz_Zzzz.txt").write_text("one\nthree\n")
    files = [tmp_path / "a.tsv", tmp_path / "xyz_Zzzz.txt"]
    found = vocabulary_report({"bytes": byte_tokenizer()}, files, progress=False)
    assert [found.get("bytes", name).tokens_per_sentence for name in ("Latin", "Greek", "Zzzz")] == [3, 8, 4]
    assert found.get("bytes", "xyz_Grek").script == "Greek"


def test_loading(tmp_path):
    backend = byte_tokenizer((("c", "a"),))
    backend.save(str(tmp_path / "tokenizer.json"))
    EchoTokenizer.from_backend(backend).save_pretrained(tmp_path / "folder")
    for source in (tmp_path / "tokenizer.json", tmp_path, tmp_path / "folder"):
        tokenizer = load_tokenizer(source)
        assert tokenizer.encode("cat", add_special_tokens=False)[-2:] == backend.encode("cat").ids


test_errors = refusals(
    (lambda: report({}), "no tokenizers: give at least one"),
    (lambda: report({"slow": "gpt2"}), "'slow' is a str; give a fast tokenizer"),
    (lambda: report({"bytes": byte_tokenizer()}, [], split="dev"), "no row of split 'dev'"),
    (lambda: report({"bytes": byte_tokenizer()}).get("bytes", "deu_Latn"), "no row for tokenizer 'bytes' and 'deu_"),
    (lambda: load_tokenizer("nowhere"), "nowhere", FileNotFoundError),
    (lambda tmp_path: load_tokenizer(shutil.copy(__file__, tmp_path / "a.json")), "a.json is not a tokenizer.json"),
)
