"""The only way out: names resolved once, every address vetted, the vetted one dialled."""
