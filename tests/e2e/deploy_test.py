"""Tests the files of deploy/: systemd units, the default configuration, dashboard and alerts, the Kubernetes folder, the Dockerfile."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import kvik
from server import Server

DEPLOY = os.path.join(kvik.ROOT, "deploy")
WORKLOADS = {"StatefulSet", "Deployment"}


def read(*path):
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as f:
        return f.read()


def documented_metrics():
    with open(os.path.join(kvik.ROOT, "docs/reference/metrics.md"), encoding="utf-8") as f:
        return dict(re.findall(r"^\| `(kvik_\w+)` \|.*?\| (counter|gauge|histogram) \|", f.read(), re.M))


class Systemd(unittest.TestCase):
    def units(self):
        """Copies the units to a folder, with the built program instead of the installed one."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for name in ("kvik.service", "kvik.socket"):
            text = read("systemd", name).replace("/usr/bin/kvik", os.path.abspath(kvik.BINARY))
            with open(os.path.join(folder, name), "w") as f:
                f.write(re.sub(r"(?m)^Documentation=.*\n", "", text))  # systemd-analyze asks `man` for the page
        return folder

    def analyze(self, *args):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True)

    def test_the_units_are_valid(self):
        folder = self.units()
        done = self.analyze("verify", f"{folder}/kvik.service", f"{folder}/kvik.socket")
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "kvik" in line]
        self.assertEqual(ours, [])

    def test_the_exposure_is_at_most_3(self):
        done = self.analyze("security", "--offline=yes", f"{self.units()}/kvik.service")
        exposure = float(re.search(r"Overall exposure level for kvik.service: ([\d.]+)", done.stdout)[1])
        self.assertLessEqual(exposure, 3.0)

    def test_the_configuration_is_read_and_its_comments_are_flags(self):
        text = read("kvik.toml")
        served = kvik.run("serve", "--help").stdout.decode()
        keys = re.findall(r"(?m)^(?:# )?([a-z-]+) = ", text)
        self.assertIn("api-key-file", keys)
        for key in keys:
            self.assertRegex(served, rf"--{key}\b")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kvik.toml")
            with open(path, "w") as f:
                f.write(text.replace("/var/lib/kvik", folder))
            with Server("demo", "--config", path, "--kv-memory", "64MiB") as server:
                self.assertTrue(server.text("ROMEO:"))
            self.assertTrue(os.path.isdir(os.path.join(folder, "pages")))


class Monitoring(unittest.TestCase):
    def check(self, expression):
        """Each metric of the expression is documented; histograms are used by their parts, and only counters by rate()."""
        known = documented_metrics()
        self.assertGreater(len(known), 40)
        names = re.findall(r"\bkvik_\w+", expression)
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            kind = known.get(name) or known.get(base)
            self.assertIsNotNone(kind, name)
            self.assertEqual(kind == "histogram", name != base and name not in known, name)
        for name in re.findall(r"rate\((\w+)", expression):
            self.assertIn(known.get(re.sub(r"_bucket$", "", name), ""), ("counter", "histogram"), name)
        return names

    def test_alerts_use_documented_metrics(self):
        rules = yaml.safe_load(read("prometheus/alerts.yaml"))["groups"][0]["rules"]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            with self.subTest(rule["alert"]):
                self.assertTrue(self.check(rule["expr"]) or rule["alert"] == "KvikDown")
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertIn("$labels.instance", rule["annotations"]["summary"])

    def test_promtool_accepts_the_alerts(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed")
        done = subprocess.run(["promtool", "check", "rules", os.path.join(DEPLOY, "prometheus/alerts.yaml")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_dashboard_uses_documented_metrics(self):
        dashboard = json.loads(read("grafana/kvik.json"))
        places = set()
        for panel in dashboard["panels"]:
            with self.subTest(panel["title"]):
                place = panel["gridPos"]
                self.assertNotIn((place["x"], place["y"]), places)
                places.add((place["x"], place["y"]))
                for target in panel["targets"]:
                    self.assertTrue(self.check(target["expr"]))
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.kustomization = yaml.safe_load(read("kubernetes/kustomization.yaml"))
        self.objects = {}
        for name in self.kustomization["resources"]:
            for document in yaml.safe_load_all(read("kubernetes", name)):
                self.objects[document["kind"], document["metadata"]["name"]] = document

    def pods(self):
        return {name: o["spec"]["template"] for (kind, name), o in self.objects.items() if kind in WORKLOADS}

    def test_all_files_are_used(self):
        used = {*self.kustomization["resources"], "kustomization.yaml"}
        for generator in (*self.kustomization["configMapGenerator"], *self.kustomization["secretGenerator"]):
            used |= set(generator["files"])
        self.assertEqual(used, set(os.listdir(os.path.join(DEPLOY, "kubernetes"))))

    def test_references_are_to_objects_of_the_folder(self):
        generated = {g["name"] for g in (*self.kustomization["configMapGenerator"], *self.kustomization["secretGenerator"])}
        claims = {c["metadata"]["name"] for c in self.objects["StatefulSet", "kvik"]["spec"]["volumeClaimTemplates"]}
        for name, pod in self.pods().items():
            volumes = {v["name"] for v in pod["spec"]["volumes"]} | (claims if name == "kvik" else set())
            for volume in pod["spec"]["volumes"]:
                if "configMap" in volume:
                    self.assertIn(volume["configMap"]["name"], generated)
                if "secret" in volume:
                    self.assertIn(volume["secret"]["secretName"], generated)
            for container in pod["spec"]["containers"]:
                ports = {p["name"] for p in container["ports"]}
                self.assertLessEqual({m["name"] for m in container["volumeMounts"]}, volumes)
                for probe in (v for k, v in container.items() if k.endswith("Probe")):
                    self.assertIn(probe["httpGet"]["port"], ports)
        labels = [pod["metadata"]["labels"] for pod in self.pods().values()]
        for (kind, name), o in self.objects.items():
            if kind == "Service":
                self.assertIn(o["spec"]["selector"], labels, name)
        self.assertIn(("Service", self.objects["StatefulSet", "kvik"]["spec"]["serviceName"]), self.objects)
        target = self.objects["HorizontalPodAutoscaler", "kvik"]["spec"]["scaleTargetRef"]
        self.assertIn((target["kind"], target["name"]), self.objects)
        metric = self.objects["HorizontalPodAutoscaler", "kvik"]["spec"]["metrics"][0]["pods"]["metric"]["name"]
        self.assertEqual(documented_metrics()[metric], "gauge")

    def test_pods_run_without_privileges(self):
        for name, pod in self.pods().items():
            self.assertTrue(pod["spec"]["securityContext"]["runAsNonRoot"], name)
            for container in pod["spec"]["containers"]:
                self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])

    def test_the_server_starts_with_the_configuration_of_the_pods(self):
        pod = self.pods()["kvik"]["spec"]["containers"][0]
        probes = [pod[p]["httpGet"]["path"] for p in ("startupProbe", "livenessProbe", "readinessProbe")]
        with tempfile.TemporaryDirectory() as folder:
            keys, config = os.path.join(folder, "keys.txt"), os.path.join(folder, "kvik.toml")
            shutil.copy(os.path.join(DEPLOY, "kubernetes/keys.txt"), keys)
            with open(config, "w") as f:
                f.write(read("kubernetes/kvik.toml").replace("/etc/kvik-keys/keys.txt", keys).replace("/var/lib/kvik", folder))
            variables = {v["name"]: v["value"] for v in pod["env"]}
            with Server("demo", "--config", config, "--kv-memory", "64MiB", "--host", "127.0.0.1", env=variables) as server:
                for path in probes:
                    self.assertEqual(server.get(path, headers={"Host": "10.0.0.7:8080"}).status, 200, path)
                operator = self.objects["Secret", "kvik-metrics"]["stringData"]["key"]
                self.assertIn(b"kvik_requests_waiting", server.get("/metrics", headers={"Authorization": f"Bearer {operator}"}).body)
                self.assertEqual(server.get("/metrics").status, 401)

    def test_haproxy_accepts_the_gateway(self):
        if not shutil.which("haproxy"):
            self.skipTest("haproxy is not installed")
        done = subprocess.run(["haproxy", "-c", "-f", os.path.join(DEPLOY, "kubernetes/haproxy.cfg")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_kustomize_renders_the_folder(self):
        if not shutil.which("kubectl"):
            self.skipTest("kubectl is not installed")
        done = subprocess.run(["kubectl", "kustomize", os.path.join(DEPLOY, "kubernetes")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rendered = list(yaml.safe_load_all(done.stdout))
        self.assertEqual(len(rendered), len(self.objects) + 3)  # two config maps and a secret
        for o in rendered:
            self.assertEqual(o["metadata"].get("namespace", "kvik"), "kvik")
        [pod] = [o for o in rendered if o["kind"] == "StatefulSet"]
        self.assertEqual(pod["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/kvik:0.1.0")

    def test_the_schemas_of_kubernetes_accept_the_folder(self):
        """With kubernetes-validate of PyPI, which has the schemas; --long installs it."""
        if not kvik.LONG:
            self.skipTest("--long")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
            subprocess.run(["/usr/bin/python3", "-m", "pip", "--python", folder, "install", "--quiet", "--disable-pip-version-check", "kubernetes-validate"],
                           check=True, capture_output=True)
            names = [os.path.join(DEPLOY, "kubernetes", name) for name in self.kustomization["resources"]]
            done = subprocess.run([f"{folder}/bin/kubernetes-validate", "--strict", *names], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            output = done.stdout + done.stderr
            self.assertEqual(output.count(" passed for resource "), len(self.objects) - 1, output)  # it has no schema of ServiceMonitor
            broken = os.path.join(folder, "broken.yaml")
            with open(broken, "w") as f:
                f.write(read("kubernetes/statefulset.yaml").replace("replicas: 2", "replicas: two"))
            self.assertNotEqual(subprocess.run([f"{folder}/bin/kubernetes-validate", "--strict", broken], capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
