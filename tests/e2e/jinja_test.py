"""Tests that random templates render as in Jinja with Hugging Face's settings, or are rejected by both."""
import re
import unittest

import jinja_generator
import kvik
from chat_oracle import Renderer, environment, oracle

N_TEMPLATES = 20_000 if kvik.LONG else 600

# Intended differences between Kvik and Jinja.
WIDE = "the number does not fit in 64 bits"  # Python's integers are unbounded
ADDRESS = re.compile(r"<[^>]* at 0x[0-9a-f]+>|<Macro |<Namespace |<function|<bound method|<built-in|<LoopContext|Cycler|<generator|<itertools", re.I)


class Jinja(unittest.TestCase):
    def test_templates_made_by_chance_give_jinjas_text(self):
        renderer, env = Renderer(), environment()
        self.addCleanup(renderer.close)
        n_rendered = 0
        for seed in range(N_TEMPLATES):
            source = jinja_generator.Templates(seed).template()
            expected = oracle(env, source)(jinja_generator.VARIABLES)
            ours = renderer.render(source, jinja_generator.VARIABLES)
            text = expected.get("text")
            if WIDE in ours.get("error", "") or (text and ADDRESS.search(text)):
                continue
            n_rendered += text is not None
            self.assertEqual(ours.get("text"), text, f"seed {seed}: {source}\nours: {ours}\nJinja's: {expected}")
        self.assertGreater(n_rendered, N_TEMPLATES // 4)


if __name__ == "__main__":
    unittest.main()
