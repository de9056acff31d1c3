#!/usr/bin/python3
"""Measures prompts whose pages a slow tier has: computing alone, reading alone, and both at once, by the tier's rate.

    sudo unshare --net tools/measure/load_while_computing.py KVIK MODEL [--rates 16,64,256] [--disk-rates 2,8,32] [--tokens 2048] [--kv-type int8]
                                                                        [--samples 3] [--folder /var/tmp] [--flags="--threads 2"]

--rates: of Redis, in Mbit/s. The loopback of the network namespace is slowed down by `tc qdisc … tbf`. --disk-rates: of the disk, in MB/s. A control group
slows down its reads (blkio or io controller). One server computes the prompts and fills the tier at full speed. For each rate a server that was just started
gets a prompt that nobody computed, to learn the cost of computing, and one that the tier has, to learn its speed; these do not count. Then it gets the
samples, and the samples again, which are in memory then. Reading alone is the bytes of the samples' pages divided by the rate, plus the TTFT from memory.
"""
import argparse
import os
import shlex
import statistics
import subprocess
import tempfile

from fleet import Redis
from tier_ttft import Run, Server


class SlowNetwork:
    unit, bytes_per_unit = "Mbit/s", 125_000

    def __init__(self, folder):
        subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "up"], check=True)  # tbf delays packets larger than its burst
        self.redis = Redis(folder, is_tcp=True)
        self.flags = ("--redis", self.redis.url)

    def set_rate(self, rate):
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], stderr=subprocess.DEVNULL, check=False)
        if rate:
            subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", f"{rate}mbit", "burst", "128kb", "latency", "400ms"], check=True)

    def slow_down(self, process):
        pass

    def stop(self):
        self.redis.stop()


class SlowDisk:
    unit, bytes_per_unit = "MB/s", 1_000_000

    def __init__(self, folder):
        self.flags = ("--disk", os.path.join(folder, "pages"))
        device = os.stat(folder).st_dev
        self.device = f"{os.major(device)}:{os.minor(device)}"
        self.is_v1 = os.path.isdir("/sys/fs/cgroup/blkio")
        self.group = os.path.join("/sys/fs/cgroup/blkio" if self.is_v1 else "/sys/fs/cgroup", f"kvik-slow-disk-{os.getpid()}")
        os.mkdir(self.group)

    def set_rate(self, rate):
        n = rate * self.bytes_per_unit if rate else None
        name, text = ("blkio.throttle.read_bps_device", f"{n or 0}") if self.is_v1 else ("io.max", f"rbps={n or 'max'}")
        with open(os.path.join(self.group, name), "w") as f:
            f.write(f"{self.device} {text}")

    def slow_down(self, process):
        with open(os.path.join(self.group, "cgroup.procs"), "w") as f:
            f.write(str(process.pid))

    def stop(self):
        os.rmdir(self.group)


def measure(args, run, tier, rates):
    flags = (*tier.flags, *shlex.split(args.flags))
    server = Server(args, flags)
    server.ask(run.prompts(1)[0], 2)
    prompts = run.prompts((args.samples + 1) * len(rates))
    computed = [server.ask(tokens) for tokens in prompts]
    server.wait_until_written()
    n_bytes = server.metric("kvik_tier_bytes_total", direction="written") / (len(prompts) + 1)
    server.stop()
    alone = statistics.median(ttft for ttft, _, _, _ in computed)
    print(f"computing alone {alone:.0f} ms; {n_bytes / 1e6:.2f} MB a prompt", flush=True)
    for i, rate in enumerate(rates):
        tier.set_rate(rate)
        server = Server(args, flags)
        tier.slow_down(server.process)
        first = i * (args.samples + 1)
        server.ask(run.prompts(1)[0])
        server.ask(prompts[first])
        of_rate = slice(first + 1, first + 1 + args.samples)
        both = [server.ask(tokens) for tokens in prompts[of_rate]]
        from_memory = statistics.median(server.ask(tokens)[0] for tokens in prompts[of_rate])
        same = [one[3] for one in computed[of_rate]] == [one[3] for one in both]
        server.stop()
        tier.set_rate(None)
        reading = n_bytes / (rate * tier.bytes_per_unit) * 1e3 + from_memory
        median = statistics.median(ttft for ttft, _, _, _ in both)
        print(f"{rate:4} {tier.unit}: reading alone {reading:.0f} ms, both {' '.join(f'{ttft:.0f}' for ttft, _, _, _ in both)} ms, median {median / min(alone, reading):.2f} "
              f"of the better, {[cached for _, _, cached, _ in both]} cached; {'the same answers' if same else 'OTHER ANSWERS'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--rates", default="16,64,256", help="Mbit/s")
    parser.add_argument("--disk-rates", default="2,8,32", help="MB/s")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--kv-type", default="int8")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--folder", help="a folder on a disk, for its pages")
    parser.add_argument("--flags", default="", help="further flags of the server")
    args = parser.parse_args()
    run = Run(args)
    for tier, rates in ((SlowNetwork, args.rates), (SlowDisk, args.disk_rates)):
        if not rates:
            continue
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            slow = tier(folder)
            try:
                measure(args, run, slow, [int(rate) for rate in rates.split(",")])
            finally:
                slow.stop()


if __name__ == "__main__":
    main()
