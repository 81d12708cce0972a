"""The configuration of a tiny Whisper."""

from transformers import WhisperConfig


def config(seconds: int = 30) -> WhisperConfig:
    """For audio of so many seconds: transformers' encoder takes no more and no less."""
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0)
    encoder = dict(encoder_layers=2, encoder_attention_heads=1, encoder_ffn_dim=96, max_source_positions=50 * seconds)
    decoder = dict(decoder_layers=1, decoder_attention_heads=1, decoder_ffn_dim=96, vocab_size=100)
    return WhisperConfig(d_model=64, **encoder, **decoder, **tokens)
