#!/usr/bin/python3
"""Stands in for kvik, curl, redis-server and coding agents while documents_test.py runs the blocks of the documents. Blocks run as they are
written: this program starts servers in the background on free ports and puts these ports in place of the documented ones.

The name by which it is called is the command; KVIK_DOCUMENT_STATE is the folder of its notes."""
import json
import os
import pty
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tools/client"))
from server import free_port  # noqa: E402

STATE = os.environ["KVIK_DOCUMENT_STATE"]
READY_S = 60
KVIK_PORT = re.compile(r"\b(?:127\.0\.0\.1|localhost|10\.0\.0\.\d):(?:8080|9000|11434)\b")
REDIS_PORT = re.compile(r"\b10\.0\.0\.9:6379\b")
ANY_ADDRESS = re.compile(r"^10\.0\.0\.\d$")


def noted(name):
    try:
        with open(os.path.join(STATE, name + ".json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def note(name, **values):
    with open(os.path.join(STATE, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(values, file)


def stop(name):
    """Ends the server that was started under this name, if any."""
    pid = noted(name).get("pid")
    if pid is None:
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if os.path.exists(f"/proc/{pid}/stat") and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.02)
                continue
        except OSError:
            pass
        break
    os.remove(os.path.join(STATE, name + ".json"))


def start(name, command, port, is_ready):
    """Starts a server and waits until it is ready. Exits with its code if it ends before."""
    stop(name)
    log_path = os.path.join(STATE, name + ".log")
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    note(name, pid=process.pid, port=port)
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        if is_ready():
            return
        time.sleep(0.05)
    sys.stderr.write(open(log_path, encoding="utf-8", errors="replace").read())
    sys.exit(process.poll() or 1)


def is_answering(port, scheme):
    try:
        context = ssl._create_unverified_context() if scheme == "https" else None  # the test's own certificate
        with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/readyz", timeout=5, context=context) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False


def is_listening(port):
    return subprocess.run(["redis-cli", "-p", str(port), "-a", "secret", "ping"], capture_output=True).stdout.startswith(b"PONG")


def with_default(arguments, names, *more):
    """Returns the arguments, followed by `more` unless one of the flags is given."""
    return arguments if any(a.split("=")[0] in names for a in arguments) else [*arguments, *more]


def small(arguments):
    """Returns the arguments with a small KV cache, and with loopback in place of a machine's own address."""
    out = ["127.0.0.1" if ANY_ADDRESS.match(a) else a for a in arguments]
    if "--kv-memory" in out:
        out[out.index("--kv-memory") + 1] = "64MiB"
    return with_default(out, ["--kv-memory"], "--kv-memory", "64MiB")


def chat_in_a_terminal(command):
    """Runs a chat in a pseudo-terminal, leaves it with /bye, and returns its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    has_asked = False
    while True:
        try:
            shown = os.read(fd, 4096)
        except OSError:
            break
        if not shown:
            break
        sys.stdout.write(shown.decode(errors="replace"))
        if not has_asked and b">" in shown:
            has_asked = True
            os.write(fd, b"/bye\r")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def with_url_of_server(arguments):
    """Returns the arguments with the address of the server that runs here. A command that names a model for a server of its own gets none."""
    port = noted("kvik").get("port")
    out = [KVIK_PORT.sub(f"127.0.0.1:{port}", a) for a in arguments]
    url = f"http://127.0.0.1:{port}" if port and "--model" not in out else "none"
    return out if "--url" in out else [out[0], "--url", url, *out[1:]]


def agent(arguments):
    """Returns 0 if the server answers that `kvik launch` tells a coding agent: in variables, in a file or in arguments."""
    texts = [*arguments, *(os.environ.get(name, "") for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"))]
    if "OPENCODE_CONFIG" in os.environ:
        with open(os.environ["OPENCODE_CONFIG"], encoding="utf-8") as file:
            texts.append(file.read())
    ports = set(re.findall(r"http://127\.0\.0\.1:(\d+)", "\n".join(texts)))
    return 0 if len(ports) == 1 and is_answering(ports.pop(), "http") else 1


def kvik(arguments):
    binary = os.environ["KVIK_DOCUMENT_BINARY"]
    redis = noted("redis-server").get("port")
    arguments = [REDIS_PORT.sub(f"127.0.0.1:{redis}", a) for a in arguments]
    if "serve" in arguments:
        port = free_port()
        scheme = "https" if "--tls-cert" in arguments else "http"
        if "--port" in arguments:
            at = arguments.index("--port")
            arguments = arguments[:at] + arguments[at + 2:]
        start("kvik", [binary, *small(arguments), "--port", str(port)], port, lambda: is_answering(port, scheme))
        return 0
    if arguments[:1] == ["cache"] and arguments[1] in ("verify", "clear", "gc", "import", "warm"):
        stop("kvik")  # as the document says
    if arguments[:1] in (["ps"], ["launch"]):
        arguments = with_url_of_server(arguments)
    if arguments[:1] == ["launch"] or arguments[:2] == ["cache", "warm"]:
        os.environ["KVIK_KV_MEMORY"] = "64MiB"  # of a server that they start
    if arguments[:1] == ["run"]:
        is_chat = not sys.stdin.isatty() and "-p" not in arguments and len([a for a in arguments[1:] if not a.startswith("-")]) == 1
        has_input = not os.path.samestat(os.fstat(0), os.stat("/dev/null"))
        arguments = with_default(arguments, ["-n", "--max-tokens"], "-n", "16")
        if is_chat and not has_input and "--config" not in arguments:
            return chat_in_a_terminal([binary, *arguments])
    if arguments[:1] == ["explain"]:
        arguments = with_default(arguments, ["-n", "--max-tokens"], "-n", "8")
    return subprocess.run([binary, *arguments]).returncode


def curl(arguments):
    port = noted("kvik").get("port")
    if port is None:
        sys.exit("no kvik serve runs")
    arguments = [KVIK_PORT.sub(lambda m: f"{m[0].rpartition(':')[0].replace('10.0.0.1', '127.0.0.1')}:{port}", a) for a in arguments]
    return subprocess.run([os.environ["KVIK_DOCUMENT_CURL"], "-sS", "--fail-with-body", "--max-time", "60", *arguments]).returncode


def redis_server(arguments):
    port = free_port()
    arguments = ["127.0.0.1" if ANY_ADDRESS.match(a) else a for a in arguments]
    start("redis-server", [os.environ["KVIK_DOCUMENT_REDIS"], *arguments, "--port", str(port)], port, lambda: is_listening(port))
    return 0


if __name__ == "__main__":
    called = os.path.basename(sys.argv[0])
    commands = {"kvik": kvik, "curl": curl, "redis-server": redis_server, "stop": lambda names: [stop(n) for n in names] and 0}
    sys.exit(commands.get(called, agent)(sys.argv[1:]))
