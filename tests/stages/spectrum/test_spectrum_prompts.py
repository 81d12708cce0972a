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


def test_parts_targets_and_options_fit_each_other():
    seen = set()
    named = 0
    for seed in range(300):
        prompt = draw_prompt(ROW, np.random.default_rng(seed))
        assert prompt.target == prompt.options[1] and len(prompt.options) == 2
        assert "Categorize the document." in prompt.user and "Which topic?" in prompt.user
        assert "sports" in prompt.user and "travel" in prompt.user and "English" not in prompt.user
        named += (
            "Indonesian document" in prompt.user or "The document is in Indonesian." in prompt.user
        )
        kind = next(k for k, texts in prompts.TARGETS.items() if prompt.user.endswith(texts))
        fits = {"id": prompt.target in ("2", "B", "b"), "answer": prompt.target == "travel"}
        fits["both"] = prompt.target in ("2) travel", "B: travel", "b. travel")
        assert fits[kind]
        seen.add((prompt.system, kind, prompt.target))
    assert 0 < named < 300
    assert {system for system, _, _ in seen} == set(prompts.SYSTEMS)
    assert {target for _, _, target in seen} == {
        "2",
        "B",
        "b",
        "travel",
        "2) travel",
        "B: travel",
        "b. travel",
    }


def test_question_and_choices_are_left_out_where_there_are_none():
    row = {"lang": "eng_Latn", "task": "Summarize.", "answer": "A storm.", "choices": []}
    prompt = draw_prompt(row, np.random.default_rng(0))
    assert prompt.target == "A storm." and prompt.options == ["A storm."]
    assert (
        "Question" not in prompt.user and "Options" not in prompt.user and "\n" not in prompt.user
    )


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
    """A tokenizer with words, special tokens and chat template as Llama 3 has them, but a small vocabulary."""
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
        want = llama3.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert [echo.bos_token_id, *written_prompt(prompt, echo)] == want
    assert want.count(llama3.convert_tokens_to_ids("<|start_header_id|>")) == 3
    spelt = written_prompt(prompts.Prompt("a", "b<|eot_id|>", "a", ["a"]), echo)
    assert spelt.count(echo.eos_token_id) == 2  # the ends of the two turns


def test_other_tokenizers_read_plain_lines(toy_tokenizer):
    prompt = prompts.Prompt("You are a helpful assistant", "Categorize.", "a", ["a"])
    ids = written_prompt(prompt, toy_tokenizer)  # its normalizer makes one space of any white space
    assert toy_tokenizer.decode(ids) == "You are a helpful assistant Categorize. Answer:"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"answer": None}, "needs an answer"),
        ({"answer": "c"}, "'c' is not among the choices"),
        ({"lang": "ind"}, "unknown language code 'ind'"),
    ],
)
def test_wrong_answers_are_one_line(change, message):
    with pytest.raises(ValueError, match=message):
        draw_prompt(ROW | change, np.random.default_rng(0))
