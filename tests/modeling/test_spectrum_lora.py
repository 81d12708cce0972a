"""peft's LoRA on tower and decoder: only adapters learn, they travel alone, merging changes nothing."""

import pytest
import torch

from .spectrum_toy import BOS, embeddings, make_spectrum

peft = pytest.importorskip("peft", reason="needs peft: pip install -e '.[modular]'")
PROMPT = torch.tensor([[BOS, 7]])


def with_adapters():
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]  # self-attention of both, cross-attention of the decoder
    torch.manual_seed(3)
    return peft.get_peft_model(make_spectrum(), peft.LoraConfig(r=2, lora_alpha=8, target_modules=targets))


def train(model, steps: int = 3) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    ids = torch.tensor([[BOS, 5, 6, 7, 8]])
    losses = []
    for _ in range(steps):
        loss = model(embeddings=embeddings(3)[None], input_ids=ids[:, :-1], labels=ids[:, 1:]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.trains
def test_adapters_of_both_parts_learn_and_nothing_else(tmp_path):
    model = with_adapters()
    before = {name: p.clone() for name, p in model.named_parameters()}
    losses = train(model)
    assert losses[-1] < losses[0]
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved and all("lora_" in name for name in moved)
    assert {name.split(".")[2] for name in moved} == {"tower", "decoder"}

    model.eval()
    document = model.encode_document(embeddings(4))
    scores = model.score_options(document, [[[5, 6], [9, 9]]], [[BOS, 7]])
    text = model.generate(document, PROMPT, max_new_tokens=6, do_sample=False)
    model.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(make_spectrum(), tmp_path).eval()
    own = again.encode_document(embeddings(4))
    torch.testing.assert_close(again.score_options(own, [[[5, 6], [9, 9]]], [[BOS, 7]]), scores)
    merged = again.merge_and_unload()
    document = merged.encode_document(embeddings(4))
    found = merged.score_options(document, [[[5, 6], [9, 9]]], [[BOS, 7]])
    torch.testing.assert_close(found, scores, atol=1e-4, rtol=1e-4)
    assert merged.generate(document, PROMPT, max_new_tokens=6, do_sample=False).tolist() == text.tolist()


def test_a_document_of_the_model_without_adapters_is_refused():
    model = make_spectrum()
    document = model.encode_document(embeddings(4))
    adapted = with_adapters().eval()
    assert torch.equal(adapted.encode_document(embeddings(4)).states, document.states)  # B starts at zero
    for name, parameter in adapted.named_parameters():
        if "tower" in name and "lora_B" in name:
            torch.nn.init.normal_(parameter)
    with pytest.raises(ValueError, match="other weights"):
        adapted.generate(document, PROMPT)
