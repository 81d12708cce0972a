"""A nano tokenizer and nano models with random weights, large enough that every part has an
effect."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from hf_echo.modeling import EchoConfig, EchoDecoderConfig, EchoForTranslation, EchoTokenizer

SENTENCES = {
    "fra_Latn": "Le chat dort sur le tapis rouge.",
    "deu_Latn": "Die Katze schläft.",
    "eng_Latn": "The cat sleeps on the red carpet, and the dog sleeps too.",
    "rus_Cyrl": "Кошка спит на красном ковре.",
    "kor_Hang": "고양이가 잔다.",
}
LANGUAGES = list(SENTENCES)
TEXTS = list(SENTENCES.values())


@pytest.fixture(scope="session")
def tokenizer() -> EchoTokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    prompts = ["This is a possible translation in French: English: Unspecified language:"]
    trainer = trainers.BpeTrainer(vocab_size=360, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator((TEXTS + prompts) * 5, trainer)
    return EchoTokenizer.from_backend(backend, max_length=128)


@pytest.fixture(scope="session")
def make_config(tokenizer):
    """make_config(decoder={...}, **changes): hidden 32, embedding 24, three layers,
    two key heads."""

    def make(decoder: dict | None = None, **changes) -> EchoConfig:
        common = dict(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, embedding_size=24
        )
        common |= dict(
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8
        )
        ids = [f"{role}_token_id" for role in ("cls", "sep", "bos", "eos", "pad")]
        common |= dict(languages=LANGUAGES) | {name: getattr(tokenizer, name) for name in ids}
        common |= changes
        encoder_only = {
            name: common.pop(name) for name in ("languages", "pooling") if name in common
        }
        decoder = EchoDecoderConfig(**common | (decoder or {}))
        return EchoConfig(**common, **encoder_only, decoder=decoder)

    return make


@pytest.fixture(scope="session")
def make_model(make_config):
    def make(decoder: dict | None = None, **changes) -> EchoForTranslation:
        torch.manual_seed(11)
        model = EchoForTranslation(make_config(decoder, **changes))
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.15)
        return model.eval()

    return make


@pytest.fixture
def model(make_model) -> EchoForTranslation:
    return make_model()


@pytest.fixture
def batch(tokenizer) -> dict[str, torch.Tensor]:
    return dict(tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt"))
