"""Runs a command under the restrictions of a systemd unit, without systemd: user, capabilities, file system, system calls.

The system calls of SystemCallFilter= are asked of `systemd-analyze syscall-filter`.
"""
import ctypes
import os
import re
import subprocess

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
ARCH_X86_64 = 0xC000003E
ALLOW, ERRNO_EPERM = 0x7FFF0000, 0x00050001
UNDERSTOOD = {"@system-service", "~@privileged"}


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jump_true", ctypes.c_ubyte), ("jump_false", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]


def settings(unit):
    """Returns [(key, value)] of the [Service] section."""
    with open(unit) as f:
        section = f.read().split("[Service]\n")[1].split("\n[")[0]
    return re.findall(r"(?m)^(\w+)=(.*)$", section)


def calls_of(group):
    """Returns the names of the system calls of a group such as @system-service."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True).stdout
    names = set()
    for word in re.findall(r"(?m)^    (@?[a-z_0-9-]+)", text):
        names |= calls_of(word) if word.startswith("@") else {word}
    return names


def call_numbers():
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h") as f:
        return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", f.read())}


def seccomp_program(filters):
    allowed = set()
    for value in filters:
        assert value in UNDERSTOOD, value
        allowed = allowed - calls_of(value[1:]) if value.startswith("~") else allowed | calls_of(value)
    numbers = call_numbers()
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, ARCH_X86_64), (0x06, 0, 0, ERRNO_EPERM), (0x20, 0, 0, 0)]
    for name in sorted(allowed & numbers.keys()):
        code += [(0x15, 0, 1, numbers[name]), (0x06, 0, 0, ALLOW)]
    return [*code, (0x06, 0, 0, ERRNO_EPERM)]


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags):
    checked(LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, None))


def restrictions(unit, root, user, group):
    """Returns a function that restricts the calling process as the unit says, with `root` as its root folder: for preexec_fn. Reads everything that
    it needs at once, because the restricted process cannot."""
    found = dict(settings(unit))
    assert found["ProtectSystem"] == "strict" and found["CapabilityBoundingSet"] == "" and found["NoNewPrivileges"] == "yes", found
    code = seccomp_program([value for key, value in settings(unit) if key == "SystemCallFilter"])
    instructions = (Instruction * len(code))(*code)
    filters = Program(len(code), instructions)
    state = os.path.join(root, "var/lib", found["StateDirectory"])

    def restrict():
        checked(LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC))
        mount("none", "/", "none", MS_REC | MS_PRIVATE)
        mount(root, root, "none", MS_BIND | MS_REC)
        mount("proc", os.path.join(root, "proc"), "proc", MS_NOSUID | MS_NODEV)
        mount(state, state, "none", MS_BIND)
        mount("none", root, "none", MS_REMOUNT | MS_BIND | MS_RDONLY)
        mount("tmpfs", os.path.join(root, "tmp"), "tmpfs", MS_NOSUID | MS_NODEV)
        os.chroot(root)
        os.chdir("/var/lib/" + found["StateDirectory"])
        os.umask(int(found["UMask"], 8))
        for capability in range(41):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        checked(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(filters), 0, 0))

    return restrict
