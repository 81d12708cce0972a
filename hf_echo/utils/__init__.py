"""Helpers for files and text that are independent of the rest of the package."""
