"""docs/reference/cli.md shows the help texts that the program prints."""
import os
import unittest

import kvik
import cli_reference

PAGE = os.path.join(kvik.ROOT, "docs/reference/cli.md")


class CliReference(unittest.TestCase):
    maxDiff = None

    def test_the_page_has_the_help_of_every_command(self):
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), cli_reference.reference(kvik.BINARY), f"tools/make/cli_reference.py {kvik.BINARY} {PAGE} writes it")

    def test_every_command_is_found(self):
        commands = {words for words, _ in cli_reference.all_commands(kvik.BINARY)}
        for words in (("serve",), ("cache",), ("cache", "stat"), ("adapter", "merge"), ("constrain",)):
            self.assertIn(words, commands)


if __name__ == "__main__":
    unittest.main()
