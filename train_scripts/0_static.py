"""Stage 0 (ours): token embeddings as a bag of sub-words, the start of stages 1 to 3 for small models.

    python train_scripts/0_static.py                                          # the nano recipe
    torchrun --standalone --nproc_per_node 2 train_scripts/0_static.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/lexical.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano/0_static")
