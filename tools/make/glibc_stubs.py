#!/usr/bin/python3
"""Writes stubs of glibc's shared libraries for the linker, in which each function has the newest version that glibc VERSION has.

    tools/make/glibc_stubs.py 2.31 OUT

A program linked to the stubs in the folder OUT, instead of this machine's libraries, loads on every glibc of that version or later. A function that
this machine's glibc has only in a later version is left out, so the linker reports it. Functions that glibc 2.34 moved from libpthread, libdl and
librt to libc are in the stub of libc; the program must therefore name those libraries as needed (the stubs of them are empty).
"""
import os
import re
import subprocess
import sys

LIBRARIES = {"libc.so.6": True, "libm.so.6": True, "ld-linux-x86-64.so.2": True, "libpthread.so.0": False, "libdl.so.2": False, "librt.so.1": False}


def path_of(library):
    done = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    return os.path.realpath(done.stdout.strip())


def number(version):
    return tuple(map(int, version.split(".")))


def symbols(library, newest):
    """{name: (version, type, size)} of the symbols that a glibc of version `newest` has."""
    done = subprocess.run(["readelf", "-W", "--dyn-syms", path_of(library)], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        m = re.match(r"\s*\d+: [0-9a-f]+\s+(\w+) (\w+)\s+(GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\S+ ([^@\s]+)@@?GLIBC_([\d.]+)", line)
        if not m or number(m[5]) > newest:
            continue
        size, kind, _, name, version = m.groups()
        if name not in found or number(version) > number(found[name][0]):
            found[name] = version, kind, int(size, 0)
    return found


def assembly(exported):
    lines = []
    for i, (name, (version, kind, size)) in enumerate(sorted(exported.items())):
        section = {"OBJECT": ".data", "TLS": '.section .tdata,"awT",@progbits'}.get(kind, ".text")
        elf_type = {"OBJECT": "object", "TLS": "tls_object"}.get(kind, "function")
        lines += [section, f".globl stub{i}", f".type stub{i}, @{elf_type}", f"stub{i}:", f".zero {max(size, 1) if section != '.text' else 1}",
                  f".size stub{i}, {size}", f".symver stub{i}, {name}@@GLIBC_{version}, remove"]
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",@progbits\n'


def main():
    newest, out = number(sys.argv[1]), sys.argv[2]
    os.makedirs(out, exist_ok=True)
    for library, has_symbols in LIBRARIES.items():
        exported = symbols(library, newest) if has_symbols else {}
        source, versions = os.path.join(out, library + ".S"), os.path.join(out, library + ".map")
        with open(source, "w") as f:
            f.write(assembly(exported))
        names = sorted({version for version, _, _ in exported.values()}, key=number) or ["2.2.5"]
        with open(versions, "w") as f:
            f.writelines(f"GLIBC_{name} {{ }};\n" for name in names)
        target = os.path.join(out, library)
        subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={versions}", "-o", target, source], check=True)
        os.remove(source)
        os.remove(versions)


if __name__ == "__main__":
    main()
