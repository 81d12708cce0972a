"""Loopback Hub for tests: in-memory repositories, enough of the HTTP API to create, upload and download.

Server: start().server_port, or python hub_server.py PORT
Clients: HF_ENDPOINT=http://127.0.0.1:PORT HF_HUB_DISABLE_XET=1 HF_TOKEN=x (set before the import)
"""

import base64
import hashlib
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

REPOS, LFS, LOG, LOCK = (
    {},
    {},
    [],
    threading.Lock(),
)  # REPOS[type, id] = [(sha, {path: (bytes, is_lfs)}), ...]
TAGS = {}  # TAGS[type, id] = {tag: sha}
LFS_SUFFIX = (".safetensors", ".bin", ".pt", ".npy", ".parquet", ".onnx")


def git_oid(b):
    return hashlib.sha1(b"blob %d\0" % len(b) + b).hexdigest()


class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            out = b""
            while n := int(self.rfile.readline().strip() or b"0", 16):
                out += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
            return out
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, code, data=b"", ctype="application/json", **headers):
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        LOG.append(f"{self.command} {self.path} -> {code}")
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), str(v))
        self.send_header("Content-Type", ctype)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def missing(self, what="Repo"):  # X-Error-Code drives the exception class in the client
        self.send(404, {"error": f"{what} not found"}, X_Error_Code=f"{what}NotFound")

    def repo(self, rtype, rid):
        return REPOS.get((rtype, rid))

    def rev(self, commits, rev):
        if rev in ("main", "HEAD", None):
            return commits[-1]
        named = [tags[rev] for tags in TAGS.values() if rev in tags]
        return next((c for c in commits if c[0] in (rev, *named)), None)

    def route(self):
        u = urlsplit(self.path)
        p, q = unquote(u.path), parse_qs(u.query)
        m = self.command
        b = self.body()

        def R(pat):
            return re.fullmatch(pat, p)

        if p == "/_log":
            return self.send(200, LOG)
        if p == "/api/whoami-v2":
            return self.send(200, {"name": "tester", "type": "user", "orgs": [], "auth": {}})
        if p == "/api/validate-yaml":
            return self.send(200, {"errors": [], "warnings": []})
        if m == "POST" and p == "/api/repos/create":
            d = json.loads(b)
            t = d.get("type", "model")
            rid = f"{d.get('organization') or 'tester'}/{d['name']}"
            url = f"http://{self.headers['Host']}/{'' if t == 'model' else t + 's/'}{rid}"
            with LOCK:
                if (t, rid) in REPOS:
                    return self.send(409, {"error": "exists", "url": url})
                REPOS[t, rid] = [(hashlib.sha1(rid.encode()).hexdigest(), {".gitattributes": (b"", False)})]
            return self.send(200, {"url": url, "name": rid, "id": rid})
        if m == "DELETE" and p == "/api/repos/delete":
            d = json.loads(b)
            REPOS.pop((d.get("type", "model"), f"{d.get('organization') or 'tester'}/{d['name']}"), None)
            return self.send(200, {})
        if g := R(r"/(datasets/|spaces/)?(.+)\.git/info/lfs/objects/batch"):
            out = []
            for o in json.loads(b)["objects"]:
                e = {"oid": o["oid"], "size": o["size"]}
                if o["oid"] not in LFS:
                    e["actions"] = {"upload": {"href": f"http://{self.headers['Host']}/_lfs/{o['oid']}", "header": {}}}
                out.append(e)
            return self.send(200, {"transfer": "basic", "objects": out})
        if m == "PUT" and (g := R(r"/_lfs/(\w+)")):
            if hashlib.sha256(b).hexdigest() != g[1]:
                return self.send(400, {"error": "sha256"})
            LFS[g[1]] = b
            return self.send(200, {})
        if g := R(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/(.*))?"):
            t, rid, rest = g[1][:-1], g[2], g[3] or ""
            commits = self.repo(t, rid)
            if commits is None:
                return self.missing("Repo")
            a = rest.split("/")
            rev = unquote(a[1]) if len(a) > 1 else "main"
            c = self.rev(commits, rev)
            if m == "POST" and a[0] == "preupload":
                return self.send(
                    200,
                    {
                        "files": [
                            {
                                "path": f["path"],
                                "uploadMode": "lfs" if f["path"].endswith(LFS_SUFFIX) else "regular",
                                "shouldIgnore": False,
                                "oid": git_oid(commits[-1][1][f["path"]][0]) if f["path"] in commits[-1][1] else None,
                            }
                            for f in json.loads(b)["files"]
                        ]
                    },
                )
            if m == "POST" and a[0] == "commit":
                with LOCK:
                    files = dict(commits[-1][1])
                    for line in b.splitlines():
                        o = json.loads(line)
                        v = o["value"]
                        if o["key"] == "file":
                            files[v["path"]] = (base64.b64decode(v["content"]), False)
                        elif o["key"] == "lfsFile":
                            files[v["path"]] = (LFS[v["oid"]], True)
                        elif o["key"] == "deletedFile":
                            files.pop(v["path"], None)
                        elif o["key"] == "deletedFolder":
                            files = {k: x for k, x in files.items() if not k.startswith(v["path"].rstrip("/") + "/")}
                    sha = hashlib.sha1(b + commits[-1][0].encode()).hexdigest()
                    commits.append((sha, files))
                return self.send(
                    200,
                    {
                        "success": True,
                        "commitOid": sha,
                        "commitUrl": f"http://{self.headers['Host']}/{rid}/commit/{sha}",
                    },
                )
            if c is None:
                return self.missing("Revision")
            sha, files = c
            if a[0] == "tree":
                pre = "/".join(a[2:])
                if pre and not any(k == pre or k.startswith(pre + "/") for k in files):
                    return self.send(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
                out, rec, seen = [], q.get("recursive", ["false"])[0].lower() in ("true", "1"), set()
                for k, (x, lfs) in sorted(files.items()):
                    if pre and not (k == pre or k.startswith(pre + "/")):
                        continue
                    parts = (k[len(pre) + 1 :] if pre else k).split("/")
                    for n in range(1, len(parts) if rec else min(2, len(parts))):
                        d = "/".join(([pre] if pre else []) + parts[:n])
                        if d not in seen:
                            seen.add(d)
                            out.append({"type": "directory", "path": d, "size": 0, "oid": git_oid(d.encode())})
                    if rec or len(parts) == 1:
                        out.append(
                            {
                                "type": "file",
                                "path": k,
                                "size": len(x),
                                "oid": git_oid(x),
                                **(
                                    {
                                        "lfs": {
                                            "oid": hashlib.sha256(x).hexdigest(),
                                            "size": len(x),
                                            "pointerSize": 134,
                                        }
                                    }
                                    if lfs
                                    else {}
                                ),
                            }
                        )
                return self.send(200, out)
            if a[0] == "paths-info":
                want = parse_qs(b.decode()).get("paths") or (json.loads(b)["paths"] if b[:1] == b"{" else [])
                return self.send(
                    200,
                    [
                        {"type": "file", "path": k, "size": len(files[k][0]), "oid": git_oid(files[k][0])}
                        for k in want
                        if k in files
                    ],
                )
            if m == "POST" and a[0] == "tag":
                TAGS.setdefault((t, rid), {})[json.loads(b)["tag"]] = self.rev(commits, rev)[0]
                return self.send(200, {})
            if a[0] == "refs":
                return self.send(
                    200,
                    {
                        "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": commits[-1][0]}],
                        "tags": [
                            {"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": sha}
                            for tag, sha in TAGS.get((t, rid), {}).items()
                        ],
                        "converts": [],
                    },
                )
            if a[0] in ("", "revision"):
                return self.send(
                    200,
                    {
                        "id": rid,
                        "modelId": rid,
                        "sha": sha,
                        "private": False,
                        "tags": [],
                        "downloads": 0,
                        "likes": 0,
                        "siblings": [{"rfilename": k} for k in sorted(files)],
                    },
                )
        if m in ("GET", "HEAD") and (g := R(r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")):
            t = {"datasets/": "dataset", "spaces/": "space"}.get(g[1], "model")
            commits = self.repo(t, g[2])
            if commits is None:
                return self.missing("Repo")
            c = self.rev(commits, g[3])
            if c is None:
                return self.missing("Revision")
            if g[4] not in c[1]:
                return self.send(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=c[0])
            x, lfs = c[1][g[4]]
            etag = hashlib.sha256(x).hexdigest() if lfs else git_oid(x)
            h = {"ETag": f'"{etag}"', "X-Repo-Commit": c[0], "Accept-Ranges": "bytes"}
            if lfs:
                h |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": len(x)}
            if (r := re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))) and m == "GET":
                s, e = int(r[1]), int(r[2] or len(x) - 1)
                h["Content-Range"] = f"bytes {s}-{e}/{len(x)}"
                return self.send(206, x[s : e + 1], "application/octet-stream", **h)
            return self.send(200, x, "application/octet-stream", **h)
        return self.missing("Route")

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = route


def start(port=0):
    s = ThreadingHTTPServer(("127.0.0.1", port), H)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
