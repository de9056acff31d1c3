"""A hub on loopback that speaks the routes of Hugging Face and of Ollama's registry, and fails in the ways that a test asks for."""
import contextlib
import hashlib
import http.server
import json
import socketserver
import ssl
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Zeros:
    """The bytes `head` and then zeros up to `size`, which take no memory."""

    def __init__(self, head, size):
        self.head, self.size = head, size
        self.digest = sha256(head + size.to_bytes(8, "little"))  # not the hash of the bytes, which are never downloaded as a whole

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        first, end = part.start or 0, self.size if part.stop is None else part.stop
        return self.head[first:end].ljust(end - first, b"\0")


class Faults:
    """Faults of answers with the contents of large files."""

    def __init__(self):
        self.ranges = True        # answers range requests
        self.length = True        # sends Content-Length
        self.statuses = []        # statuses of the next answers, before the first good one
        self.retry_after = None   # seconds, with these statuses
        self.cut_at = None        # bytes after which the next `n_cuts` bodies end
        self.n_cuts = 0
        self.flip = False         # changes the last byte
        self.stalls = 0           # number of bodies that stop after 64 KiB
        self.rate = None          # bytes a second
        self.refused_urls = 0     # number of requests that an address of the second host refuses, as outdated
        self.redirect = None      # address of all redirects


class Request:
    def __init__(self, handler):
        self.path = urllib.parse.unquote(handler.path)
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        self.host = handler.server.server_port


class Hub:
    """`repositories`: {"ORG/REPO": {path: bytes}}. `ollama`: {"library/MODEL:TAG": [(media type, bytes)]}. `files`: {name: bytes}."""

    def __init__(self, repositories=None, ollama=None, files=None, token=None):
        self.repositories, self.ollama, self.files, self.token = repositories or {}, ollama or {}, files or {}, token
        self.faults = Faults()
        self.requests, self.lock = [], threading.Lock()
        self.n_body_bytes = 0  # of large files
        self.model_json = None  # replaces the list of files
        self.status = None  # of all answers of the hub itself
        self.blobs = {}
        for files_of in self.repositories.values():
            for data in files_of.values():
                self.blobs[self.sha(data)] = data
        for layers in self.ollama.values():
            for _, data in layers:
                self.blobs[self.sha(data)] = data

    @staticmethod
    def sha(data):
        return data.digest if isinstance(data, Zeros) else sha256(data)

    @contextlib.contextmanager
    def running(self, certificate=None, is_cdn_encrypted=True):
        """certificate: PEM file of a certificate and its key, for https."""
        servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
        schemes = ["http", "http"]
        for i in range(2 if certificate and is_cdn_encrypted else 1 if certificate else 0):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            servers[i].socket = context.wrap_socket(servers[i].socket, server_side=True)
            schemes[i] = "https"
        for server in servers:
            server.hub = self
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.url, self.cdn = (f"{scheme}://{name}:{s.server_port}" for scheme, name, s in zip(schemes, ("127.0.0.1", "localhost"), servers))
        try:
            yield self
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()

    def of_path(self, part):
        return [r for r in self.requests if part in r.path]

    @staticmethod
    def is_lfs(path):
        return path.endswith((".gguf", ".safetensors", ".bin"))

    def listing(self, repository):
        siblings = []
        for path, data in self.repositories[repository].items():
            file = {"rfilename": path, "size": len(data), "blobId": "f" * 40}
            if self.is_lfs(path):
                file["lfs"] = {"sha256": self.sha(data), "size": len(data), "pointerSize": 130}
            else:
                file["blobId"] = git_id(data)
            siblings.append(file)
        return {"id": repository, "sha": COMMIT, "siblings": siblings}

    def manifest(self, name):
        layers = [{"mediaType": kind, "digest": "sha256:" + self.sha(data), "size": len(data)} for kind, data in self.ollama[name]]
        config = next(l for l in layers if l["mediaType"].endswith("container.image.v1+json"))
        layers.remove(config)
        return {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": layers}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass  # clients leave


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        request = Request(self)
        with hub.lock:
            hub.requests.append(request)
        path = urllib.parse.urlsplit(request.path).path
        parts = path.strip("/").split("/")
        if path.startswith("/cdn/"):
            return self.send_blob(hub.blobs.get(parts[1]))
        if hub.token and request.headers.get("authorization") != f"Bearer {hub.token}":
            return self.send_text(401, b'{"error":"Invalid credentials"}')
        if hub.status:
            return self.send_text(hub.status, b'{"error":"no"}')
        if path.startswith("/api/models/"):
            return self.send_listing("/".join(parts[2:4]))
        if path.startswith("/files/"):
            return self.send_blob(hub.files.get(parts[-1]))
        if path.startswith("/v2/"):
            return self.send_ollama(parts)
        if len(parts) > 4 and parts[2] == "resolve":
            return self.send_file("/".join(parts[:2]), "/".join(parts[4:]))
        return self.send_text(404, b"")

    def send_listing(self, repository):
        hub = self.server.hub
        if hub.model_json is not None:
            return self.send_text(200, hub.model_json)
        if repository not in hub.repositories:
            return self.send_text(404, b'{"error":"Repository not found"}')
        return self.send_text(200, json.dumps(hub.listing(repository)).encode())

    def send_file(self, repository, path):
        hub = self.server.hub
        data = hub.repositories.get(repository, {}).get(path)
        if data is None:
            return self.send_text(404, b"Entry not found")
        commit = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if not hub.is_lfs(path):
            return self.send_text(200, data, ETag=f'"{git_id(data)}"', **commit)
        return self.redirect(hub.sha(data), {"X-Linked-Etag": f'"{hub.sha(data)}"', "X-Linked-Size": str(len(data)), **commit})

    def send_ollama(self, parts):
        hub = self.server.hub
        if parts[3] == "manifests":
            name = f"{parts[1]}/{parts[2]}:{parts[4]}"
            if name not in hub.ollama:
                return self.send_text(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
            return self.send_text(200, json.dumps(hub.manifest(name)).encode())
        return self.redirect(parts[4].removeprefix("sha256:"), {})

    def redirect(self, digest, headers):
        hub = self.server.hub
        return self.send_text(307, b"", Location=hub.faults.redirect or f"{hub.cdn}/cdn/{digest}?signature={len(hub.requests)}", **headers)

    def send_text(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_blob(self, data):
        hub = self.server.hub
        faults = hub.faults
        if data is None:
            return self.send_text(404, b"")
        with hub.lock:
            status = faults.statuses.pop(0) if faults.statuses else None
            outdated = faults.refused_urls > 0 and "signature" in self.path and self.headers.get("Range") != "bytes=0-0"
            faults.refused_urls -= outdated
        if status or outdated:
            retry = {"Retry-After": str(faults.retry_after)} if faults.retry_after is not None else {}
            return self.send_text(status or 403, b"not now", **retry)
        first, end = 0, len(data)
        wanted = self.headers.get("Range") if faults.ranges else None
        if wanted:
            begin, _, last = wanted.removeprefix("bytes=").partition("-")
            first, end = int(begin), min(end, int(last) + 1 if last else end)
            if first >= len(data):
                return self.send_text(416, b"")
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", f'"{hub.sha(data)}"')
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{len(data)}")
        if faults.length:
            self.send_header("Content-Length", str(end - first))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(data, first, end)

    def send_body(self, data, first, end):
        hub = self.server.hub
        faults = hub.faults
        with hub.lock:
            cut = faults.n_cuts > 0 and end - first > 1
            faults.n_cuts -= cut
            stalls = not cut and faults.stalls > 0 and end - first > 1
            faults.stalls -= stalls
        stop = min(end, first + faults.cut_at) if cut else end
        piece = 64 << 10
        for at in range(first, stop, piece):
            bytes_of = data[at:min(stop, at + piece)]
            if faults.flip and at + piece >= len(data):
                bytes_of = bytes_of[:-1] + bytes([bytes_of[-1] ^ 1])
            self.wfile.write(bytes_of)
            with hub.lock:
                hub.n_body_bytes += len(bytes_of)
            if faults.rate:
                time.sleep(len(bytes_of) / faults.rate)
            if stalls:
                time.sleep(30)
        if cut:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
