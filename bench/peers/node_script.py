"""Runs Node scripts of this folder with the packages of an `npm install` elsewhere."""
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run_node(node_modules, script, *arguments, stdin=""):
    """Runs `node SCRIPT ARGUMENTS…`, which must succeed, and returns its stdout."""
    with tempfile.TemporaryDirectory() as folder:  # Node finds packages only beside the script
        os.symlink(os.path.abspath(node_modules), os.path.join(folder, "node_modules"))
        shutil.copy(os.path.join(HERE, script), folder)
        done = subprocess.run(["node", script, *map(str, arguments)], cwd=folder, input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{script}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout
