"""Stage 1 (OS 4.3, ECHO 4.2): translation; the decoder attends all encoder states.

    python train_scripts/1_seq2seq.py                                          # the nano recipe
    python train_scripts/1_seq2seq.py large/1_seq2seq train_data=corpus.parquet
    torchrun --standalone --nproc_per_node 2 train_scripts/1_seq2seq.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/seq2seq.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano/1_seq2seq")
