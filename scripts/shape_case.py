"""A model whose shapes are compared."""


class Case:
    """A model with the sizes of its symbolic dimensions, and values to feed where it can be run."""

    def __init__(self, model, feeds=None, dims=None, expected=None):
        self.model, self.feeds, self.dims = model, feeds, dims or {}
        # Element types and shapes of outputs, for models that the runtime may be too old for.
        self.expected = expected
