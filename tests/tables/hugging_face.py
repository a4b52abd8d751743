"""A stand-in for `datasets.Dataset`, which the tests do not install."""


class OfHuggingFace:
    """The members of `datasets.Dataset` that are read."""

    def __init__(self, table):
        self.table = table
        self.features = self
        self.arrow_schema = table.schema.with_metadata({"huggingface": "{}"})
        self.column_names = table.column_names

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def select_columns(self, names):
        return OfHuggingFace(self.table.select(names))

    def iter(self, size):
        for start in range(0, len(self.table), 100):
            yield self.table.slice(start, 100)
