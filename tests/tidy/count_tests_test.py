"""Tests that `./test` counts correctly: it reports the tests that ran."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from count_tests import count, count_unittest, skip_reasons


def report(*cases):
    return "<testsuite>" + "".join(f'<testcase name="{n}" status="{s}"><system-out>{o}</system-out></testcase>' for n, s, o in cases) + "</testsuite>"


class CountTests(unittest.TestCase):
    def test_an_entry_of_ctest_is_one_case(self):
        self.assertEqual(count(report(("a", "run", ""), ("b", "fail", ""), ("c", "notrun", ""))), (1, 1, 1, ["b"]))

    def test_a_python_file_is_as_many_cases_as_it_ran(self):
        self.assertEqual(count(report(("a", "run", "...\nRan 3 tests in 0.1s\n\nOK\n"))), (3, 0, 0, []))

    def test_failures_errors_and_skips_of_a_python_file_are_told_apart(self):
        output = "Ran 9 tests in 2.1s\n\nFAILED (failures=2, errors=1, skipped=1)\n"
        self.assertEqual(count(report(("a", "fail", output))), (5, 3, 1, ["a"]))

    def test_a_python_file_that_dies_is_one_failure(self):
        self.assertEqual(count(report(("a", "fail", "Segmentation fault"))), (0, 1, 0, ["a"]))

    def test_a_file_that_fails_after_its_summary_is_a_failure(self):
        self.assertEqual(count(report(("a", "fail", "Ran 3 tests in 0.1s\n\nOK\n"))), (0, 1, 0, ["a"]))

    def test_reasons_of_skipped_cases_are_counted(self):
        output = 'test_a (A) ... skipped "needs b\'s file"\ntest_c (A) ... ok\ntest_d (A) ... skipped \'no network\'\n\nRan 3 tests in 1s\n'
        self.assertEqual(skip_reasons(report(("a", "run", output), ("b", "run", output))), {"needs b's file": 2, "no network": 2})

    def test_no_summary_is_no_count(self):
        self.assertIsNone(count_unittest("Ran out of memory"))


if __name__ == "__main__":
    unittest.main()
