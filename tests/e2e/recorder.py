"""A proxy that records requests and their answers, and may change the requests."""
import http.client
import http.server
import threading
import time

HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class Exchange:
    def __init__(self, method, path, body):
        self.method, self.path, self.body = method, path, body
        self.status, self.answer = 0, b""
        self.begun, self.ended = time.monotonic(), None

    def __repr__(self):
        return f"{self.method} {self.path} → {self.status}"


class Recorder:
    """with Recorder(server.port) as recorder: … recorder.port … recorder.exchanges

    change: function(path, body) → body as it is sent on, and recorded."""

    def __init__(self, target_port, change=lambda path, body: body):
        self.exchanges = []
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                body = change(self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))))
                exchange = Exchange(self.command, self.path, body)
                recorder.exchanges.append(exchange)
                upstream = http.client.HTTPConnection("127.0.0.1", target_port, timeout=300)
                try:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP | {"host"}}
                    upstream.request(self.command, self.path, body or None, headers | {"Host": f"127.0.0.1:{target_port}"})
                    answer = upstream.getresponse()
                    exchange.status = answer.status
                    self.send_response_only(answer.status)
                    for name, value in answer.getheaders():
                        if name.lower() not in HOP_BY_HOP:
                            self.send_header(name, value)
                    self.send_header("Connection", "close")
                    self.end_headers()
                    while piece := answer.read1(65536):
                        exchange.answer += piece
                        self.wfile.write(piece)
                        self.wfile.flush()
                except OSError:
                    pass  # one side disconnected; the record holds what was transferred
                finally:
                    exchange.ended = time.monotonic()
                    upstream.close()
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = do_HEAD = do_OPTIONS = do_PUT = pass_on

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
