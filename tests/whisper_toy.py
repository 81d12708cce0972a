"""The configuration of a tiny Whisper."""

from transformers import WhisperConfig


def config(seconds: int = 30) -> WhisperConfig:
    """Args:
    seconds: of audio that transformers' encoder of it takes, not more and not less.
    """
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0)
    return WhisperConfig(
        d_model=64,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=1,
        decoder_attention_heads=1,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_source_positions=50 * seconds,
        vocab_size=100,
        **tokens,
    )
