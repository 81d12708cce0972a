"""Omnilingual extension (OS 4.5.2, Algorithm 2): new languages join the space of a frozen teacher.

    python train_scripts/6_extension.py                                          # the nano recipe
    python train_scripts/6_extension.py RECIPE train_data=corpus.parquet teacher=org/omnisonar
    torchrun --standalone --nproc_per_node 2 train_scripts/6_extension.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/extension.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano-omni/1_extension")
