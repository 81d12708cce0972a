"""SONAR of fairseq2 and fairseq as stock models:
vectors, logits and beams are those of the formulas."""

import json
import os
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
from hf_echo.data.builtin import LANGUAGES
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoDecoder, EchoEncoder, EchoForTranslation, SonarForTranslation
from hf_echo.stages.core.model_shape import decoder_config
from hf_echo.steps.data import teacher_languages
from hf_echo.utils.lineage import read_lineage

from ...processes import SCRIPTS, WITHOUT_PACKAGE, python

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


LAYOUTS = ("fairseq2", "fairseq2-bare", "fairseq")


@pytest.fixture(scope="module")
def pieces(sonar_toy, tmp_path_factory) -> Path:
    return sonar_toy.train_sentencepiece(tmp_path_factory.mktemp("pieces"))


@pytest.fixture(scope="module")
def ids(sonar_toy, pieces):
    """fairseq2's tokenizer."""
    return sonar_toy.Ids(pieces)


@pytest.fixture(scope="module")
def encoder_tensors(sonar_toy, ids) -> dict[str, torch.Tensor]:
    return sonar_toy.weights(len(ids), "encoder")


@pytest.fixture(scope="module")
def decoder_tensors(sonar_toy, ids) -> dict[str, torch.Tensor]:
    return sonar_toy.weights(len(ids), "decoder", seed=1)


@pytest.fixture(scope="module")
def files(sonar_toy, encoder_tensors, decoder_tensors, tmp_path_factory):
    """files[layout] -> (file of the encoder, file of the decoder)"""
    folder = tmp_path_factory.mktemp("sonar")
    files = {}
    for layout in LAYOUTS:
        written = []
        for part, tensors in (("encoder", encoder_tensors), ("decoder", decoder_tensors)):
            file = folder / f"{layout}_{part}.pt"
            if layout == "fairseq":
                sonar_toy.write_fairseq(tensors, file)
            else:
                sonar_toy.write_fairseq2(tensors, file, bare=layout == "fairseq2-bare")
            written.append(file)
        files[layout] = written
    return files


@pytest.fixture(scope="module")
def convert(files, pieces, tmp_path_factory):
    """convert(layout) -> folder of the converted model; each is converted once."""
    folders = {}

    def folder_of(layout: str) -> Path:
        if layout not in folders:
            encoder, decoder = files[layout]
            out = tmp_path_factory.mktemp(layout) / "sonar"
            folders[layout] = convert_sonar(encoder, out, tokenizer=pieces, decoder=decoder)
        return folders[layout]

    return folder_of


@pytest.fixture(params=LAYOUTS)
def converted(request, convert):
    return convert(request.param)


@pytest.fixture(scope="module")
def folder(convert):
    return convert("fairseq2")


@pytest.fixture(scope="module")
def translator(folder):
    """(model, tokenizer) of this package, in float32."""
    return inference.load_translator(folder, dtype="fp32")


@pytest.fixture(scope="module")
def pipe(folder):
    return pipeline("sonar-translation", model=str(folder), device="cpu")


@pytest.fixture(scope="module")
def expected(ids, encoder_tensors, sonar_toy):
    """(rows, SIZE): SHORT_AND_LONG by the formulas."""
    vectors = []
    for text, code in SHORT_AND_LONG:
        vectors.append(sonar_toy.encode(ids.encoder_input(text, code), encoder_tensors))
    return torch.stack(vectors).numpy()


def encode_each(folder: Path) -> np.ndarray:
    """SHORT_AND_LONG by sentence-transformers, a text at a time."""
    model = SentenceTransformer(str(folder), device="cpu")
    return np.stack([model.encode(text, prompt_name=code) for text, code in SHORT_AND_LONG])


CLOSE = dict(atol=1e-5, rtol=0)


def test_vectors_are_those_of_the_formulas(converted, expected):
    np.testing.assert_allclose(encode_each(converted), expected, **CLOSE)


def test_vectors_of_a_padded_batch_are_those_of_the_formulas(folder, expected):
    """The language is in front of each text as its prompt says."""
    model = SentenceTransformer(str(folder), device="cpu")
    prompted = [model.prompts[code] + text for text, code in SHORT_AND_LONG]
    np.testing.assert_allclose(model.encode(prompted, prompt=""), expected, **CLOSE)


def test_a_text_without_a_prompt_is_english(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    english = model.encode("A cat.", prompt_name="eng_Latn")
    assert np.array_equal(model.encode("A cat."), english)
    assert np.abs(model.encode("A cat.", prompt_name="fra_Latn") - english).max() > 1e-2


def test_the_encoder_is_that_of_transformers(folder, expected):
    model = SentenceTransformer(str(folder), device="cpu")
    assert type(model[0].model.backbone) is M2M100Encoder
    assert model.get_embedding_dimension() == expected.shape[1]
    assert model.max_seq_length == 514


def test_logits_are_those_of_the_formulas(converted, ids, decoder_tensors, sonar_toy, expected):
    """By stock transformers, from `decoder/` alone."""
    model = M2M100ForConditionalGeneration.from_pretrained(converted / "decoder").eval()
    target = [sonar_toy.EOS, ids.language("deu_Latn"), *ids.text("Die Katze schläft.")]
    nllb = sonar_toy.in_nllb_order(list(range(len(ids))))  # fairseq2's id -> NLLB's
    memory = torch.from_numpy(expected[:3])[:, None]
    target_rows = torch.tensor([sonar_toy.in_nllb_order(target)] * 3)

    with torch.inference_mode():
        logits = model(encoder_outputs=(memory,), decoder_input_ids=target_rows).logits

    for vector, logits_of_row in zip(memory[:, 0], logits, strict=True):
        formula = sonar_toy.decode(target, vector, decoder_tensors)
        assert (logits_of_row[:, nllb] - formula).abs().max() < 1e-5 * formula.abs().max()


@pytest.fixture(scope="module")
def beams(ids, decoder_tensors, sonar_toy, expected):
    """The best of five beams of six tokens of the first three vectors, by the formulas:
    ids of fairseq2."""
    start = [sonar_toy.EOS, ids.language("deu_Latn")]
    best = []
    for vector in torch.from_numpy(expected[:3]):
        best.append(sonar_toy.beam_search(start, vector, decoder_tensors, beams=5, steps=6))
    return best


SIX_TOKENS = dict(min_new_tokens=6, max_new_tokens=6)


def test_beams_are_those_of_the_formulas(pipe, ids, sonar_toy, beams, expected):
    prompt = pipe.tokenizer.decoder_prompt_ids("deu_Latn")
    assert prompt == sonar_toy.in_nllb_order([sonar_toy.EOS, ids.language("deu_Latn")])
    vectors = torch.from_numpy(expected[:3])

    generated = pipe.model.generate(
        sentence_embedding=vectors, decoder_input_ids=torch.tensor([prompt] * 3), **SIX_TOKENS
    )

    # A beam search written out, over the formulas of fairseq2.
    assert generated[:, 2:].tolist() == [sonar_toy.in_nllb_order(beam) for beam in beams]


def test_the_pipeline_writes_the_best_of_five_beams(pipe, ids, beams, expected):
    translations = pipe(expected[:3], tgt_lang="deu_Latn", **SIX_TOKENS)
    for translation, beam in zip(translations, beams, strict=True):
        numbers = [number - 1 for number in beam if 4 <= number < ids.first_language]
        assert translation["translation_text"].split() == ids.pieces.decode(numbers).split()


TEXTS, CODES = (list(column) for column in zip(*SHORT_AND_LONG))


def test_any_encoder_reads_it(folder, expected):
    encode = any_encoder(str(folder), dtype="fp32")
    for (text, code), vector in zip(SHORT_AND_LONG, expected, strict=True):
        np.testing.assert_allclose(encode([text], code)[0], vector, **CLOSE)


def test_texts_are_translated_as_their_vectors(translator, expected):
    """But for the empty text."""
    options = dict(target_lang="spa_Latn", max_new_tokens=8)
    by_text = inference.translate(*translator, TEXTS, CODES, **options)
    by_vector = inference.translate(*translator, expected, None, **options)
    by_vector[TEXTS.index("")] = ""
    assert by_text == by_vector


def test_its_languages_are_those_of_a_teacher(folder):
    assert {"fra_Latn", "deu_Latn"} < set(teacher_languages(str(folder)))


LONG = "Le chat dort. " * 400
ROOM = 512  # tokens of a text, between language and end


@pytest.fixture(scope="module")
def windows(ids, encoder_tensors, sonar_toy):
    """(vectors of the windows of 512 tokens of LONG by the formulas,
    their lengths with language and end)"""
    body = ids.text(LONG)
    assert len(body) > 2 * ROOM
    vectors = []
    lengths = []
    for start in range(0, len(body), ROOM):
        row = [ids.language("fra_Latn"), *body[start : start + ROOM], sonar_toy.EOS]
        vectors.append(sonar_toy.encode(row, encoder_tensors).numpy())
        lengths.append(len(row))
    return np.stack(vectors), lengths


def test_a_long_text_is_cut(translator, windows):
    vectors, _ = windows
    cut = inference.encode(*translator, [LONG], "fra_Latn")
    np.testing.assert_allclose(cut, vectors[:1], **CLOSE)


def test_sentence_transformers_cuts_a_long_text(folder, windows):
    vectors, _ = windows
    cut = SentenceTransformer(str(folder), device="cpu").encode(LONG, prompt_name="fra_Latn")
    np.testing.assert_allclose(cut, vectors[0], **CLOSE)


def test_a_long_text_can_be_split(translator, windows):
    """The mean of its windows, weighed by their lengths."""
    vectors, lengths = windows
    split = inference.encode(*translator, [LONG], "fra_Latn", on_long="split")
    np.testing.assert_allclose(split[0], np.average(vectors, axis=0, weights=lengths), **CLOSE)


@pytest.mark.slow
def test_a_fresh_process_opens_it_without_this_package(folder, translator, expected, tmp_path):
    """AutoModel is the encoder, twice the same."""
    printed = python(WITHOUT_PACKAGE, SCRIPTS / "open_sonar.py", folder, cwd=tmp_path)

    vectors, translation = json.loads(printed)
    np.testing.assert_allclose(vectors, [expected[0]] * 3, **CLOSE)
    translations = inference.translate(
        *translator, ["Le chat dort."], "fra_Latn", "deu_Latn", max_new_tokens=6, num_beams=5
    )
    assert [translation] == translations
    assert "_Latn" not in translation  # language tokens are special


def test_the_tokenizer_of_the_published_model_has_256_206_tokens():
    pieces = [f"w{number}" for number in range(255_997)]
    words = build_tokenizer(Pieces(pieces, [], None), FAIRSEQ_LANGUAGE_CODES, POSITIONS)
    assert len(words) == 256_206
    assert words.convert_tokens_to_ids(["ace_Arab", "zul_Latn"]) == [256_001, 256_202]  # as in NLLB


def test_sizes_of_the_published_model():
    """16 heads, 8,192 in between, 514 positions."""
    tensors = {
        "embed_tokens.weight": torch.empty(256_206, 1024, device="meta"),
        "layers.0.fc1.weight": torch.empty(8192, 1024, device="meta"),
    }
    config = _config(tensors, "file", encoder_layers=24, decoder_layers=0)
    assert config.vocab_size == 256_206
    assert config.d_model == 1024
    assert config.encoder_attention_heads == 16
    assert config.encoder_ffn_dim == 8192
    assert config.max_position_embeddings == 514
    assert config.activation_function == "relu"
    assert config.scale_embedding


def test_the_lineage_names_three_files(folder):
    lineage = read_lineage(folder)
    assert lineage["stage"] == "sonar"
    assert set(lineage["parents"]) == {"source", "tokenizer", "decoder"}


def test_the_card_names_license_source_languages(folder):
    card = ModelCard.load(folder / "README.md")
    assert card.data["license"] == "cc-by-nc-4.0"
    assert card.data["base_model"] == "facebook/SONAR"
    assert {"fr", "nb"} <= set(card.data["language"])
    assert card.content.count("```python\n") == 2


def test_no_unfinished_folder_is_left(folder):
    assert list(folder.parent.iterdir()) == [folder]


@pytest.fixture(scope="module")
def port(folder, pieces, tmp_path_factory):
    """One of the Hub's ports: an M2M100Encoder with NLLB's tokenizer,
    and nothing for sentence-transformers."""
    place = tmp_path_factory.mktemp("port")
    EchoEncoder.from_pretrained(folder).backbone.save_pretrained(place)
    nllb_tokenizer(pieces).save_pretrained(place)
    (place / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n")
    return place


@pytest.fixture(scope="module")
def completed(port, tmp_path_factory):
    return convert_sonar(port, tmp_path_factory.mktemp("completed") / "out")


def test_a_port_is_completed(completed, expected):
    np.testing.assert_allclose(encode_each(completed), expected, **CLOSE)


def test_a_port_keeps_its_license(completed):
    assert "license: cc-by-sa-4.0" in (completed / "README.md").read_text()


def test_a_port_has_no_decoder(completed):
    with pytest.raises(FileNotFoundError, match="encoder only"):
        inference.load_translator(completed)


def test_the_tokenizer_of_a_converted_model_can_be_given(port, completed, tmp_path):
    again = convert_sonar(port, tmp_path / "again", tokenizer=completed)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (completed / name).read_bytes()


def nllb_tokenizer(pieces: Path) -> NllbTokenizer:
    """NllbTokenizer as its own converter makes it:
    languages and <mask> in the vocabulary, merges by its own rule."""
    model = SentencePieceProcessor(model_file=str(pieces))
    words = ["<s>", "<pad>", "</s>", "<unk>"]
    words += [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    words += [*FAIRSEQ_LANGUAGE_CODES, "<mask>"]
    vocabulary = {word: number for number, word in enumerate(words)}
    charsmap = read_sentencepiece(pieces).charsmap
    return NllbTokenizer(
        vocab=vocabulary, merges=generate_merges(vocabulary), _spm_precompiled_charsmap=charsmap
    )


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("code", LANGUAGES)
def test_ids_are_those_of_nllb(tokenizer, pieces, sonar_toy, code):
    lines = sonar_toy.texts()[code]
    nllb = nllb_tokenizer(pieces)
    nllb.src_lang = code
    assert tokenizer([f"{code} {line}" for line in lines])["input_ids"] == nllb(lines)["input_ids"]


ODD_TEXTS = ["", " ", "  a  b ", "한국어 Q", "ﬁancé ①", "a\tb\nc", "a\u200bb", "\u3000猫。", "▁a"]
ODD_TEXTS += ["x" * 50, "fra_Latn", "a fra_Latn b", "</s>", "<s> a </s>", "<pad>", "<MINED_DATA>"]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_ids_of_odd_texts_are_those_of_sentencepiece(tokenizer, ids, sonar_toy, text):
    """White space of all kinds, characters that the vocabulary lacks, and spelt tokens,
    which stay text."""
    numbers = tokenizer(f"eng_Latn {text}")["input_ids"]
    assert numbers == sonar_toy.in_nllb_order(ids.encoder_input(text, "eng_Latn"))
    assert numbers.count(2) == 1  # the end of the text


def test_a_missing_file_is_named(unfit, pieces, tmp_path):
    unfit("no file", tmp_path / "none.pt", "--tokenizer", pieces)


def test_a_missing_tokenizer_is_named(unfit, files, tmp_path):
    encoder, _ = files["fairseq2"]
    unfit("no tokenizer in", encoder, "--tokenizer", tmp_path / "none.model")


def test_a_pickled_object_is_refused(unfit, pieces, tmp_path):
    torch.save({"model": {"a": torch.ones(1)}, "cfg": Path("x")}, tmp_path / "pickled.pt")
    unfit("could run code", tmp_path / "pickled.pt", "--tokenizer", pieces)


def test_a_list_is_refused(unfit, pieces, tmp_path):
    torch.save([1], tmp_path / "list.pt")
    unfit("not a dictionary", tmp_path / "list.pt", "--tokenizer", pieces)


def test_a_file_that_torch_cannot_read_is_refused(unfit, pieces, tmp_path):
    (tmp_path / "text.pt").write_text("no checkpoint")
    unfit("torch cannot read it", tmp_path / "text.pt", "--tokenizer", pieces)


def test_a_file_without_a_tokenizer_needs_one(unfit, files):
    encoder, _ = files["fairseq2"]
    unfit("brings no tokenizer", encoder)


def test_a_decoder_in_place_of_an_encoder_is_refused(unfit, files, pieces):
    _, decoder = files["fairseq2"]
    unfit("holds a decoder", decoder, "--tokenizer", pieces)


def test_an_encoder_in_place_of_a_decoder_is_refused(unfit, files, pieces):
    encoder, _ = files["fairseq2"]
    unfit("holds no decoder", encoder, "--tokenizer", pieces, "--decoder", encoder)


def test_a_missing_tensor_is_named(unfit, encoder_tensors, pieces, sonar_toy, tmp_path):
    tensors = dict(encoder_tensors)
    del tensors["encoder.layers.1.ffn.inner_proj.bias"]
    file = sonar_toy.write_fairseq2(tensors, tmp_path / "a.pt")
    unfit("lack the tensor layers.1.fc1.bias", file, "--tokenizer", pieces)


def test_a_tokenizer_of_another_size_is_refused(
    unfit, encoder_tensors, pieces, sonar_toy, tmp_path
):
    name = "encoder_frontend.embed.weight"
    fewer = encoder_tensors | {name: encoder_tensors[name][:-1]}
    file = sonar_toy.write_fairseq2(fewer, tmp_path / "a.pt")
    unfit("they do not fit", file, "--tokenizer", pieces)


def test_another_file_in_place_of_a_tokenizer_is_refused(unfit, files):
    encoder, _ = files["fairseq2"]
    unfit("is not a SentencePiece model", encoder, "--tokenizer", encoder)


def test_a_model_of_another_type_is_refused(unfit, pieces):
    unfit("of type 'echo'", hf_echo.pretrained("echo-nano"), "--tokenizer", pieces)


def test_a_whole_model_is_refused(unfit, folder, pieces):
    message = "holds M2M100ForConditionalGeneration"
    unfit(message, folder / "decoder", "--tokenizer", pieces)


@pytest.fixture
def with_another_decoder(folder, tokenizer, tmp_path):
    """(decoder of this package, release of SONAR's encoder with it)"""
    encoder = EchoEncoder.from_pretrained(folder)
    torch.manual_seed(0)
    decoder = EchoDecoder(decoder_config({"decoder_layers": 1}, encoder.config, tokenizer))
    EchoForTranslation.from_parts(encoder, decoder).save_release(tmp_path / "out")
    tokenizer.save_pretrained(tmp_path / "out")
    return decoder, tmp_path / "out"


@pytest.mark.parametrize("kind", [EchoForTranslation, SonarForTranslation])
def test_another_decoder_on_its_encoder(with_another_decoder, kind):
    """OS 4.7: a decoder of this package reads SONAR's vectors;
    the release opens by the class of both."""
    decoder, release = with_another_decoder
    opened = kind.from_pretrained(release)
    assert type(opened) is EchoForTranslation
    assert type(opened.encoder.backbone) is M2M100Encoder
    assert torch.equal(opened.decoder.lm_head.weight, decoder.lm_head.weight)


def test_another_decoder_translates(with_another_decoder, expected):
    _, release = with_another_decoder
    model, tokenizer = inference.load_translator(release, dtype="fp32")
    options = dict(target_lang="deu_Latn", max_new_tokens=4)
    assert len(inference.translate(model, tokenizer, expected[:2], None, **options)) == 2


# Without the folder there is nothing to test, so there is no test either.
if os.environ.get(REAL):

    @pytest.mark.slow
    def test_real_sonar(tmp_path):
        """The numbers are those of transformers' pull request 29646, made by fairseq2. The folder
        holds sonar_text_encoder.pt, sonar_text_decoder.pt and sentencepiece.source.256000.model."""
        place = Path(os.environ[REAL])
        parts = dict(
            tokenizer=place / "sentencepiece.source.256000.model",
            decoder=place / "sonar_text_decoder.pt",
        )
        out = convert_sonar(place / "sonar_text_encoder.pt", tmp_path / "sonar", **parts)
        texts = ["My name is SONAR.", "I can embed the sentences into vectorial space."]
        vectors = SentenceTransformer(str(out)).encode(texts, prompt_name="eng_Latn")
        printed = [
            [-0.005286, 0.002008, -0.000562, 0.006344, 0.006329],
            [-0.000330, -0.007055, 0.007644, 0.001841, 0.003727],
        ]
        # they are printed with six decimals
        assert np.allclose(vectors[:, :5], printed, rtol=1e-3, atol=1e-6)
        rows = pipeline("sonar-translation", model=str(out))(vectors, tgt_lang="eng_Latn")
        assert [row["translation_text"] for row in rows] == [
            texts[0],
            "I can embed the sentences into vector space.",
        ]
