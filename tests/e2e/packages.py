"""Installs Python packages that tests use, each set in its own virtual environment."""
import hashlib
import os
import subprocess
import sys
import unittest

ROOT = os.environ.get("KVIK_TEST_VENVS", os.path.expanduser("~/.cache/kvik/test-venvs"))
INSTALL_S = 900


def python(*requirements):
    """Returns the Python of an environment with these packages (arguments of pip, including flags), or skips the test with the reason."""
    name = hashlib.sha256(" ".join(requirements).encode()).hexdigest()[:12]
    venv = os.path.join(ROOT, name)
    path, mark = os.path.join(venv, "bin", "python"), os.path.join(venv, "installed")
    if not os.path.exists(mark):
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, timeout=INSTALL_S)
            subprocess.run([path, "-m", "pip", "install", "--quiet", *requirements], check=True, capture_output=True, timeout=INSTALL_S)
        except (subprocess.SubprocessError, OSError) as error:
            output = getattr(error, "stderr", None) or b""
            raise unittest.SkipTest(f"{' '.join(requirements)} cannot be installed: {output.decode(errors='replace')[-300:] or error}") from None
        with open(mark, "w", encoding="utf-8") as f:
            f.write(" ".join(requirements) + "\n")
    return path


def folder(*requirements):
    """Returns the folder of an environment's packages."""
    out = subprocess.run([python(*requirements), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                         check=True, capture_output=True, text=True)
    return out.stdout.strip()
