"""SONAR of fairseq2 and fairseq as stock models: vectors, logits and beams are those of the formulas."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer, M2M100ForConditionalGeneration, NllbTokenizer, pipeline
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES
from transformers.tokenization_utils_base import generate_merges

import hf_echo
from hf_echo import inference
from hf_echo.checkpoints import convert_sonar
from hf_echo.checkpoints.published.from_sonar import POSITIONS, _config
from hf_echo.checkpoints.published.sonar_tokenizer import (
    Pieces,
    build_tokenizer,
    read_sentencepiece,
)
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.scorer import EchoScorer
from hf_echo.modeling import EchoDecoder, EchoEncoder, EchoForTranslation, SonarForTranslation
from hf_echo.stages.core.model_shape import decoder_config
from hf_echo.steps.data import teacher_languages
from hf_echo.utils.lineage import read_lineage

from ...processes import python

COMMAND = "convert sonar"
REAL = "HF_ECHO_SONAR_FOLDER"  # a folder with SONAR's files turns the slow test on
SHORT_AND_LONG = [
    ("Le chat dort.", "fra_Latn"),
    (
        "Der Hund und die Katze schlafen, während die Kinder im Garten spielen und lachen.",
        "deu_Latn",
    ),
    ("猫", "jpn_Jpan"),
    ("", "eng_Latn"),
    ("Кот  спит\tна столе. ", "rus_Cyrl"),
]


@pytest.fixture(scope="module")
def files(sonar_toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sonar")
    pieces = sonar_toy.train_sentencepiece(folder)
    words = len(sonar_toy.Ids(pieces))
    encoder = sonar_toy.weights(words, "encoder")
    decoder = sonar_toy.weights(words, "decoder", seed=1)
    files = {"pieces": pieces, "encoder tensors": encoder, "decoder tensors": decoder}
    for kind, tensors in (("encoder", encoder), ("decoder", decoder)):
        files[kind] = sonar_toy.write_fairseq2(tensors, folder / f"{kind}.pt")
        files[f"bare {kind}"] = sonar_toy.write_fairseq2(
            tensors, folder / f"bare_{kind}.pt", bare=True
        )
        files[f"fairseq {kind}"] = sonar_toy.write_fairseq(tensors, folder / f"fairseq_{kind}.pt")
    return files


@pytest.fixture(scope="module")
def folders(files, tmp_path_factory):
    parts = {
        layout: (files[f"{layout}encoder"], files[f"{layout}decoder"])
        for layout in ("", "bare ", "fairseq ")
    }
    place = {layout: tmp_path_factory.mktemp("out") / "sonar" for layout in parts}
    return {
        k: convert_sonar(e, place[k], tokenizer=files["pieces"], decoder=d)
        for k, (e, d) in parts.items()
    }


@pytest.fixture(params=["", "bare ", "fairseq "], ids=["fairseq2", "fairseq2-bare", "fairseq"])
def converted(request, folders):
    return folders[request.param]


@pytest.fixture(scope="module")
def folder(folders):
    return folders[""]


@pytest.fixture(scope="module")
def expected(files, sonar_toy):
    """(rows, SIZE): SHORT_AND_LONG by the formulas."""
    ids = sonar_toy.Ids(files["pieces"])
    tensors = files["encoder tensors"]
    rows = [
        sonar_toy.encode(ids.encoder_input(text, code), tensors) for text, code in SHORT_AND_LONG
    ]
    return torch.stack(rows).numpy()


def test_vectors_are_those_of_the_formulas(converted, expected):
    model = SentenceTransformer(str(converted), device="cpu")
    for (text, code), vector in zip(SHORT_AND_LONG, expected):
        assert np.abs(model.encode([text], prompt_name=code)[0] - vector).max() < 1e-5
    assert type(model[0].model.backbone) is M2M100Encoder
    # One padded batch; the language is in front of each text as its prompt says.
    prompted = [model.prompts[code] + text for text, code in SHORT_AND_LONG]
    assert np.abs(model.encode(prompted, prompt="") - expected).max() < 1e-5
    assert model.get_embedding_dimension() == expected.shape[1]
    assert model.max_seq_length == 514
    english = model.encode(["A cat."], prompt_name="eng_Latn")
    assert np.array_equal(model.encode(["A cat."]), english)  # as a text without a prompt
    assert np.abs(model.encode(["A cat."], prompt_name="fra_Latn") - english).max() > 1e-2


def test_logits_are_those_of_the_formulas(converted, files, sonar_toy, expected):
    """By stock transformers, from `decoder/` alone."""
    ids = sonar_toy.Ids(files["pieces"])
    model = M2M100ForConditionalGeneration.from_pretrained(converted / "decoder").eval()
    memory = torch.from_numpy(expected[:3])[:, None]
    target = [sonar_toy.EOS, ids.language("deu_Latn"), *ids.text("Die Katze schläft.")]
    nllb = sonar_toy.in_nllb_order(list(range(len(ids))))  # fairseq2's id -> NLLB's
    rows = torch.tensor([[nllb[i] for i in target]] * 3)
    with torch.inference_mode():
        logits = model(encoder_outputs=(memory,), decoder_input_ids=rows).logits
    for row, have in zip(expected[:3], logits):
        want = sonar_toy.decode(target, torch.from_numpy(row), files["decoder tensors"])
        assert (have[:, nllb] - want).abs().max() < 1e-5 * want.abs().max()


def test_beams_are_those_of_the_formulas(converted, files, sonar_toy, expected):
    """By the model and by the pipeline, whose beams are five without being asked."""
    ids = sonar_toy.Ids(files["pieces"])
    target = [sonar_toy.EOS, ids.language("deu_Latn")]
    tensors = files["decoder tensors"]
    vectors = torch.from_numpy(expected[:3])
    beams = [sonar_toy.beam_search(target, row, tensors, beams=5, steps=6) for row in vectors]
    translate = pipeline("sonar-translation", model=str(converted), device="cpu")
    prompt = translate.tokenizer.decoder_prompt_ids("deu_Latn")
    assert prompt == sonar_toy.in_nllb_order(target)

    options = dict(min_new_tokens=6, max_new_tokens=6)
    inputs = dict(sentence_embedding=vectors, decoder_input_ids=torch.tensor([prompt] * 3))
    generated = translate.model.generate(**inputs, **options)
    assert generated[:, 2:].tolist() == [sonar_toy.in_nllb_order(row) for row in beams]

    translated = translate(expected[:3], tgt_lang="deu_Latn", **options)
    for row, beam in zip(translated, beams, strict=True):
        text = ids.pieces.decode([i - 1 for i in beam if 4 <= i < ids.first_language])
        assert row["translation_text"].split() == text.split()


def test_everything_here_that_takes_a_model_reads_it(folder, expected, hf_echo_cli, tmp_path):
    texts, codes = zip(*SHORT_AND_LONG)
    encode = any_encoder(str(folder), dtype="fp32")
    found = np.concatenate([encode([text], code) for text, code in SHORT_AND_LONG])
    assert np.abs(found - expected).max() < 1e-5

    model, tokenizer = inference.load_translator(folder, dtype="fp32")
    assert np.abs(inference.encode(model, tokenizer, texts, codes) - expected).max() < 1e-5
    by_text = inference.translate(model, tokenizer, texts, codes, "spa_Latn", max_new_tokens=8)
    by_vector = inference.translate(model, tokenizer, expected, None, "spa_Latn", max_new_tokens=8)
    assert by_text == [found if text else "" for text, found in zip(texts, by_vector, strict=True)]
    translate = pipeline("sonar-translation", model=str(folder), device="cpu")
    by_pipeline = translate(
        list(texts), src_lang=list(codes), tgt_lang="spa_Latn", max_new_tokens=8, batch_size=5
    )
    assert [row["translation_text"] for row in by_pipeline] == by_text

    assert {"fra_Latn", "deu_Latn"} < set(teacher_languages(str(folder)))
    scores = EchoScorer(str(folder), dtype="fp32")(texts[:2], texts[1:3], codes[:2], codes[1:3])
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(scores - (unit[:2] * unit[1:3]).sum(1)).max() < 1e-5

    (tmp_path / "a.txt").write_text("\n".join(texts[:3]) + "\n", encoding="utf-8")
    options = ("--model", folder, "--dtype", "fp32", "--lang", "fra_Latn")
    code, out, err = hf_echo_cli("encode", *options, tmp_path / "a.txt", tmp_path / "a.npy")
    assert code == 0 and np.abs(np.load(tmp_path / "a.npy")[0] - expected[0]).max() < 1e-5, err
    languages = ("--from", "fra_Latn", "--to", "deu_Latn")
    code, out, err = hf_echo_cli("translate", "--model", folder, *languages, tmp_path / "a.txt")
    assert code == 0 and len(out.splitlines()) == 3, err


def test_long_texts_are_cut_split_or_refused(folder, files, sonar_toy):
    model, tokenizer = inference.load_translator(folder, dtype="fp32")
    ids = sonar_toy.Ids(files["pieces"])
    tensors = files["encoder tensors"]
    long = "Le chat dort. " * 400
    language = ids.language("fra_Latn")
    assert len(body := ids.text(long)) > 1024
    cut = sonar_toy.encode([language, *body[:512], sonar_toy.EOS], tensors).numpy()
    assert np.abs(inference.encode(model, tokenizer, [long], "fra_Latn") - cut).max() < 1e-5
    by_st = SentenceTransformer(str(folder), device="cpu").encode([long], prompt_name="fra_Latn")
    assert np.abs(by_st - cut).max() < 1e-5
    pieces = [body[start : start + 512] for start in range(0, len(body), 512)]
    vectors = [
        sonar_toy.encode([language, *piece, sonar_toy.EOS], tensors).numpy() for piece in pieces
    ]
    mean = np.average(vectors, axis=0, weights=[len(piece) + 2 for piece in pieces])
    split = inference.encode(model, tokenizer, [long], "fra_Latn", on_long="split")
    assert np.abs(split - mean).max() < 1e-5
    translate = pipeline("sonar-translation", model=str(folder), device="cpu")
    options = {"tgt_lang": "deu_Latn", "num_beams": 1, "max_new_tokens": 8}
    by_text = translate([long], src_lang="fra_Latn", on_long="split", **options)
    assert by_text == translate(mean[None], **options)
    with pytest.raises(ValueError, match="longer than 514 tokens"):
        translate([long], src_lang="fra_Latn", on_long="error", **options)


OPENED = """
import json, sys
sys.modules["hf_echo"] = None
from transformers import pipeline
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer
name, options = sys.argv[1], {"trust_remote_code": True}
translate = pipeline("sonar-translation", model=name, device="cpu", **options)
tokenizer, vectors = AutoTokenizer.from_pretrained(name, **options), []
for _ in range(2):
    batch = tokenizer(["Le chat dort."], lang="fra_Latn", return_tensors="pt")
    vectors.append(AutoModel.from_pretrained(name, **options).eval()(**batch).sentence_embedding[0].tolist())
model = SentenceTransformer(name, device="cpu", **options)
vectors.append(model.encode("Le chat dort.", prompt_name="fra_Latn").tolist())
text = translate("Le chat dort.", src_lang="fra_Latn", tgt_lang="deu_Latn", max_new_tokens=6)[0]["translation_text"]
print(json.dumps([vectors, text]))
"""


@pytest.mark.slow
def test_a_fresh_process_opens_it_without_this_package(folder, expected, tmp_path):
    """AutoModel is the encoder, twice the same."""
    vectors, text = json.loads(python("-c", OPENED, folder, cwd=tmp_path))
    assert np.abs(np.array(vectors) - expected[0]).max() < 1e-5
    model, tokenizer = inference.load_translator(folder, dtype="fp32")
    options = dict(max_new_tokens=6, num_beams=5)
    assert (
        text
        == inference.translate(
            model, tokenizer, ["Le chat dort."], "fra_Latn", "deu_Latn", **options
        )[0]
    )
    assert "_Latn" not in text  # language tokens are special


def test_sizes_of_the_published_model():
    """256,206 tokens by the tokenizer and the weights; 16 heads, 8,192 in between, 514 positions."""
    words = build_tokenizer(
        Pieces([f"w{i}" for i in range(255_997)], [], None), FAIRSEQ_LANGUAGE_CODES, POSITIONS
    )
    assert len(words) == 256_206
    assert words.convert_tokens_to_ids(["ace_Arab", "zul_Latn"]) == [256_001, 256_202]  # as in NLLB
    shapes = {"embed_tokens.weight": (256_206, 1024), "layers.0.fc1.weight": (8192, 1024)}
    tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    config = _config(tensors, "file", encoder_layers=24, decoder_layers=0)
    found = (
        config.vocab_size,
        config.d_model,
        config.encoder_attention_heads,
        config.encoder_ffn_dim,
    )
    assert found == (256_206, 1024, 16, 8192)
    assert config.max_position_embeddings == 514
    assert config.activation_function == "relu"
    assert config.scale_embedding


def test_lineage_and_card(folder, files):
    lineage = read_lineage(folder)
    assert lineage["stage"] == "sonar"
    assert set(lineage["parents"]) == {
        "source",
        "tokenizer",
        "decoder",
    }
    card = ModelCard.load(folder / "README.md")
    assert card.data["license"] == "cc-by-nc-4.0"
    assert card.data["base_model"] == "facebook/SONAR"
    assert {"fr", "nb"} <= set(card.data["language"])
    # tests/hub/test_cards.py
    assert "| sonar | " in card.text
    assert len(re.findall(r"```python\n", card.content)) == 2
    # no unfinished folder is left
    assert not [file for file in folder.parent.iterdir() if file != folder]


def test_a_port_is_completed(folder, files, expected, hf_echo_cli, tmp_path):
    """The Hub's ports: an M2M100Encoder with NLLB's tokenizer, and nothing for sentence-transformers."""
    port = tmp_path / "port"
    EchoEncoder.from_pretrained(folder).backbone.save_pretrained(port)
    nllb_tokenizer(files["pieces"]).save_pretrained(port)
    (port / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n")
    code, _, err = hf_echo_cli("convert", "sonar", port, tmp_path / "out")
    assert code == 0, err
    assert "license: cc-by-sa-4.0" in (tmp_path / "out" / "README.md").read_text()
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    for (text, code), vector in zip(SHORT_AND_LONG, expected):
        assert np.abs(model.encode([text], prompt_name=code)[0] - vector).max() < 1e-5
    pytest.raises(FileNotFoundError, inference.load_translator, tmp_path / "out").match(
        "encoder only"
    )
    # The tokenizer that came out is one that --tokenizer takes.
    again = convert_sonar(port, tmp_path / "again", tokenizer=tmp_path / "out")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def nllb_tokenizer(pieces: Path) -> NllbTokenizer:
    """NllbTokenizer as its own converter makes it: languages and <mask> in the vocabulary, merges by its own rule."""
    model = SentencePieceProcessor(model_file=str(pieces))
    words = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        *(model.id_to_piece(i) for i in range(3, model.get_piece_size())),
    ]
    vocabulary = {
        word: number for number, word in enumerate([*words, *FAIRSEQ_LANGUAGE_CODES, "<mask>"])
    }
    charsmap = read_sentencepiece(pieces).charsmap
    return NllbTokenizer(
        vocab=vocabulary, merges=generate_merges(vocabulary), _spm_precompiled_charsmap=charsmap
    )


def test_ids_are_those_of_nllb_and_of_sentencepiece(folder, files, sonar_toy):
    """Ten languages, seven scripts; characters that the vocabulary lacks; white space of all kinds."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    nllb = nllb_tokenizer(files["pieces"])
    ids = sonar_toy.Ids(files["pieces"])
    for code, lines in sonar_toy.texts().items():
        nllb.src_lang = code
        found = tokenizer([f"{code} {line}" for line in lines])["input_ids"]
        assert found == nllb(lines)["input_ids"]
        assert found == [sonar_toy.in_nllb_order(ids.encoder_input(line, code)) for line in lines]
    odd = [
        "",
        " ",
        "  a  b ",
        "한국어 Q",
        "ﬁancé ①",
        "a\tb\nc",
        "a\u200bb",
        "\u3000猫。",
        "▁a",
        "x" * 50,
    ]
    # spelt tokens stay text
    odd += [
        "fra_Latn",
        "a fra_Latn b",
        "</s>",
        "<s> a </s>",
        "<pad>",
        "<MINED_DATA>",
    ]
    found = tokenizer([f"eng_Latn {line}" for line in odd])["input_ids"]
    assert found == [sonar_toy.in_nllb_order(ids.encoder_input(line, "eng_Latn")) for line in odd]
    assert all(row.count(2) == 1 and ids.language("fra_Latn") not in row for row in found)


def test_unfit_files_are_refused(files, folder, refused, sonar_toy, tmp_path):
    out = tmp_path / "out"
    pieces = files["pieces"]
    given = ("--tokenizer", pieces)
    refused("no file", tmp_path / "none.pt", out, *given)
    refused("no tokenizer in", files["encoder"], out, "--tokenizer", tmp_path / "none.model")
    torch.save({"model": {"a": torch.ones(1)}, "cfg": Path("x")}, tmp_path / "pickled.pt")
    refused("could run code", tmp_path / "pickled.pt", out, *given)
    (tmp_path / "text.pt").write_text("no checkpoint")
    refused("torch cannot read it", tmp_path / "text.pt", out, *given)
    refused("brings no tokenizer", files["encoder"], out)
    refused("holds a decoder", files["decoder"], out, *given)
    refused("holds no decoder", files["encoder"], out, *given, "--decoder", files["encoder"])
    tensors = dict(files["encoder tensors"])
    del tensors["encoder.layers.1.ffn.inner_proj.bias"]
    refused(
        "lack the tensor layers.1.fc1.bias",
        sonar_toy.write_fairseq2(tensors, tmp_path / "a.pt"),
        out,
        *given,
    )
    fewer = dict(files["encoder tensors"])
    fewer["encoder_frontend.embed.weight"] = fewer["encoder_frontend.embed.weight"][:-1]
    refused("they do not fit", sonar_toy.write_fairseq2(fewer, tmp_path / "c.pt"), out, *given)
    refused("is not a SentencePiece model", files["encoder"], out, "--tokenizer", files["encoder"])
    refused("of type 'echo'", hf_echo.pretrained("echo-nano"), out, *given)
    refused("holds M2M100ForConditionalGeneration", folder / "decoder", out, *given)
    assert not out.exists()
    (out / "mine").mkdir(parents=True)
    refused("holds no checkpoint", files["encoder"], out, *given)
    assert [file.name for file in out.iterdir()] == ["mine"]


def test_another_decoder_on_its_encoder(folder, expected, tmp_path):
    """OS 4.7: a decoder of this package reads SONAR's vectors; its release opens by the class of both."""
    encoder = EchoEncoder.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    decoder = EchoDecoder(decoder_config({"decoder_layers": 1}, encoder.config, tokenizer))
    EchoForTranslation.from_parts(encoder, decoder).save_release(tmp_path / "out")
    tokenizer.save_pretrained(tmp_path / "out")
    model, tokenizer = inference.load_translator(tmp_path / "out", dtype="fp32")
    for opened in (model, SonarForTranslation.from_pretrained(tmp_path / "out")):
        assert type(opened) is EchoForTranslation
        assert type(opened.encoder.backbone) is M2M100Encoder
        assert torch.equal(opened.decoder.lm_head.weight, decoder.lm_head.weight)
    assert (
        len(inference.translate(model, tokenizer, expected[:2], None, "deu_Latn", max_new_tokens=4))
        == 2
    )


# Without the folder there is nothing to test, so there is no test either.
if os.environ.get(REAL):

    @pytest.mark.slow
    def test_real_sonar(tmp_path):
        """The numbers are those of transformers' pull request 29646, made by fairseq2. The folder holds
        sonar_text_encoder.pt, sonar_text_decoder.pt and sentencepiece.source.256000.model."""
        place = Path(os.environ[REAL])
        parts = dict(
            tokenizer=place / "sentencepiece.source.256000.model",
            decoder=place / "sonar_text_decoder.pt",
        )
        out = convert_sonar(place / "sonar_text_encoder.pt", tmp_path / "sonar", **parts)
        texts = ["My name is SONAR.", "I can embed the sentences into vectorial space."]
        vectors = SentenceTransformer(str(out)).encode(texts, prompt_name="eng_Latn")
        wanted = [
            [-0.005286, 0.002008, -0.000562, 0.006344, 0.006329],
            [-0.000330, -0.007055, 0.007644, 0.001841, 0.003727],
        ]
        # they are printed with six decimals
        assert np.allclose(vectors[:, :5], wanted, rtol=1e-3, atol=1e-6)
        found = pipeline("sonar-translation", model=str(out))(vectors, tgt_lang="eng_Latn")
        assert [row["translation_text"] for row in found] == [
            texts[0],
            "I can embed the sentences into vector space.",
        ]
