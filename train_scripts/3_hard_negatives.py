"""Stage 3 (OS 4.4.2, Eq. 5-6): the same with hard negatives in a softmax of their own.

    python train_scripts/3_hard_negatives.py                                          # the nano recipe
    python train_scripts/3_hard_negatives.py large/3_hard_negatives train_data=corpus.parquet
    torchrun --standalone --nproc_per_node 2 train_scripts/3_hard_negatives.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/hard_negatives.py and hf_echo/losses/split_softmax.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano/3_hard_negatives")
