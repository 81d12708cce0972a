"""Prompts of five parts: every template is drawn, targets fit the format that is asked for."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from hf_echo.modeling import EchoTokenizer
from hf_echo.stages.spectrum import prompts
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt
from hf_echo.vocabulary.pretokenizer import pre_tokenizer

ROW = dict(lang="ind_Latn", task="Categorize the document.", question="Which topic?")
ROW |= dict(choices=["sports", "travel"], answer="travel")


@pytest.fixture(scope="module")
def drawn() -> list:
    return [draw_prompt(ROW, np.random.default_rng(seed)) for seed in range(300)]


def kind_of(prompt) -> str:
    return next(kind for kind, texts in prompts.TARGETS.items() if prompt.user.endswith(texts))


def test_the_target_is_the_right_option(drawn):
    for prompt in drawn:
        assert len(prompt.options) == 2
        assert prompt.target == prompt.options[1]


def test_a_prompt_holds_the_parts_of_its_row(drawn):
    for prompt in drawn:
        for part in ("Categorize the document.", "Which topic?", "sports", "travel"):
            assert part in prompt.user
        assert "English" not in prompt.user


def test_some_prompts_name_the_language(drawn):
    named = ("Indonesian document", "The document is in Indonesian.")
    count = sum(any(text in prompt.user for text in named) for prompt in drawn)
    assert 0 < count < 300


def test_the_target_is_of_the_kind_that_the_prompt_asks_for(drawn):
    """Each form of each kind is drawn, and each system prompt."""
    targets = {"id": set(), "answer": set(), "both": set()}
    for prompt in drawn:
        targets[kind_of(prompt)].add(prompt.target)
    assert targets == {
        "id": {"2", "B", "b"},
        "answer": {"travel"},
        "both": {"2) travel", "B: travel", "b. travel"},
    }
    assert {prompt.system for prompt in drawn} == set(prompts.SYSTEMS)


def test_parts_that_a_row_lacks_are_left_out():
    row = {"lang": "eng_Latn", "task": "Summarize.", "answer": "A storm.", "choices": []}
    prompt = draw_prompt(row, np.random.default_rng(0))
    assert prompt.target == "A storm."
    assert prompt.options == ["A storm."]
    assert "Question" not in prompt.user
    assert "Options" not in prompt.user
    assert "\n" not in prompt.user


# As published with Llama 3.
LLAMA3_TEMPLATE = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def llama3():
    """A tokenizer with words, special tokens and chat template as Llama 3 has them,
    but a small vocabulary."""
    backend = Tokenizer(models.BPE(ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizer("llama3")
    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    options = dict(
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special,
        show_progress=False,
    )
    trainer = trainers.BpeTrainer(vocab_size=400, **options)
    backend.train_from_iterator(
        [*prompts.SYSTEMS, "system user assistant\n\n", *prompts.QUESTIONS] * 9, trainer
    )
    names = dict(
        bos_token="<|begin_of_text|>", eos_token="<|eot_id|>", chat_template=LLAMA3_TEMPLATE
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def test_the_llama_3_template_is_that_of_the_tokenizer(llama3):
    """Figure 7: the ids that transformers makes of the same messages, special tokens and all."""
    backend = llama3.backend_tokenizer
    echo = EchoTokenizer.from_backend(backend, bos="<|begin_of_text|>", eos="<|eot_id|>")
    for seed in range(20):
        prompt = draw_prompt(ROW, np.random.default_rng(seed))
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ]
        expected = llama3.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        assert [echo.bos_token_id, *written_prompt(prompt, echo)] == expected
    assert expected.count(llama3.convert_tokens_to_ids("<|start_header_id|>")) == 3
    spelt = written_prompt(prompts.Prompt("a", "b<|eot_id|>", "a", ["a"]), echo)
    assert spelt.count(echo.eos_token_id) == 2  # the ends of the two turns


def test_other_tokenizers_read_plain_lines(toy_tokenizer):
    prompt = prompts.Prompt("You are a helpful assistant", "Categorize.", "a", ["a"])
    ids = written_prompt(prompt, toy_tokenizer)  # its normalizer makes one space of any white space
    assert toy_tokenizer.decode(ids) == "You are a helpful assistant Categorize. Answer:"


def test_an_unknown_language_is_one_line():
    with pytest.raises(ValueError, match="unknown language code 'ind'"):
        draw_prompt(ROW | {"lang": "ind"}, np.random.default_rng(0))
