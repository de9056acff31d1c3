"""A terminal for typing and reading: a private tmux server on its own socket."""
import os
import pathlib
import subprocess
import tempfile
import time

import kvik

PROMPT = ">>>"
PATIENCE = 60  # timeout in seconds, for a busy machine
# tmux does not always report how its command ended: a pane may be dead without a status. The shell survives a Ctrl-C meant for the command.
KEEP_STATUS = 'trap : INT; "$@"; echo $? > "$0"'


class Terminal:
    """A pane that runs a command, with `home` as the home folder and nothing else of the caller's environment."""

    def __init__(self, home, *command, width=120, height=50, **env):
        self.folder = tempfile.TemporaryDirectory()
        variables = {"HOME": home, "TERM": "tmux-256color", "PATH": os.environ["PATH"], "KVIK_URL": "none", **env}
        # The pane remains after its command has ended.
        self._tmux("-f", os.devnull, "-u", "new-session", "-d", "-x", str(width), "-y", str(height), "sleep", str(10 * PATIENCE))
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("set-option", "-g", "history-limit", "10000")
        self._tmux("respawn-pane", "-k", "env", "-i", *(f"{k}={v}" for k, v in variables.items()),
                   "/bin/sh", "-c", KEEP_STATUS, str(self._status()), *map(str, command))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._tmux("kill-server", check=False)
        self.folder.cleanup()

    def _tmux(self, *args, check=True, stdin=None):
        socket = os.path.join(self.folder.name, "tmux")
        return subprocess.run(["tmux", "-S", socket, *args], check=check, capture_output=True, text=True, input=stdin).stdout

    def type(self, text):
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys):
        """Presses keys by tmux's names: Enter, Left, C-c, M-Enter …"""
        self._tmux("send-keys", *keys)

    def paste(self, text):
        """Pastes like a mouse: bracketed if the program has requested it."""
        self._tmux("load-buffer", "-", stdin=text)
        self._tmux("paste-buffer", "-p")

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, colours=False):
        """Returns the whole scrollback, without trailing blanks."""
        text = self._tmux("capture-pane", "-p", "-S", "-10000", *(["-e"] if colours else []))
        return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))

    def _status(self):
        return pathlib.Path(self.folder.name, "status")

    def exit_code(self):
        """Returns None while the command runs."""
        code = self._status().read_text() if self._status().exists() else ""
        return int(code) if code else None

    def pid(self):
        """Returns the pid of the command."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text())

    def wait(self, condition, what):
        """Waits until `condition` returns a true value, and returns it."""
        deadline = time.monotonic() + PATIENCE
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come; the terminal shows:\n{self.screen()}")
            time.sleep(0.01)
        return value

    def wait_for(self, text):
        self.wait(lambda: text in self.screen(), repr(text))

    def wait_for_line(self, line):
        """Waits until this is the last line."""
        self.wait(lambda: self.screen().split("\n")[-1] == line, f"the line {line!r}")

    def wait_for_end(self):
        return self.wait(lambda: (self.exit_code(),) if self.exit_code() is not None else None, "the end")[0]

    def enter(self, line=""):
        """Types a line and waits until it is processed. Returns the output."""
        self.type(line)
        return self.send(line)

    def send(self, line):
        """Presses Enter after a line that has been typed. Returns the output up to the next prompt."""
        self.wait_for_line(f"{PROMPT} {line}".rstrip())
        before = self.screen()
        self.press("Enter")
        self.wait(lambda: self.screen() != before and self.screen().split("\n")[-1] == PROMPT, f"the prompt after {line!r}")
        return self.screen()[len(before):].removesuffix(PROMPT).strip("\n")


def chat(home, *flags, **options):
    """Starts `kvik run demo`, ready for its first line."""
    terminal = Terminal(home, *kvik.command("run", "demo", *flags), **options)
    terminal.wait_for_line(PROMPT)
    return terminal
