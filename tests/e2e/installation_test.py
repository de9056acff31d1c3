"""Installs the packages of tools/package.sh in minimal folders of other distributions, as a user would, and removes them (--long, as root).

debootstrap makes the folders once, in ~/.cache/kvik/roots.
"""
import hashlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import kvik
import package_test
import unit_sandbox
from server import Server, free_port

ROOTS = os.path.expanduser("~/.cache/kvik/roots")
PACKAGES = os.path.join(package_test.BUILD, "packages")
VERSION = package_test.VERSION
MIRROR = ("http://deb.debian.org/debian",)
# debootstrap of Debian 12 does not know this suite, and Debian has no package of Ubuntu's keys; apt in the folder has them.
UBUNTU = ("http://archive.ubuntu.com/ubuntu", "gutsy")
# Packages in addition to the smallest set; the name of a folder begins with that of the suite.
INCLUDED = {"bookworm": "man-db", "bookworm-systemd": "systemd,systemd-sysv,dbus,curl", "trixie": "man-db", "bullseye": "ca-certificates", "noble": "man-db"}
FIRST_TOKEN_S = 60


def setUpModule():
    if not kvik.LONG:
        raise unittest.SkipTest("--long")
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        raise unittest.SkipTest("needs root and debootstrap")
    if not os.path.exists(os.path.join(PACKAGES, f"kvik-{VERSION}.sha256")):
        subprocess.run([os.path.join(kvik.ROOT, "tools/package.sh")], check=True, capture_output=True)


def root_of(suite):
    """Returns a folder with a minimal Debian or Ubuntu."""
    path = os.path.join(ROOTS, suite)
    if not os.path.exists(path):
        os.makedirs(ROOTS, exist_ok=True)
        unfinished = f"{path}.{os.getpid()}"
        source, options = (UBUNTU, ["--no-check-gpg"]) if suite == "noble" else (MIRROR, [])
        done = subprocess.run(["debootstrap", *options, "--variant=minbase", f"--include={INCLUDED[suite]}", suite.split("-")[0], unfinished, *source],
                              capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise unittest.SkipTest(f"debootstrap {suite}: {done.stdout[-300:]}")
        os.rename(unfinished, path)
    return path


def files_of(root):
    return {os.path.relpath(os.path.join(folder, name), root) for folder, folders, names in os.walk(root) for name in (*folders, *names)}


class Root:
    """with Root("bookworm") as root: …"""

    def __init__(self, suite):
        self.folder = tempfile.mkdtemp(prefix=f"kvik-{suite}-")
        subprocess.run(["cp", "-a", root_of(suite) + "/.", self.folder], check=True)
        os.chmod(self.folder, 0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)

    def run(self, *command, check=True, **variables):
        done = subprocess.run(["/usr/sbin/chroot", self.folder, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **variables})
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def put(self, path, into="root"):
        shutil.copy(path, os.path.join(self.folder, into))
        return f"/{into}/{os.path.basename(path)}"

    def has(self, path):
        return os.path.exists(os.path.join(self.folder, path))


class DebianPackage(unittest.TestCase):
    def check(self, suite):
        with Root(suite) as root:
            package = root.put(os.path.join(PACKAGES, f"kvik_{VERSION}_amd64.deb"))
            before = files_of(root.folder)
            begin = time.monotonic()
            root.run("apt-get", "install", "-y", "--no-install-recommends", package)
            output = root.run("kvik", *package_test.RUN).stdout
            first_token_s = time.monotonic() - begin
            self.assertLess(first_token_s, FIRST_TOKEN_S)
            print(f"{suite}: first token {first_token_s:.1f} s after `apt install` began", flush=True)
            self.assertEqual(output, package_test.output(kvik.BINARY, *package_test.RUN))
            self.assertIn("--kv-memory", root.run("man", "kvik-serve").stdout)
            self.assertIn("KVIK(1)", root.run("man", "kvik").stdout)
            # In the bash of this machine: without /proc there is no process substitution.
            completions = 'COMP_WORDS=(kvik ser); COMP_CWORD=1; . "$0"; _kvik; echo $COMPREPLY'
            installed = os.path.join(root.folder, "usr/share/bash-completion/completions/kvik")
            self.assertEqual(package_test.output("bash", "-c", completions, installed).strip(), "serve")
            for path in ("usr/share/zsh/vendor-completions/_kvik", "usr/share/fish/vendor_completions.d/kvik.fish", "usr/share/kvik/kvik.json",
                         "usr/share/kvik/alerts.yaml", "usr/share/doc/kvik/copyright"):
                self.assertTrue(root.has(path), path)
            self.serve(root)
            # An upgrade keeps a changed configuration.
            config = os.path.join(root.folder, "etc/kvik/kvik.toml")
            with open(config, "a") as f:
                f.write("# changed\n")
            root.run("apt-get", "install", "-y", "--no-install-recommends", "--reinstall", package)
            with open(config) as f:
                self.assertTrue(f.read().endswith("# changed\n"))
            root.run("apt-get", "remove", "-y", "kvik")
            left = self.left(root, before)
            self.assertEqual({path for path in left if not path.startswith("var/lib/kvik/")}, {"etc/kvik", "etc/kvik/kvik.toml", "var/lib/kvik"})
            self.assertIn("var/lib/kvik/pages", left)
            root.run("apt-get", "purge", "-y", "kvik")
            self.assertEqual(self.left(root, before), set())
            self.assertEqual(root.run("getent", "passwd", "kvik", check=False).stdout, "")

    def left(self, root, before):
        """Returns the new files, except those of apt, dpkg and man themselves."""
        return {path for path in files_of(root.folder) - before
                if not re.match(r"var/(cache|log)/|var/lib/(dpkg|apt|systemd)/|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|(dev|proc|run|tmp)/", path)}

    def serve(self, root):
        """Starts the unit's command under the unit's restrictions, twice: the second start has a warm cache."""
        unit = os.path.join(root.folder, "usr/lib/systemd/system/kvik.service")
        values = dict(unit_sandbox.settings(unit))
        uid, gid = map(int, root.run("getent", "passwd", values["User"]).stdout.split(":")[2:4])
        port = free_port()
        config = os.path.join(root.folder, "etc/kvik/kvik.toml")
        with open(config) as f:
            text = f.read()
        with open(config, "w") as f:
            f.write(text.replace("port = 8080", f"port = {port}") + 'kv-memory = "64MiB"\n')
        restrict = unit_sandbox.restrictions(unit, root.folder, uid, gid)
        cached = []
        for _ in range(2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified, tempfile.TemporaryFile() as log:
                name = f"kvik-test-{os.getpid()}-{port}"
                notified.bind("\0" + name)
                notified.settimeout(60)
                process = subprocess.Popen(shlex.split(values["ExecStart"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=restrict,
                                           env={"NOTIFY_SOCKET": "@" + name, "WATCHDOG_USEC": "2000000"})
                try:
                    while b"READY=1" not in notified.recv(4096).split(b"\n"):
                        pass
                    with open(f"/proc/{process.pid}/status") as f:
                        status = f.read()
                    self.assertRegex(status, r"Seccomp:\s+2")
                    self.assertRegex(status, r"NoNewPrivs:\s+1")
                    self.assertRegex(status, r"CapBnd:\s+0+\n")
                    self.assertRegex(status, rf"Uid:\s+{uid}\s+{uid}")
                    client = Server.__new__(Server)
                    client.port = port
                    answer = client.complete("ROMEO: " + "But soft, what light through yonder window breaks? " * 10)
                    cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
                    while b"WATCHDOG=1" not in notified.recv(4096):
                        pass
                    process.terminate()
                    self.assertEqual(process.wait(60), 0)
                finally:
                    process.kill()
                    process.wait()
                    log.seek(0)
                    output = log.read().decode()
                self.assertNotIn("[warning]", output)
                self.assertNotIn("[error]", output)
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 50)
        with open(config, "w") as f:
            f.write(text)

    def test_on_debian_12(self):
        self.check("bookworm")

    def test_on_debian_13(self):
        self.check("trixie")

    def test_on_ubuntu_24_04(self):
        self.check("noble")


# Runs in the container, as a unit of its own. Each line of the report is NAME=VALUE.
SYSTEMD_SCRIPT = """#!/bin/bash
exec >/srv/report 2>&1
ask() {
  curl -s --max-time 60 -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/completions \
    -d "{\\"prompt\\": \\"ROMEO: $(printf 'But soft, what light through yonder window breaks? %.0s' {1..10})\\", \\"max_tokens\\": 5}" |
    sed 's/.*"cached_tokens": *\\([0-9]*\\).*/\\1/'
}
property() { systemctl show kvik.service --property "$1" --value; }
systemctl start kvik.service
echo "started=$?"
echo "state=$(property ActiveState) status=$(property StatusText)"
echo "user=$(stat -c %U "/proc/$(property MainPID)")"
echo "exposure=$(systemd-analyze security kvik.service | sed -n 's/.*exposure level for kvik.service: \\([0-9.]*\\).*/\\1/p')"
echo "cold=$(ask)"
sleep 1  # the pages are written
pid=$(property MainPID)
kill -STOP "$pid"
for ((i = 0; i < 100; i++)); do
  sleep 0.2
  if [[ $(property NRestarts) == 1 && $(property ActiveState) == active ]]; then break; fi
done
echo "restarts=$(property NRestarts) state_after=$(property ActiveState) is_new=$([[ $(property MainPID) != "$pid" ]] && echo yes)"
echo "warm=$(ask)"
systemctl restart kvik.service
echo "restarted=$? warm_again=$(ask)"
systemctl stop kvik.service
echo "stopped=$? result=$(property Result) code=$(property ExecMainStatus)"
systemctl start kvik.socket
echo "before=$(property ActiveState)"
echo "on_demand=$(ask) after=$(property ActiveState)"
journalctl -u kvik.service --no-pager >/srv/journal
systemctl poweroff
"""


class Systemd(unittest.TestCase):
    def test_the_service_in_a_container_that_systemd_boots(self):
        if not shutil.which("systemd-nspawn"):
            self.skipTest("systemd-nspawn is not installed")
        with Root("bookworm-systemd") as root:
            root.run("apt-get", "install", "-y", "--no-install-recommends", root.put(os.path.join(PACKAGES, f"kvik_{VERSION}_amd64.deb")))

            def write(path, text):
                path = os.path.join(root.folder, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as f:
                    f.write(text)
            write("etc/systemd/system/kvik.service.d/test.conf", "[Service]\nWatchdogSec=2s\nRestartSec=100ms\n")
            write("usr/local/bin/test-kvik", SYSTEMD_SCRIPT)
            write("etc/systemd/system/test-kvik.service", "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\n"
                  "ExecStart=/bin/bash /usr/local/bin/test-kvik\n[Install]\nWantedBy=default.target\n")
            root.run("systemctl", "enable", "test-kvik.service")
            try:
                booted = subprocess.run(["systemd-nspawn", "--quiet", "--directory", root.folder, "--boot", "--register=no", "--keep-unit", "--private-network"],
                                        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
                output = booted.stdout + booted.stderr
            except subprocess.TimeoutExpired as late:
                output = str(late.stdout)
            if not root.has("srv/report"):
                self.skipTest(f"the container did not boot: {output[-500:]}")
            report = package_test.contents(os.path.join(root.folder, "srv/report")).decode()
            print(report, flush=True)
            found = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", report, re.M))
            self.assertEqual((found["started"], found["state"], found["user"]), ("0", "active", "kvik"))
            self.assertEqual(found["status"], "serving demo on http://127.0.0.1:8080")
            self.assertLessEqual(float(found["exposure"]), 3.0)
            self.assertEqual((found["restarts"], found["state_after"], found["is_new"]), ("1", "active", "yes"))  # by the watchdog
            self.assertEqual(found["cold"], "0")
            self.assertGreater(int(found["warm"]), 50)
            self.assertGreater(int(found["warm_again"]), 50)
            self.assertEqual((found["restarted"], found["stopped"], found["result"], found["code"]), ("0", "0", "success", "0"))
            self.assertEqual((found["before"], found["after"]), ("inactive", "active"))
            self.assertGreater(int(found["on_demand"]), 50)  # the first client waits for the model, and has its cache
            journal = package_test.contents(os.path.join(root.folder, "srv/journal")).decode()
            self.assertIn("Watchdog timeout", journal)


class Tarball(unittest.TestCase):
    def test_on_debian_11_without_installing_anything(self):
        with Root("bullseye") as root:
            tarball = root.put(os.path.join(PACKAGES, f"kvik-{VERSION}-linux-x86_64.tar.gz"))
            begin = time.monotonic()
            root.run("tar", "-xzf", tarball, "-C", "/opt")
            program = f"/opt/kvik-{VERSION}-linux-x86_64/bin/kvik"
            output = root.run(program, *package_test.RUN).stdout
            print(f"bullseye: first token {time.monotonic() - begin:.1f} s after `tar` began", flush=True)
            self.assertEqual(output, package_test.output(kvik.BINARY, *package_test.RUN))
            self.assertIn("2.31", root.run("ldd", "--version").stdout)
            refused = root.run(program, "serve", "demo", "--ctx", "many", check=False)  # an exception of a library
            self.assertEqual(refused.returncode, 2)

    def test_the_deb_installs_on_debian_11(self):
        with Root("bullseye") as root:
            root.run("apt-get", "install", "-y", "--no-install-recommends", root.put(os.path.join(PACKAGES, f"kvik_{VERSION}_amd64.deb")))
            self.assertEqual(root.run("kvik", *package_test.RUN).stdout, package_test.output(kvik.BINARY, *package_test.RUN))

    def test_the_checksums_are_those_of_the_files(self):
        with open(os.path.join(PACKAGES, f"kvik-{VERSION}.sha256")) as f:
            listed = dict(reversed(line.split()) for line in f)
        self.assertEqual(set(listed), set(os.listdir(PACKAGES)) - {f"kvik-{VERSION}.sha256"})
        for name, digest in listed.items():
            self.assertEqual(hashlib.sha256(package_test.contents(os.path.join(PACKAGES, name))).hexdigest(), digest)


class InstallScript(unittest.TestCase):
    def test_it_installs_by_apt_and_to_a_folder(self):
        releases = package_test.Releases()
        self.addCleanup(releases.server_close)
        self.addCleanup(releases.shutdown)
        releases.files = {f"/{VERSION}/{name}": package_test.contents(os.path.join(PACKAGES, name)) for name in os.listdir(PACKAGES)}
        releases.files["/latest"] = VERSION.encode()
        with Root("bookworm-systemd") as root:
            script = root.put(os.path.join(kvik.ROOT, "deploy/install.sh"))
            expected = package_test.output(kvik.BINARY, *package_test.RUN)
            for arguments, program in ((("--apt",), "/usr/bin/kvik"), (("--prefix", "/opt/kvik"), "/opt/kvik/bin/kvik")):
                root.run("sh", script, *arguments, KVIK_BASE_URL=releases.address)
                self.assertEqual(root.run(program, *package_test.RUN).stdout, expected)
            root.run("sh", script, "--uninstall", "--prefix", "/opt/kvik")
            self.assertEqual([name for _, _, names in os.walk(os.path.join(root.folder, "opt/kvik")) for name in names], [])


class Dockerfile(unittest.TestCase):
    """No Docker engine runs the tests: the instructions are carried out in a folder with Debian 12."""

    def instructions(self):
        with open(os.path.join(kvik.ROOT, "deploy/docker/Dockerfile")) as f:
            text = re.sub(r"(?m)^#.*\n", "", f.read()).replace("\\\n", " ")
        return [line.split(" ", 1) for line in text.splitlines() if line.strip()]

    def test_the_image_serves_as_its_user_and_is_healthy(self):
        instructions = self.instructions()
        last = {name: rest for name, rest in instructions}
        self.assertEqual(last["FROM"], "debian:12-slim")
        with Root("bookworm") as root:
            tarball = f"kvik-{VERSION}-linux-x86_64.tar.gz"
            variables = {}
            for name, rest in instructions:
                if name == "RUN":
                    root.run("sh", "-c", rest)
                elif name == "ADD":  # of a local tarball: unpacks it
                    source, target = rest.replace("${TARBALL}", tarball).split()
                    root.run("tar", "-xzf", root.put(os.path.join(PACKAGES, source)), "-C", target)
                elif name == "ENV":
                    variables |= dict(word.split("=", 1) for word in rest.split())
                else:
                    self.assertIn(name, ("FROM", "ARG", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"))
            variables["KVIK_PORT"] = str(free_port())
            command = [*eval(last["ENTRYPOINT"]), *eval(last["CMD"]), "--kv-memory", "64MiB"]
            inside = ["/usr/sbin/chroot", "--userspec", last["USER"], root.folder]
            environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
            refused = subprocess.run([*inside, *command], env=environment, capture_output=True, text=True)
            self.assertEqual(refused.returncode, 2)  # 0.0.0.0 without keys
            self.assertIn("--api-key", refused.stderr)
            health = eval(last["HEALTHCHECK"].split("CMD ")[1])
            self.assertNotEqual(subprocess.run([*inside, *health], env=environment, capture_output=True).returncode, 0)
            server = subprocess.Popen([*inside, *command, "--api-key", "key"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                end = time.monotonic() + 60
                while (code := subprocess.run([*inside, *health], env=environment, capture_output=True).returncode) != 0 and time.monotonic() < end:
                    time.sleep(0.2)
                self.assertEqual(code, 0)
                self.assertTrue(root.has("var/lib/kvik/pages"))
                server.terminate()
                self.assertEqual(server.wait(30), 0)
            finally:
                server.kill()
                server.communicate()


if __name__ == "__main__":
    unittest.main()
