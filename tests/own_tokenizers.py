"""Tokenizers of other kinds than the toy's: those that BERT and XLM-R bring."""

from tokenizers import BertWordPieceTokenizer, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from . import toy


def word_pieces(texts: list[str], vocab_size: int = 200) -> PreTrainedTokenizerFast:
    """As BERT's: `##` inside of words, [CLS] and [SEP] around a text."""
    backend = BertWordPieceTokenizer()
    backend.train_from_iterator(texts, vocab_size=vocab_size, show_progress=False)
    names = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    return PreTrainedTokenizerFast(tokenizer_object=backend._tokenizer, model_max_length=128, **names)


def unigram(texts: list[str]) -> PreTrainedTokenizerFast:
    """As XLM-R's: SentencePiece's mark of a space, <s> and </s> around a text."""
    words = sorted({f"▁{word}" for text in texts for word in text.split()})
    letters = sorted({*"".join(words), "▁"})
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*((word, -5.0) for word in words if len(word) > 1), *((letter, -9.0) for letter in letters)]
    backend = Tokenizer(models.Unigram([*special, *pieces, ("<mask>", 0.0)], unk_id=3))
    backend.normalizer, backend.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return toy.with_ends(backend, model_max_length=128)
