"""Decoder finetuning on a frozen encoder (OS 4.7).

    python train_scripts/4_decoder.py                                          # the nano recipe
    python train_scripts/4_decoder.py large/4_decoder train_data=corpus.parquet
    torchrun --standalone --nproc_per_node 2 train_scripts/4_decoder.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/decoder.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano/4_decoder")
