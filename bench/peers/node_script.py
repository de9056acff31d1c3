"""Scripts of this folder that run on Node, with the packages of an `npm install` elsewhere."""
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run_node(node_modules, script, *arguments, stdin=""):
    """stdout of `node SCRIPT ARGUMENTS…`, which must succeed."""
    with tempfile.TemporaryDirectory() as folder:  # node finds packages beside the script alone
        os.symlink(os.path.abspath(node_modules), os.path.join(folder, "node_modules"))
        shutil.copy(os.path.join(HERE, script), folder)
        done = subprocess.run(["node", script, *map(str, arguments)], cwd=folder, input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{script}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout
