"""What all stages share: the declaration of a stage, the trainer, texts and dev sets."""
