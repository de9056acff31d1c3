#!/usr/bin/python3
"""Copies the licence notices of the libraries in the portable program, as Debian's packages have them.

    tools/make/notices.py FOLDER
"""
import glob
import os
import shutil
import sys

# The package of each library that cmake/portable.cmake links, or that is compiled in from headers; * stands for a version.
PACKAGES = ("libboost-json*-dev", "libbsd-dev", "libcli11-dev", "libedit-dev", "libfmt-dev", "libgcc-*-dev", "libhiredis-dev", "libicu-dev", "libmd-dev",
            "libncurses-dev", "libpcre2-dev", "libspdlog-dev", "libsqlite3-dev", "libssl-dev", "libstdc++-*-dev", "libxxhash-dev",
            "nlohmann-json3-dev")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for package in PACKAGES:
        found = sorted(glob.glob(f"/usr/share/doc/{package}/copyright"))
        if not found:
            sys.exit(f"no /usr/share/doc/{package}/copyright: is the package installed?")
        shutil.copyfile(found[-1], os.path.join(folder, package.removesuffix("-dev").rstrip("*-") + ".txt"))


if __name__ == "__main__":
    main()
