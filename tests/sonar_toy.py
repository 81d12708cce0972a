"""SONAR in small: a SentencePiece model, random weights in the layouts of fairseq2 and fairseq, and
SONAR's formulas.

The formulas are written down in plain torch. Everything here counts tokens as fairseq2 does.
"""

import math
from itertools import chain
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import nn
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from hf_echo.data.builtin import LANGUAGES, builtin_nway

SIZE, HEADS, WIDTH, LAYERS = 128, 2, 96, 2  # 64 dimensions a head, as in SONAR
PAD, UNK, BOS, EOS = range(4)
FAIRSEQ_ORDER = [BOS, PAD, EOS, UNK]  # row i of fairseq's order is this row of fairseq2's


def texts(count: int = 40) -> dict[str, list[str]]:
    pieces_of_languages: dict[str, list[str]] = {code: [] for code in LANGUAGES}
    for row in builtin_nway(count):
        pieces_of_languages[row["lang"]].append(row["text"])
    return pieces_of_languages


def train_sentencepiece(folder: Path, kind: str = "bpe", rule: str = "nmt_nfkc") -> Path:
    lines = chain.from_iterable(texts(200).values())
    options = dict(
        vocab_size=1200,
        character_coverage=1.0,
        normalization_rule_name=rule,
        minloglevel=2,
        num_threads=1,
    )
    SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=str(folder / kind), model_type=kind, **options
    )
    return folder / f"{kind}.model"


class Ids:
    """fairseq2's NLLB tokenizer: `<pad>` is put before SentencePiece's ids;
    languages and three more tokens follow."""

    def __init__(self, model: Path):
        self.pieces = SentencePieceProcessor(model_file=str(model))
        self.first_language = self.pieces.get_piece_size() + 1

    def __len__(self) -> int:
        return self.first_language + len(FAIRSEQ_LANGUAGE_CODES) + 3

    def language(self, code: str) -> int:
        return self.first_language + FAIRSEQ_LANGUAGE_CODES.index(code)

    def text(self, text: str) -> list[int]:
        return [number + 1 for number in self.pieces.encode(text)]

    def encoder_input(self, text: str, code: str) -> list[int]:
        return [self.language(code), *self.text(text), EOS]


def in_nllb_order(ids: list[int]) -> list[int]:
    return [FAIRSEQ_ORDER.index(number) if number < 4 else number for number in ids]


def weights(words: int, kind: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors under fairseq2's names; kind is "encoder" or "decoder"."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 0.15) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * scale

    tensors = {f"{kind}_frontend.embed.weight": draw(words, SIZE, scale=0.1)}

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + draw(SIZE)
        tensors[f"{name}.bias"] = draw(SIZE)

    def linear(name: str, into: int, out: int) -> None:
        tensors[f"{name}.weight"] = draw(out, into)
        tensors[f"{name}.bias"] = draw(out)

    attentions = ["self_attn"] if kind == "encoder" else ["self_attn", "encoder_decoder_attn"]
    # A decoder has cross-attention beside self-attention.
    for number in range(LAYERS):
        layer = f"{kind}.layers.{number}"
        for attention in attentions:
            norm(f"{layer}.{attention}_layer_norm")
            for projection in ("q_proj", "k_proj", "v_proj", "output_proj"):
                linear(f"{layer}.{attention}.{projection}", SIZE, SIZE)
        norm(f"{layer}.ffn_layer_norm")
        linear(f"{layer}.ffn.inner_proj", SIZE, WIDTH)
        linear(f"{layer}.ffn.output_proj", WIDTH, SIZE)
    norm("layer_norm" if kind == "encoder" else "decoder.layer_norm")
    if kind == "decoder":
        tensors["final_proj.weight"] = tensors["decoder_frontend.embed.weight"].clone()
    return tensors


def write_fairseq2(tensors: dict, file: Path, *, bare: bool = False) -> Path:
    """As fairseq2 writes it: under "model", or since 0.5 without that key."""
    torch.save(dict(tensors) if bare else {"model": dict(tensors)}, file)
    return file


FAIRSEQ_NAMES = {
    "encoder_frontend.embed": "embed_tokens",
    "decoder_frontend.embed": "embed_tokens",
    "encoder_decoder_attn": "encoder_attn",
    "attn.output_proj": "attn.out_proj",
    "ffn.inner_proj": "fc1",
    "ffn.output_proj": "fc2",
    "ffn_layer_norm": "final_layer_norm",
    "final_proj": "output_projection",
}


def write_fairseq(tensors: dict, file: Path) -> Path:
    """As fairseq writes it: special tokens in its own order;
    the encoder's embeddings are a pickled module."""
    state = {"version": torch.tensor([3.0]), "embed_positions._float_tensor": torch.zeros(1)}
    for name, tensor in tensors.items():
        for mine, its in FAIRSEQ_NAMES.items():
            name = name.replace(mine, its)
        name = name.removeprefix("encoder.").removeprefix("decoder.")
        if name in ("embed_tokens.weight", "output_projection.weight"):
            tensor = torch.cat([tensor[FAIRSEQ_ORDER], tensor[4:]])
        state[name] = tensor
    content = {"state_dict": state}
    if not any("encoder_attn" in name for name in state):
        module = nn.Embedding(*state["embed_tokens.weight"].shape, padding_idx=1)
        module.weight = nn.Parameter(state.pop("embed_tokens.weight"))
        content["embed_tokens"] = module
    torch.save(content, file)
    return file


def convert(out: Path) -> Path:
    """A converted SONAR with random weights, from the files of a folder beside it."""
    from hf_echo.checkpoints import convert_sonar

    place = out.with_name("sonar_files")
    place.mkdir(parents=True)
    pieces = train_sentencepiece(place)
    words = len(Ids(pieces))
    encoder = write_fairseq2(weights(words, "encoder"), place / "encoder.pt")
    decoder = write_fairseq2(weights(words, "decoder", seed=1), place / "decoder.pt")
    return convert_sonar(encoder, out, tokenizer=pieces, decoder=decoder)


def norm(x, tensors, name):
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def linear(x, tensors, name):
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def attention(queries, keys, tensors, name, causal: bool = False):
    """Multi-head attention by its formula, head by head."""
    q, k, v = (
        linear(x, tensors, f"{name}.{part}_proj") for part, x in zip("qkv", (queries, keys, keys))
    )
    heads = []
    for part in range(HEADS):
        rows = slice(part * SIZE // HEADS, (part + 1) * SIZE // HEADS)
        scores = q[:, rows] @ k[:, rows].T / math.sqrt(SIZE // HEADS)
        if causal:
            later = torch.ones_like(scores).triu(1) > 0
            scores = scores.masked_fill(later, -math.inf)
        heads.append(scores.softmax(-1) @ v[:, rows])
    return linear(torch.cat(heads, -1), tensors, f"{name}.output_proj")


def positions(count: int) -> torch.Tensor:
    """(count, SIZE): sines, then cosines, of the positions from 2 on."""
    half = SIZE // 2
    frequencies = torch.tensor(
        [10_000 ** (-i / (half - 1)) for i in range(half)], dtype=torch.float64
    )
    angles = torch.arange(2, count + 2, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def embed(ids: list[int], tensors, kind: str) -> torch.Tensor:
    return tensors[f"{kind}_frontend.embed.weight"][ids] * math.sqrt(SIZE) + positions(len(ids))


def feed_forward(x, tensors, layer):
    inner = linear(norm(x, tensors, f"{layer}.ffn_layer_norm"), tensors, f"{layer}.ffn.inner_proj")
    return x + linear(inner.clamp(min=0), tensors, f"{layer}.ffn.output_proj")


def encode(ids: list[int], tensors) -> torch.Tensor:
    """(SIZE,): the mean of the encoder's states, over the language and the end of the sentence
    too."""
    x = embed(ids, tensors, "encoder")
    for number in range(LAYERS):
        layer = f"encoder.layers.{number}"
        y = norm(x, tensors, f"{layer}.self_attn_layer_norm")
        x = feed_forward(x + attention(y, y, tensors, f"{layer}.self_attn"), tensors, layer)
    return norm(x, tensors, "layer_norm").mean(0)


def decode(ids: list[int], embedding: torch.Tensor, tensors) -> torch.Tensor:
    """(len(ids), words): logits after each token, the sentence embedding being all that the decoder
    sees."""
    x = embed(ids, tensors, "decoder")
    for number in range(LAYERS):
        layer = f"decoder.layers.{number}"
        y = norm(x, tensors, f"{layer}.self_attn_layer_norm")
        x = x + attention(y, y, tensors, f"{layer}.self_attn", causal=True)
        y = norm(x, tensors, f"{layer}.encoder_decoder_attn_layer_norm")
        x = x + attention(y, embedding[None], tensors, f"{layer}.encoder_decoder_attn")
        x = feed_forward(x, tensors, layer)
    return norm(x, tensors, "decoder.layer_norm") @ tensors["final_proj.weight"].T


def beam_search(prompt: list[int], embedding, tensors, *, beams: int, steps: int) -> list[int]:
    """The best of `beams` continuations of exactly `steps` tokens,
    none of which ends the sentence."""
    kept = [(0.0, [])]
    for _ in range(steps):
        grown = []
        for score, written in kept:
            chances = decode(prompt + written, embedding, tensors)[-1].log_softmax(-1)
            chances[EOS] = -math.inf
            best = chances.topk(beams)
            grown += [
                (score + float(v), [*written, int(i)]) for v, i in zip(best.values, best.indices)
            ]
        kept = sorted(grown, reverse=True)[:beams]
    return kept[0][1]
