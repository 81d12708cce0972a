"""The token stage's loss against Eq. 13 written out: sums of sentence embeddings, and Eq.
14 over the texts' tokens."""

import numpy as np
import pytest
import torch

from hf_echo.data.directions import extension_pairs
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import encode
from hf_echo.inference.embedding_store import LiveRows

from ..losses.test_self_objective import eq_14

ROWS = 6


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_total_is_eq_13(toy, toy_tokenizer, make_trainer, weight):
    """||e(s) + e(t) - e_teacher(s) - e_teacher(t)||^2 - lambda L_SO, a mean over pairs."""
    teacher = toy.make_model(toy_tokenizer, seed=1).eval()
    student = toy.make_model(toy_tokenizer, seed=2).eval()
    pairs = extension_pairs(toy.dataset(), ["eng_Latn", "fra_Latn"])
    sides = []
    for side in ("source", "target"):
        sides.append(
            LiveRows(pairs, side, lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang))
        )
    data = tokenize_parallel(pairs, toy_tokenizer, progress=False)
    options = dict(self_objective_weight=weight, similarity_scale=20.0, language_drop=0.0)
    trainer = make_trainer(
        "token", model=student, data=data, extra={"teacher": tuple(sides)}, **options
    )
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(ROWS)])

    # The loss of the trainer.
    with torch.no_grad():
        loss = trainer.compute_loss(student, batch).item()

    with torch.no_grad():
        output = student.encoder(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        )
    embeddings = output.sentence_embedding.double().numpy()
    states = output.last_hidden_state.double().numpy()
    # Equation 13, pair by pair in float64: the teacher's vectors, and the tokens behind the prompt.
    special = set(toy_tokenizer.all_special_ids)
    expected = []
    for row in range(ROWS):
        number = int(batch["index"][row])
        taught = np.zeros(embeddings.shape[1])
        tokens = []
        for side, place in (("source", row), ("target", ROWS + row)):
            taught += encode(
                teacher, toy_tokenizer, [pairs[number][side]], pairs[number][f"{side}_lang"]
            )[0]
            ids = batch["input_ids"][place].tolist()
            after_prompt = ids.index(toy_tokenizer.sep_token_id)
            tokens.append(
                [states[place, i] for i in range(after_prompt, len(ids)) if ids[i] not in special]
            )
        difference = embeddings[row] + embeddings[ROWS + row] - taught
        expected.append((difference**2).sum() - weight * eq_14(*map(np.array, tokens), 20.0))
    assert loss == pytest.approx(np.mean(expected), rel=1e-3)
