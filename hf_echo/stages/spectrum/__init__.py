"""Stages of Spectrum (OS 9.1), in the order of the paper: tower, sentences, prefix, tasks.
Rows are documents."""
