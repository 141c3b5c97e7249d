"""What all dialect tests use."""

from dialects._speaking import speak

__all__ = ["speak"]
