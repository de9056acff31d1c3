#!/usr/bin/python3
"""Writes the part of ICU's data that Kvik uses, 1.1 of 31 MB, as an assembly file that defines the same symbol as libicudata.

    tools/make/icu_data.py LIBICUDATA.A OUT.S

Kvik asks ICU for properties of characters, sets of them, normal forms and the letter cases of no particular language. Left out are languages, regions,
currencies, time zones, collation and converters. tests/e2e/package_test.py compares properties and normal forms with those of the whole data.
"""
import os
import re
import subprocess
import sys

KEPT = re.compile(r"[^/]*\.(icu|nrm)|(root|pool|likelySubtags|metadata|supplementalData|keyTypeData|res_index)\.res")


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def main():
    archive, out = map(os.path.abspath, sys.argv[1:])
    folder = out + ".parts"
    os.makedirs(os.path.join(folder, "small"), exist_ok=True)
    [member] = [name for name in output("ar", "t", archive).split() if name.endswith("_dat.o")]
    subprocess.run(["ar", "x", archive, member], cwd=folder, check=True)
    symbol = re.search(r" [RD] (icudt\d+_dat)", output("nm", os.path.join(folder, member)))[1]
    # icupkg requires the name of the data as the name of the file.
    whole = os.path.join(folder, member.replace("_dat.o", ".dat"))
    small = os.path.join(folder, "small", os.path.basename(whole))
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.rodata", os.path.join(folder, member), whole], check=True)
    left_out = os.path.join(folder, "left_out.txt")
    with open(left_out, "w") as f:
        f.writelines(name + "\n" for name in output("icupkg", "-l", whole).split() if not KEPT.fullmatch(name))
    subprocess.run(["icupkg", "-r", left_out, whole, small], check=True)
    with open(out, "w") as f:
        f.write(f'.section .rodata\n.balign 16\n.globl {symbol}\n.type {symbol}, @object\n{symbol}:\n.incbin "{small}"\n.size {symbol}, . - {symbol}\n'
                '.section .note.GNU-stack,"",@progbits\n')
    os.remove(whole)
    os.remove(os.path.join(folder, member))


if __name__ == "__main__":
    main()
