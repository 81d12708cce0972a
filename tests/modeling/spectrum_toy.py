"""A Spectrum with random weights, large enough that every part has an effect."""

import torch

from hf_echo.modeling import (
    EchoDecoder,
    EchoDecoderConfig,
    SpectrumConfig,
    SpectrumForCausalLM,
    SpectrumModel,
)

SIZE, HIDDEN, VOCABULARY, BOS, EOS, PAD_TOKEN = 12, 16, 40, 1, 2, 0
HEADS = dict(
    intermediate_size=32, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3
)


def make_tower(**changes) -> SpectrumModel:
    # the decoder has two
    shape = HEADS | dict(hidden_size=HIDDEN, embedding_size=SIZE, num_hidden_layers=3)
    torch.manual_seed(1)
    tower = SpectrumModel(SpectrumConfig(**shape | changes))
    tower.set_boe(torch.randn(tower.config.embedding_size))
    return tower.eval()


def make_decoder(**changes) -> EchoDecoder:
    shape = HEADS | dict(
        vocab_size=VOCABULARY, hidden_size=24, embedding_size=HIDDEN, num_hidden_layers=2
    )
    ids = dict(
        bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD_TOKEN, decoder_start_token_id=BOS
    )
    torch.manual_seed(2)
    return EchoDecoder(EchoDecoderConfig(**shape | ids | dict(bottleneck=False) | changes)).eval()


def make_spectrum(tower: dict | None = None, decoder: dict | None = None) -> SpectrumForCausalLM:
    return SpectrumForCausalLM.from_parts(make_tower(**tower or {}), make_decoder(**decoder or {}))


def embeddings(sentences: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sentences, SIZE, generator=torch.Generator().manual_seed(seed))
