"""A checkpoint with fewer tokens: texts of kept tokens keep their embeddings and translations, bit for bit."""

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
from hf_echo.steps.run import run_operation
from hf_echo.utils.lineage import read_lineage

COMMAND = "vocabulary trim"
KEPT = ["le chat dort", "un chien et un chat dorment"]
DROPPED = ["quelques extraordinaires bibliothèques"]


def write_texts(place, rows):
    lines = [json.dumps({"lang": lang, "text": text}) for lang, texts in rows.items() for text in texts]
    (place / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place / "texts.jsonl"


@pytest.fixture(scope="module")
def xlm_r(toy, tmp_path_factory):
    """A converted XLM-R whose matrix has more rows than its unigram tokenizer tokens, with <mask> as the last."""
    place = tmp_path_factory.mktemp("xlm_r")
    words = {word for text in KEPT + DROPPED for word in text.split()}
    pieces = [*((name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")), ("▁", -4.0)]
    pieces += [(character, -9.0) for character in sorted(set("".join(words)))]
    pieces += [(f"▁{word}", -5.0) for word in sorted(words)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(["<mask>"])
    tokenizer = toy.with_ends(backend)
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    config = XLMRobertaConfig(vocab_size=len(tokenizer) + 3, max_position_embeddings=40, initializer_range=0.3, **sizes)
    return convert_encoder(toy.save(place / "plain", XLMRobertaModel(config), tokenizer), place / "echo")


def test_an_encoder(xlm_r, run, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    before = SentenceTransformer(str(xlm_r), device="cpu")
    old = AutoTokenizer.from_pretrained(xlm_r)
    needed = len(old) - 3
    code, out, err = run(xlm_r, tmp_path / "out", "--texts", texts, "--keep", needed)
    assert code == 0, err
    after = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert np.array_equal(after.encode(KEPT), before.encode(KEPT))
    assert len(after.tokenizer) == needed and after.tokenizer.mask_token_id == needed - 1
    assert after[0].model.get_input_embeddings().weight.shape[0] == needed == after[0].model.config.vocab_size
    # What is left out is spelt by shorter tokens.
    assert len(after.tokenizer(DROPPED[0])["input_ids"]) > len(old(DROPPED[0])["input_ids"])
    assert after.tokenizer.unk_token_id not in after.tokenizer(DROPPED[0])["input_ids"]
    lengths = json.loads(out)["tokens_per_sentence"]
    wanted = np.mean([len(old(text, add_special_tokens=False)["input_ids"]) for text in KEPT])
    assert lengths["fra_Latn"] == lengths["average"] == {"before": round(wanted, 2), "after": round(wanted, 2)}
    assert read_lineage(tmp_path / "out")["results"]["tokens"] == needed


def test_a_release_and_its_decoder(toy, toy_folders, tmp_path):
    """Ids of the template, the prompts, the configurations and both matrices move together."""
    rows = {"fra_Latn": ["un rouge chat dort.", "deux bleu chien court."]}
    rows |= {"eng_Latn": ["one red cat sleeps.", "two blue dog runs."]}
    texts = write_texts(tmp_path, rows)
    old = AutoTokenizer.from_pretrained(toy_folders["release"])
    keep = len(old) - 30
    results = trim_checkpoint(toy_folders["release"], tmp_path / "out", texts, keep=keep)
    assert results["tokens"] == keep < results["old_tokens"] == len(old)
    model, tokenizer = inference.load_translator(tmp_path / "out", dtype="fp32")
    was, before = inference.load_translator(toy_folders["release"], dtype="fp32")
    french = rows["fra_Latn"]
    for function in (inference.encode, inference.translate):
        have, want = function(model, tokenizer, french, "fra_Latn"), function(was, before, french, "fra_Latn")
        assert np.array_equal(have, want)
    assert model.decoder.lm_head.weight.shape[0] == model.decoder.config.vocab_size
    for role in ("cls", "sep", "bos", "eos", "pad"):
        name = f"{role}_token_id"
        number = getattr(tokenizer, name)
        assert getattr(model.encoder.config, name) == number == getattr(model.decoder.config, name)
        assert tokenizer.convert_ids_to_tokens(number) == getattr(before, f"{role}_token")


def test_a_decoder_of_the_first_tokens_alone(toy, toy_folders, tmp_path):
    model, tokenizer = inference.load_translator(toy_folders["release"], dtype="fp32")
    model.decoder.resize_token_embeddings(written := len(tokenizer) - 40)
    toy.save(tmp_path / "release", model, tokenizer, release=True)
    texts = write_texts(tmp_path, {"fra_Latn": ["un rouge chat dort."]})
    trim_checkpoint(tmp_path / "release", tmp_path / "out", texts, keep=len(tokenizer) - 30)
    small, words = inference.load_translator(tmp_path / "out", dtype="fp32")
    old = tokenizer.convert_tokens_to_ids(words.convert_ids_to_tokens(list(range(len(words)))))
    kept = [number for number in old if number < written]
    assert small.decoder.config.vocab_size == len(kept) < len(words)
    assert torch.equal(small.decoder.lm_head.weight, model.decoder.lm_head.weight[kept])
    rows, were = (opened.encoder.get_input_embeddings().weight for opened in (small, model))
    assert torch.equal(rows[: len(old)], were[old])  # rows are rounded up


def test_tokens_of_a_language_come_first(xlm_r, tmp_path):
    """The first ids write all its texts; embeddings of kept texts stay."""
    texts = write_texts(tmp_path, {"fra_Latn": KEPT[:1], "deu_Latn": KEPT[1:]})
    keep = len(AutoTokenizer.from_pretrained(xlm_r)) - 3
    trim_checkpoint(xlm_r, tmp_path / "out", texts, keep=keep, first=["deu_Latn"])
    words = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = words(KEPT[1])["input_ids"]
    special = [number for number in words.all_special_ids if number != words.mask_token_id]  # it is no piece
    assert sorted({*ids, *special}) == list(range(len({*ids, *special}))) and words.mask_token_id == keep - 1
    vectors = (SentenceTransformer(str(folder), device="cpu").encode(KEPT) for folder in (xlm_r, tmp_path / "out"))
    assert np.array_equal(*vectors)
    with pytest.raises(ValueError, match="'spa_Latn'"):
        trim_checkpoint(xlm_r, tmp_path / "none", texts, keep=keep, first=["spa_Latn"])


def test_sonar(sonar_toy, tmp_path):
    """Vectors, and the decoder's logits of the tokens that are left."""
    sonar = sonar_toy.convert(tmp_path / "sonar")
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    old = AutoTokenizer.from_pretrained(sonar)
    trim_checkpoint(sonar, tmp_path / "out", texts, keep=len(old) - 300)
    (model, tokenizer), (was, before) = (inference.load_translator(f, dtype="fp32") for f in (tmp_path / "out", sonar))
    vectors = inference.encode(was, before, KEPT, "fra_Latn")
    assert np.array_equal(inference.encode(model, tokenizer, KEPT, "fra_Latn"), vectors)
    logits, kept = [], before.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    for decoder, words in ((model.decoder, tokenizer), (was.decoder, before)):
        ids = torch.tensor([[*words.decoder_prompt_ids("deu_Latn"), *words.text_ids([text])[0][:3]] for text in KEPT])
        with torch.inference_mode():
            logits.append(decoder(encoder_outputs=(torch.from_numpy(vectors)[:, None],), decoder_input_ids=ids).logits)
    assert logits[0].shape[-1] == len(tokenizer) == len(old) - 300
    torch.testing.assert_close(logits[0], logits[1][..., kept])


def test_a_finished_step_is_not_repeated(xlm_r, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    recipe, keep = tmp_path / "trim.yaml", len(AutoTokenizer.from_pretrained(xlm_r)) - 3
    values = dict(model=xlm_r, output_dir=tmp_path / "out", texts=texts, keep=keep, operation="trim_vocabulary")
    recipe.write_text("".join(f"{name}: {value}\n" for name, value in values.items()))
    assert run_operation(recipe)["tokens"] == keep
    written = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns
    run_operation(recipe)
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == written


def test_the_sample_is_uniform(tmp_path):
    rows = {"fra_Latn": [str(i) for i in range(50)], "deu_Latn": ["a"]}
    texts = write_texts(tmp_path, rows)
    drawn = [sample_texts(texts, None, 10, seed, {})["fra_Latn"] for seed in range(200)]
    assert all(len(set(rows)) == 10 for rows in drawn)
    counts = np.bincount([int(text) for rows in drawn for text in rows], minlength=50)
    assert abs(counts - 40).max() < 5.7 * 40**0.5 * 0.8**0.5  # binomial: 200 draws with chance 0.2
    more = sample_texts(texts, None, 10, 0, {"fra_Latn": 30})
    assert more["deu_Latn"] == ["a"] and len(set(more["fra_Latn"])) == 30


def test_too_few_tokens_are_refused(xlm_r, refused, tmp_path):
    texts = write_texts(tmp_path, {"fra_Latn": KEPT})
    refused("alone are", xlm_r, tmp_path / "out", "--texts", texts, "--keep", 10)
    refused("no such file", xlm_r, tmp_path / "out", "--texts", tmp_path / "none.jsonl", "--keep", 90)
    assert not (tmp_path / "out").exists()
