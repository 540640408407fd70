"""What runs in the sandboxes of the browser tests: a page with a secret, a script of a service worker that wants the whole
origin, and a note of every request."""

import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        with open("/tmp/hits", "a") as hits:
            hits.write(f"{self.command} {self.path} {self.headers.get('Cookie')}\n")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        script = self.path.split("?")[0].endswith(".js")
        body = b"self.onfetch = () => {};" if script else b"<p id=secret>secret</p>"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Service-Worker-Allowed", "/")
        self.send_header("Set-Cookie", "tossed=1; Domain=localhost")
        self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin", "*"))
        self.send_header("Access-Control-Allow-Credentials", "true")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_OPTIONS = do_HEAD = answer

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
