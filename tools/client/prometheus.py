"""Parses Prometheus' text format (version 0.0.4) and rejects what its specification or `promtool check metrics` rejects."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (\+Inf|-Inf|NaN|[-+0-9.e]+)")
TYPES = ("counter", "gauge", "histogram")


class Page:
    """samples: {(name, frozenset of (label, value)): number}; types: {family: type}."""

    def __init__(self, text):
        assert text.endswith("\n"), "the last line has no end"
        self.types, self.samples, helped, family = {}, {}, set(), None
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                family, text = line[7:].split(" ", 1)
                assert re.fullmatch(NAME, family) and text and family not in helped, line
                helped.add(family)
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                assert name == family and name not in self.types and kind in TYPES, line
                assert name.endswith("_total") == (kind == "counter"), line
                self.types[name] = kind
            else:
                self._add(line, family)
        for name, kind in self.types.items():
            if kind == "histogram":
                self._check_histogram(name)

    def _add(self, line, family):
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        suffix = name[len(family):]
        assert name.startswith(family) and family in self.types, f"{line!r} outside of its family"
        assert suffix in (("_count", "_sum", "_bucket") if self.types[family] == "histogram" else ("",)), line
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        assert len(dict(pairs)) == len(pairs), line
        key = name, frozenset(pairs)
        assert key not in self.samples, f"{line!r} again"
        self.samples[key] = float(value)
        if self.types[family] == "counter":
            assert float(value) >= 0, line

    def _check_histogram(self, name):
        plain = {labels for n, labels in self.samples if n == name + "_count"}
        assert plain, name
        for labels in plain:
            buckets = {}
            for (n, with_le), count in self.samples.items():
                bound = dict(with_le).get("le")
                if n == name + "_bucket" and with_le - {("le", bound)} == labels:
                    buckets[float(bound)] = count
            counts = [buckets[bound] for bound in sorted(buckets)]
            assert counts == sorted(counts), f"{name} is not cumulative"
            assert buckets.get(float("inf")) == self.samples[name + "_count", labels], f"{name} lacks its last bucket"
            assert (name + "_sum", labels) in self.samples, name

    def value(self, name, **labels):
        """Returns the only sample with that name and these labels."""
        found = [v for (n, own), v in self.samples.items() if n == name and set(labels.items()) <= own]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def values(self, name, label):
        """Returns {value of the label: sample}."""
        return {dict(own)[label]: v for (n, own), v in self.samples.items() if n == name}
