#!/usr/bin/python3
"""Counts the cases in a JUnit report of ctest and prints 'N passed, N failed' as its last line.

A ctest entry is one case, except for Python files, whose unittest summary has the number of cases. The reasons of skipped cases, as
printed by `python3 FILE -v`, come before the last line. The exit code is 1 if a case failed or none ran.
"""
import collections
import re
import sys
import xml.etree.ElementTree


def count_unittest(output):
    """Returns (passed, failed, skipped) of unittest's summary, or None if there is none."""
    ran = re.search(r"^Ran (\d+) tests? in ", output, re.M)
    verdict = re.search(r"^(?:OK|FAILED)(?: \((.*)\))?\s*$", output[ran.end():], re.M) if ran else None
    if not verdict:
        return None
    named = dict(re.findall(r"(\w[\w ]*)=(\d+)", verdict[1] or ""))
    failed = sum(int(named.get(k, 0)) for k in ("failures", "errors", "unexpected successes"))
    skipped = int(named.get("skipped", 0))
    return max(0, int(ran[1]) - failed - skipped), failed, skipped


def count(report):
    """Returns (passed, failed, skipped, names of failed entries) of a report."""
    totals, failures = [0, 0, 0], []
    for case in xml.etree.ElementTree.fromstring(report).iter("testcase"):
        status = case.get("status")
        counts = count_unittest(case.findtext("system-out") or "")
        if status == "fail":
            failures.append(case.get("name"))
            counts = counts if counts and counts[1] else (0, 1, 0)
        elif status != "run":
            counts = (0, 0, 1)
        totals = [a + b for a, b in zip(totals, counts or (1, 0, 0))]
    return (*totals, failures)


def skip_reasons(report):
    """Returns {reason: number of skipped cases} from unittest's verbose outputs."""
    reasons = collections.Counter()
    for case in xml.etree.ElementTree.fromstring(report).iter("testcase"):
        output = case.findtext("system-out") or ""
        reasons.update(match[2] for match in re.finditer(r"skipped (['\"])(.*)\1$", output, re.M))
    return reasons


def main():
    try:
        with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
            report = f.read()
    except OSError as e:
        print(f"no test ran: {e}\n0 passed, 0 failed")
        sys.exit(1)
    passed, failed, skipped, failures = count(report)
    for reason, n in skip_reasons(report).most_common():
        print(f"skipped: {reason}" + (f" ({n} times)" if n > 1 else ""))
    for name in failures:
        print(f"failed: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
