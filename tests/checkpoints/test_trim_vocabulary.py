"""A checkpoint with fewer tokens: texts of kept tokens keep their embeddings and translations,
bit for bit."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

from hf_echo import inference
from hf_echo.checkpoints import convert_encoder, trim_checkpoint
from hf_echo.checkpoints.trim_vocabulary import sample_texts
from hf_echo.utils.lineage import read_lineage

COMMAND = "vocabulary trim"
KEPT = ["le chat dort", "un chien et un chat dorment"]
DROPPED = ["quelques extraordinaires bibliothèques"]


def write_texts(place, texts_of: dict[str, list[str]]):
    file = place / "texts.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for lang, texts in texts_of.items():
            for text in texts:
                lines.write(json.dumps({"lang": lang, "text": text}) + "\n")
    return file


def vectors_of(folder) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(KEPT)


def size_of(folder) -> int:
    """Tokens of its tokenizer."""
    return len(AutoTokenizer.from_pretrained(folder))


def ids_of(tokenizer, old) -> list[int]:
    """The old ids of a trimmed tokenizer's tokens, in their new order."""
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return old.convert_tokens_to_ids(tokens)


@pytest.fixture(scope="module")
def xlm_r(toy, tmp_path_factory):
    """A converted XLM-R whose matrix has more rows than its unigram tokenizer tokens,
    with <mask> as the last."""
    place = tmp_path_factory.mktemp("xlm_r")
    words = sorted(set(" ".join(KEPT + DROPPED).split()))
    # Special tokens, letters and whole words, by their scores.
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces += [(character, -9.0) for character in sorted(set("".join(words)))]
    pieces += [(f"▁{word}", -5.0) for word in words]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(["<mask>"])
    tokenizer = toy.with_ends(backend)
    torch.manual_seed(0)
    # Three rows more than tokens.
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer) + 3,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
        initializer_range=0.3,
    )
    source = toy.save(place / "plain", XLMRobertaModel(config), tokenizer)
    return convert_encoder(source, place / "echo")


@pytest.fixture(scope="module")
def keep(xlm_r) -> int:
    """All tokens but the three of DROPPED."""
    return size_of(xlm_r) - 3


@pytest.fixture(scope="module")
def trimmed(xlm_r, keep, tmp_path_factory):
    """(folder, report) of the encoder with the tokens of KEPT."""
    place = tmp_path_factory.mktemp("trimmed")
    texts = write_texts(place, {"fra_Latn": KEPT})
    return place / "out", trim_checkpoint(xlm_r, place / "out", texts, keep=keep)


def test_texts_of_kept_tokens_keep_their_embeddings(xlm_r, trimmed):
    folder, _ = trimmed
    assert np.array_equal(vectors_of(folder), vectors_of(xlm_r))


def test_the_matrix_has_a_row_for_each_kept_token(keep, trimmed):
    folder, _ = trimmed
    model = SentenceTransformer(str(folder), device="cpu")
    assert len(model.tokenizer) == keep
    assert model.tokenizer.mask_token_id == keep - 1
    assert model[0].model.config.vocab_size == keep
    assert model[0].model.get_input_embeddings().weight.shape[0] == keep


def test_a_word_that_is_left_out_is_spelt_by_shorter_tokens(xlm_r, trimmed):
    folder, _ = trimmed
    tokenizer = AutoTokenizer.from_pretrained(folder)
    before = AutoTokenizer.from_pretrained(xlm_r)(DROPPED[0])["input_ids"]
    after = tokenizer(DROPPED[0])["input_ids"]
    assert len(after) > len(before)
    assert tokenizer.unk_token_id not in after


def test_the_report_counts_tokens_of_a_text(xlm_r, trimmed):
    _, report = trimmed
    old = AutoTokenizer.from_pretrained(xlm_r)
    lengths = [len(old(text, add_special_tokens=False)["input_ids"]) for text in KEPT]
    mean = round(float(np.mean(lengths)), 2)
    for row in ("fra_Latn", "average"):
        assert report["tokens_per_sentence"][row] == {"before": mean, "after": mean}


def test_the_command_writes_report_into_lineage(xlm_r, keep, run, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    code, out, err = run(xlm_r, tmp_path / "out", "--texts", texts, "--keep", keep)
    assert code == 0, err
    assert json.loads(out)["tokens"] == keep
    assert read_lineage(tmp_path / "out")["results"]["tokens"] == keep


@pytest.fixture
def trim_and_measure(xlm_r, keep, answer, tmp_path):
    """A call of the command with a table of which each source is the first text."""
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    rows = ["id\tlang\ttext"]
    for number, text in enumerate(KEPT):
        rows.append(f"{number}\teng_Latn\t{text}")
        rows.append(f"{number}\tfra_Latn\t{KEPT[0]}")
    table = tmp_path / "nway.tsv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = [xlm_r, tmp_path / "out", "--texts", texts, "--keep", keep, "--nway", table]
    return lambda: answer(*words)


def test_the_command_measures_xsim_of_both_models(trim_and_measure):
    report = trim_and_measure()

    # The first text is the translation of one of the two.
    assert report["xsim"] == {"fra_Latn": {"before": 50.0, "after": 50.0}}


def test_a_repeated_command_answers_the_same(trim_and_measure):
    report = trim_and_measure()

    again = trim_and_measure()

    assert again == report


FRENCH = ["un rouge chat dort.", "deux bleu chien court."]
ENGLISH = ["one red cat sleeps.", "two blue dog runs."]


@pytest.fixture(scope="module")
def whole_release(toy_folders):
    """(model, tokenizer)"""
    return inference.load_translator(toy_folders["release"], dtype="fp32")


@pytest.fixture(scope="module")
def small_release(toy_folders, whole_release, tmp_path_factory):
    """(model, tokenizer) of a release with thirty tokens fewer."""
    place = tmp_path_factory.mktemp("release")
    texts = write_texts(place, {"fra_Latn": FRENCH, "eng_Latn": ENGLISH})
    keep = len(whole_release[1]) - 30
    trim_checkpoint(toy_folders["release"], place / "out", texts, keep=keep)
    return inference.load_translator(place / "out", dtype="fp32")


@pytest.mark.parametrize("function", [inference.encode, inference.translate])
def test_a_release_computes_as_before(whole_release, small_release, function):
    before = function(*whole_release, FRENCH, "fra_Latn")
    after = function(*small_release, FRENCH, "fra_Latn")
    assert np.array_equal(after, before)


def test_the_decoder_of_a_release_loses_the_same_rows(whole_release, small_release):
    model, tokenizer = small_release
    decoder = model.decoder
    assert len(tokenizer) == len(whole_release[1]) - 30
    assert decoder.lm_head.weight.shape[0] == decoder.config.vocab_size


@pytest.mark.parametrize("role", ["cls", "sep", "bos", "eos", "pad"])
def test_special_tokens_of_a_release_move_in_all_configurations(whole_release, small_release, role):
    model, tokenizer = small_release
    token_id = getattr(tokenizer, f"{role}_token_id")
    assert getattr(model.encoder.config, f"{role}_token_id") == token_id
    assert getattr(model.decoder.config, f"{role}_token_id") == token_id
    old_token = getattr(whole_release[1], f"{role}_token")
    assert tokenizer.convert_ids_to_tokens(token_id) == old_token


@pytest.fixture(scope="module")
def small_decoder(toy, toy_folders, tmp_path_factory):
    """(whole model, its tokenizer, trimmed model, its tokenizer) of a decoder of the first tokens
    alone."""
    place = tmp_path_factory.mktemp("small_decoder")
    model, tokenizer = inference.load_translator(toy_folders["release"], dtype="fp32")
    model.decoder.resize_token_embeddings(len(tokenizer) - 40)
    toy.save(place / "release", model, tokenizer, release=True)
    texts = write_texts(place, {"fra_Latn": FRENCH[:1]})
    trim_checkpoint(place / "release", place / "out", texts, keep=len(tokenizer) - 30)
    return model, tokenizer, *inference.load_translator(place / "out", dtype="fp32")


def test_a_decoder_of_the_first_tokens_keeps_those_of_them_that_are_kept(small_decoder):
    model, tokenizer, small, small_tokenizer = small_decoder
    written = len(tokenizer) - 40
    kept = [number for number in ids_of(small_tokenizer, tokenizer) if number < written]
    assert small.decoder.config.vocab_size == len(kept) < len(small_tokenizer)
    assert torch.equal(small.decoder.lm_head.weight, model.decoder.lm_head.weight[kept])


def test_an_encoder_keeps_the_rows_of_kept_tokens(small_decoder):
    """More rows round them up."""
    model, tokenizer, small, small_tokenizer = small_decoder
    rows = small.encoder.get_input_embeddings().weight[: len(small_tokenizer)]
    old_rows = model.encoder.get_input_embeddings().weight
    assert torch.equal(rows, old_rows[ids_of(small_tokenizer, tokenizer)])


@pytest.fixture(scope="module")
def german_first(xlm_r, keep, tmp_path_factory):
    place = tmp_path_factory.mktemp("german")
    texts = write_texts(place, {"fra_Latn": KEPT[:1], "deu_Latn": KEPT[1:]})
    trim_checkpoint(xlm_r, place / "out", texts, keep=keep, first=["deu_Latn"])
    return place / "out"


def test_the_first_ids_write_all_texts_of_the_first_language(german_first):
    words = AutoTokenizer.from_pretrained(german_first)
    ids = {*words(KEPT[1])["input_ids"], *words.all_special_ids}
    ids.remove(words.mask_token_id)  # it is no piece
    assert sorted(ids) == list(range(len(ids)))
    assert words.mask_token_id == len(words) - 1


def test_an_order_of_tokens_changes_no_embedding(xlm_r, german_first):
    assert np.array_equal(vectors_of(german_first), vectors_of(xlm_r))


def test_a_first_language_without_texts_is_refused(xlm_r, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    with pytest.raises(ValueError, match="'spa_Latn'"):
        trim_checkpoint(xlm_r, tmp_path / "none", texts, keep=40, first=["spa_Latn"])


@pytest.fixture(scope="module")
def small_sonar(sonar_toy, tmp_path_factory):
    """(folder of SONAR, of SONAR with 300 tokens fewer)"""
    place = tmp_path_factory.mktemp("sonar")
    sonar = sonar_toy.convert(place / "sonar")
    texts = write_texts(place, {"fra_Latn": KEPT})
    trim_checkpoint(sonar, place / "out", texts, keep=size_of(sonar) - 300)
    return sonar, place / "out"


def sonar_vectors(folder) -> np.ndarray:
    return inference.encode(*inference.load_translator(folder, dtype="fp32"), KEPT, "fra_Latn")


def sonar_logits(folder, vectors: np.ndarray) -> torch.Tensor:
    """(texts, positions, tokens): of the first tokens of KEPT in German."""
    model, tokenizer = inference.load_translator(folder, dtype="fp32")
    rows = []
    for text in KEPT:
        (text_ids,) = tokenizer.text_ids([text])
        rows.append([*tokenizer.decoder_prompt_ids("deu_Latn"), *text_ids[:3]])
    states = torch.from_numpy(vectors)[:, None]
    with torch.inference_mode():
        return model.decoder(encoder_outputs=(states,), decoder_input_ids=torch.tensor(rows)).logits


def test_sonar_encodes_as_before(small_sonar):
    sonar, small = small_sonar
    assert np.array_equal(sonar_vectors(small), sonar_vectors(sonar))


def test_the_decoder_of_sonar_has_the_logits_of_the_kept_tokens(small_sonar):
    sonar, small = small_sonar
    old = AutoTokenizer.from_pretrained(sonar)
    new = AutoTokenizer.from_pretrained(small)
    kept = ids_of(new, old)
    vectors = sonar_vectors(sonar)

    logits = sonar_logits(small, vectors)

    assert logits.shape[-1] == len(new) == len(old) - 300
    # The logits of the whole model, at the tokens that were kept.
    torch.testing.assert_close(logits, sonar_logits(sonar, vectors)[..., kept])


def test_each_text_has_the_same_chance_in_a_sample(tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": [str(number) for number in range(50)]})
    counts = np.zeros(50)
    for seed in range(200):
        sample = sample_texts(texts, None, 10, seed, {})["fra_Latn"]
        assert len(set(sample)) == 10
        counts[[int(text) for text in sample]] += 1
    deviation = (200 * 0.2 * 0.8) ** 0.5  # binomial: 200 draws with chance 0.2
    assert abs(counts - 40).max() < 5.7 * deviation


def test_a_language_can_have_a_larger_sample(tmp_path):
    rows = {"fra_Latn": [str(number) for number in range(50)], "deu_Latn": ["a"]}
    sample = sample_texts(write_texts(tmp_path, rows), None, 10, 0, {"fra_Latn": 30})
    assert sample["deu_Latn"] == ["a"]
    assert len(set(sample["fra_Latn"])) == 30


def test_too_few_tokens_are_refused(xlm_r, refused, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    refused("alone are", xlm_r, tmp_path / "out", "--texts", texts, "--keep", 10)
    assert not (tmp_path / "out").exists()


def test_a_missing_table_to_measure_is_named_before_the_work(xlm_r, refused, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    command = (xlm_r, tmp_path / "out", "--texts", texts, "--keep", 90, "--nway", "none.tsv")

    refused("--nway: no file none.tsv", *command)

    assert not (tmp_path / "out").exists()


def test_languages_that_come_first_have_any_name(xlm_r, refused, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    options = ("--texts", texts, "--keep", 90, "--first", "German")
    refused(
        "first names 'deu_Latn', of which there are no texts", xlm_r, tmp_path / "out", *options
    )


def test_a_missing_file_of_texts_is_named(xlm_r, refused, tmp_path):
    texts = tmp_path / "none.jsonl"
    refused(f"--texts: no file {texts}", xlm_r, tmp_path / "out", "--texts", texts, "--keep", 90)
