"""Helpers for files and text that know nothing of the rest of the package."""
