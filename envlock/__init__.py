"""envlock: environments for fine-tuning language models that are chosen, locked, installed and proven."""

__version__ = "0.1.0"
