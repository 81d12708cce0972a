"""Alignment against rules written out in loops, hand-made links and hand-computed error rates."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_echo.evaluation.tokens.alignment import (
    alignment_error_rate,
    argmax_links,
    evaluate_alignment,
    itermax_links,
    load_alignment,
    parse_links,
    token_similarity,
    word_links,
)

COMMAND = "evaluate alignment"


def mutual(s: list[list[float]]) -> set[tuple[int, int]]:
    """The definition, in loops: the first of equals is the best."""
    links = set()
    for i, row in enumerate(s):
        j = row.index(max(row))
        column = [other[j] for other in s]
        if column.index(max(column)) == i:
            links.add((i, j))
    return links


def itermax(s: list[list[float]], iterations: int, alpha: float) -> set[tuple[int, int]]:
    """Jalili Sabet et al. 2020, algorithm 1, with the ends that their program has."""
    m, n = len(s), len(s[0])
    links = mutual(s)
    if min(m, n) <= 2:
        return links
    for _ in range(iterations - 1):
        rows, columns = {i for i, _ in links}, {j for _, j in links}
        if len(rows) == m or len(columns) == n:
            break
        scale = [[(1.0, alpha, 0.0)[(i in rows) + (j in columns)] for j in range(n)] for i in range(m)]
        scaled = [[s[i][j] * scale[i][j] for j in range(n)] for i in range(m)]
        new = {(i, j) for i, j in mutual(scaled) if not (i in rows and j in columns)}
        if not new - links:
            break
        links |= new
    return links


def as_set(links: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(*(part.tolist() for part in links.nonzero())))


def test_argmax_and_itermax_are_the_loops():
    rng = np.random.default_rng(0)
    more = 0
    for trial in range(300):
        s = rng.random((rng.integers(1, 9), rng.integers(1, 9)))
        s = s.round(1) if trial % 2 else s  # with ties
        assert as_set(argmax_links(s)) == mutual(s.tolist())
        for iterations in (1, 2, 3, 5):
            found = as_set(itermax_links(s, iterations=iterations))
            assert found == itermax(s.tolist(), iterations, 0.9)
        more += found > mutual(s.tolist())
    assert more > 50


def test_similarity_and_words():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 4, 5))
    found = token_similarity(x, y)
    for layer in range(2):
        for i, a in enumerate(x[layer]):
            for j, b in enumerate(y[layer]):
                cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
                assert found[layer, i, j] == pytest.approx((1 + cosine) / 2)
    links = np.zeros((3, 4), bool)
    links[0, 0] = links[1, 0] = links[1, 3] = links[2, 1] = True
    # the tokens 0 and 1 are word 0, token 2 none; of the target 0 and 1 are word 0, 2 and 3 word 1
    assert word_links(links, np.array([0, 0, -1]), np.array([0, 0, 1, 1])) == {(0, 0), (0, 1)}


def test_error_rate_by_hand():
    predicted, sure, possible = {(0, 0), (1, 1), (1, 2), (2, 2)}, {(0, 0), (1, 1)}, {(1, 2), (2, 3)}
    found = alignment_error_rate([predicted], [sure], [possible])
    assert found.aer == pytest.approx(1 - (2 + 3) / (4 + 2))
    assert (found.precision, found.recall) == (3 / 4, 1)
    assert found.f1 == pytest.approx(6 / 7)
    # the example of nltk's documentation
    reference, test = {(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 2), (2, 1)}
    assert alignment_error_rate([test], [reference]).aer == pytest.approx(0.6666666666666667)
    # sums over sentences, not a mean of rates
    both = alignment_error_rate([predicted, test], [sure, reference], [possible, set()])
    assert both.aer == pytest.approx(1 - (2 + 3 + 1 + 1) / (4 + 2 + 3 + 3)) and both.sentences == 2
    nothing = alignment_error_rate([set()], [sure])
    assert (nothing.aer, nothing.precision, nothing.recall, nothing.f1) == (1, None, 0, 0)
    with pytest.raises(ValueError, match="1 predicted, 2 sure"):
        alignment_error_rate([test], [sure, sure])
    with pytest.raises(ValueError, match="no sure links"):
        alignment_error_rate([test], [set()], [reference])


def rows(toy, lang="eng_Latn"):
    """A sentence with itself, and the identity as its alignment."""
    made = []
    for meaning in toy.split("dev")[:6]:
        words = [*toy.say(meaning, lang)[:-1].split(), "."]
        links = " ".join(f"{i}-{i}" for i in range(len(words)))
        made.append(dict(src_lang=lang, tgt_lang=lang, src_tokens=words, tgt_tokens=words, alignment=links))
    return made


def test_error_rate_of_a_pair_step_by_step(encoder, toy, toy_tokenizer):
    source, target = "one red catbird sleeps".split(), "un chat oiseau rouge dort".split()
    sure = {(0, 0), (1, 3), (2, 1), (2, 2), (3, 4)}
    row = dict(src_lang="eng_Latn", tgt_lang="fra_Latn", src_tokens=source, tgt_tokens=target)
    row["alignment"] = " ".join(f"{i}-{j}" for i, j in sorted(sure))
    table = evaluate_alignment(encoder, toy_tokenizer, [row])
    sides = []
    for words, lang in ((source, "eng_Latn"), (target, "fra_Latn")):
        ids = toy_tokenizer([" ".join(words)], lang=lang, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = torch.stack(encoder(ids, output_hidden_states=True).hidden_states)[:, 0]
        head = ids[0].tolist().index(toy_tokenizer.sep_token_id) + 1
        per_word = [len(toy_tokenizer.text_ids([word])[0]) for word in words]
        sides.append((states[:, head:-1].double().numpy(), np.repeat(np.arange(len(words)), per_word)))
        assert sides[-1][0].shape[1] == sum(per_word)
    (x, i), (y, j) = sides
    assert len(i) > len(source)  # a word of several tokens is among them
    for layer in range(3):
        links = {(i[a], j[b]) for a, b in mutual(token_similarity(x[layer], y[layer]).tolist())}
        want = 1 - 2 * len(links & sure) / (len(links) + len(sure))
        (found,) = (r for r in table.rows if r["layer"] == layer and r["method"] == "argmax")
        assert found["aer"] == pytest.approx(want)


def test_skipped_pairs_are_counted(encoder, toy, toy_tokenizer):
    data = rows(toy)
    data[1] = data[1] | {"tgt_tokens": data[1]["tgt_tokens"] * 20}
    with pytest.raises(ValueError, match=r"row 2 \(eng_Latn-eng_Latn\), tgt_tokens has \d+ tokens"):
        evaluate_alignment(encoder, toy_tokenizer, data, layers=[0])
    table = evaluate_alignment(encoder, toy_tokenizer, data, layers=[0], on_long="skip")
    assert table.notes["skipped_too_long"] == 1 and table.rows[0]["sentences"] == 5
    with pytest.raises(ValueError, match="all 1 pairs are longer"):
        evaluate_alignment(encoder, toy_tokenizer, data[1:2], layers=[0], on_long="skip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alignment": "0-0 7-1"}, r"row 1 \(eng_Latn-eng_Latn\): link 7-1 lies outside sentences of 5 and 5 words"),
        ({"possible": "0_0"}, "'0_0' is not a link"),
        ({"src_tokens": ["a", ""]}, r"row 1 \(eng_Latn-eng_Latn\), src_tokens: word 1 \(from 0\) is ''"),
        ({"alignment": ""}, "language pair eng_Latn-eng_Latn has no sure links in 1 sentences"),
    ],
)
def test_bad_rows(encoder, toy, toy_tokenizer, change, message):
    with pytest.raises(ValueError, match=message):
        evaluate_alignment(encoder, toy_tokenizer, [rows(toy)[0] | change], layers=[0])


def test_files(toy, tmp_path):
    data = [row | {"split": "dev" if i % 2 else "train"} for i, row in enumerate(rows(toy))]
    path = tmp_path / "links.parquet"
    Dataset.from_list(data).to_parquet(path)
    assert len(load_alignment(path)) == 6
    found = load_alignment(path, split="dev", limit=2)
    assert [pair.source for pair in found] == [" ".join(data[i]["src_tokens"]) for i in (1, 3)]
    assert found[0].sure == parse_links(data[1]["alignment"], 5, 5)
    with pytest.raises(ValueError, match="no rows of split 'test'"):
        load_alignment(path, split="test")
    lines = tmp_path / "links.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in [data[0], data[1] | {"alignment": "9-0"}]))
    with pytest.raises(ValueError, match=r"links.jsonl:2 \(eng_Latn-eng_Latn\): link 9-0"):
        load_alignment(lines)
    lines.write_text('{"src_tokens": ["a"], "tgt_tokens": ["b"]}\n')
    with pytest.raises(ValueError, match="has no column alignment; found: src_tokens, tgt_tokens"):
        load_alignment(lines)
    with pytest.raises(FileNotFoundError, match="no file .*nowhere"):
        load_alignment(tmp_path / "nowhere.parquet")


def test_command(answer, toy, toy_tokenizer, tmp_path):
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    Dataset.from_list(rows(toy)).to_parquet(tmp_path / "links.parquet")
    report = answer("--model", tmp_path / "model", "--data", tmp_path / "links.parquet", "--layers", 0)
    assert report["aer_by_layer"]["argmax"] == [{"layer": 0, "mean": 0.0, "eng_Latn-eng_Latn": 0.0}]
