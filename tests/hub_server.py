"""Loopback Hub for tests: in-memory repositories, enough of the HTTP API to create, upload, tag and
download.

It refuses what the Hub refuses: a commit on another parent than the head (412), a second tag of one
name (409), a card with an unknown license or language (400). GET /_fail/N closes the connection of
every request after N more, when it has done its work, as if the client had been killed there;
/_fail/-1 ends that.

Server: start().server_port, or python hub_server.py PORT
Clients: HF_ENDPOINT=http://127.0.0.1:PORT HF_HUB_DISABLE_XET=1 HF_TOKEN=x (set before the import)
"""

import base64
import hashlib
import json
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LFS = {}
LOCK = threading.RLock()
FAIL_AFTER = [None]
REPOS = {}  # REPOS[type, id] = Repo
LFS_SUFFIX = (".safetensors", ".bin", ".pt", ".npy", ".parquet", ".onnx")


def git_oid(b):
    return hashlib.sha1(b"blob %d\0" % len(b) + b).hexdigest()


def tree_entry(path, content, is_lfs):
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
    lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry | ({"lfs": lfs} if is_lfs else {})


def upload_mode(path, files):
    mode = "lfs" if path.endswith(LFS_SUFFIX) else "regular"
    oid = git_oid(files[path][0]) if path in files else None
    return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}


class Repo:
    """`branches[name]` is a list of commits (sha, {path:
    (bytes, is_lfs)}), the last one is the head."""

    def __init__(self, rid):
        self.branches = {
            "main": [(hashlib.sha1(rid.encode()).hexdigest(), {".gitattributes": (b"", False)})]
        }
        self.tags = {}

    def find(self, rev):
        """The commit of a branch, tag or sha; None where there is none."""
        rev = rev.removeprefix("refs/heads/") if rev not in (None, "HEAD") else "main"
        if rev in self.branches:
            return self.branches[rev][-1]
        sha = self.tags.get(rev, rev)
        return next((c for commits in self.branches.values() for c in commits if c[0] == sha), None)

    def commit(self, branch, lines, salt):
        commits = self.branches[branch]
        files = dict(commits[-1][1])
        for o in lines:
            v = o["value"]
            if o["key"] == "file":
                files[v["path"]] = (base64.b64decode(v["content"]), False)
            elif o["key"] == "lfsFile":
                files[v["path"]] = (LFS[v["oid"]], True)
            elif o["key"] == "deletedFile":
                files.pop(v["path"], None)
        commits.append((hashlib.sha1(salt + commits[-1][0].encode()).hexdigest(), files))
        return commits[-1][0]

    def refs(self):
        places = {
            "heads": {name: commits[-1][0] for name, commits in self.branches.items()},
            "tags": self.tags,
        }
        heads, tags = (
            [
                {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": sha}
                for name, sha in shas.items()
            ]
            for kind, shas in places.items()
        )
        return {"branches": heads, "tags": tags, "pullRequests": [], "converts": []}


def card_errors(content):
    """Errors that the Hub's validator reports for the metadata of a README.md."""
    parts = content.split("---\n", 2)
    data = (yaml.safe_load(parts[1]) or {}) if len(parts) == 3 else {}
    languages = data.get("language") or []
    errors = [
        f'"language[{i}]" must only contain lowercase characters'
        for i, code in enumerate([languages] if isinstance(languages, str) else languages)
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code", str(code))
    ]
    license = data.get("license")
    if license is not None and license not in LICENSES:
        errors.append(f'"license" must be one of {sorted(LICENSES)}')
    return errors


LICENSES = {
    "apache-2.0",
    "mit",
    "cc-by-4.0",
    "cc-by-nc-4.0",
    "cc-by-sa-4.0",
    "cc0-1.0",
    "bsd-3-clause",
    "other",
}


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
        if FAIL_AFTER[0] is not None:
            FAIL_AFTER[0] -= 1
            if FAIL_AFTER[0] < 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), str(v))
        self.send_header("Content-Type", ctype)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def own(self):
        return f"http://{self.headers['Host']}"

    def missing(self, what="Repo"):  # X-Error-Code drives the exception class in the client
        self.send(404, {"error": f"{what} not found"}, X_Error_Code=f"{what}NotFound")

    def route(self):
        u = urlsplit(self.path.replace("refs%2Fconvert%2Fparquet", "converted"))
        p = unquote(u.path)
        q = parse_qs(u.query)
        m = self.command
        b = self.body()

        def R(pat):
            return re.fullmatch(pat, p)

        if g := R(r"/_fail/(-?\d+)"):
            FAIL_AFTER[0] = None  # this answer arrives
            self.send(200, {})
            FAIL_AFTER[0] = None if int(g[1]) < 0 else int(g[1])
            return None
        if p == "/api/whoami-v2":
            return self.send(200, {"name": "tester", "type": "user", "orgs": [], "auth": {}})
        if p == "/api/validate-yaml":
            errors = [{"message": message} for message in card_errors(json.loads(b)["content"])]
            return self.send(400 if errors else 200, {"errors": errors, "warnings": []})
        if m == "POST" and p == "/api/repos/create":
            d = json.loads(b)
            t = d.get("type", "model")
            rid = f"{d.get('organization') or 'tester'}/{d['name']}"
            url = f"{self.own()}/{'' if t == 'model' else t + 's/'}{rid}"
            with LOCK:
                if (t, rid) in REPOS:
                    return self.send(409, {"error": "exists", "url": url})
                REPOS[t, rid] = Repo(rid)
            return self.send(200, {"url": url, "name": rid, "id": rid})
        if R(r"/(datasets/|spaces/)?(.+)\.git/info/lfs/objects/batch"):
            out = []
            for o in json.loads(b)["objects"]:
                e = {"oid": o["oid"], "size": o["size"]}
                if o["oid"] not in LFS:
                    e["actions"] = {
                        "upload": {"href": f"{self.own()}/_lfs/{o['oid']}", "header": {}}
                    }
                out.append(e)
            return self.send(200, {"transfer": "basic", "objects": out})
        if m == "PUT" and (g := R(r"/_lfs/(\w+)")):
            if hashlib.sha256(b).hexdigest() != g[1]:
                return self.send(400, {"error": "sha256"})
            LFS[g[1]] = b
            return self.send(200, {})
        if g := R(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/(.*))?"):
            return self.of_repo(g[1][:-1], g[2], m, u, q, b)
        if m in ("GET", "HEAD") and (
            g := R(r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
        ):
            return self.resolve(*g.groups(), m)
        return self.missing("Route")

    def of_repo(self, t, rid, m, u, q, b):
        repo = REPOS.get((t, rid))
        if repo is None:
            return self.missing("Repo")
        # refs%2Fpr%2F1 is one part
        raw = u.path.split("/", 5)[5].split("/") if u.path.count("/") > 4 else [""]
        a = [unquote(part) for part in raw]
        rev = a[1] if len(a) > 1 else "main"
        c = repo.find(rev)
        if m == "POST" and a[0] == "preupload":
            asked = [f["path"] for f in json.loads(b)["files"]]
            return self.send(200, {"files": [upload_mode(name, c[1]) for name in asked]})
        if m == "POST" and a[0] == "commit":
            lines = [json.loads(line) for line in b.splitlines()]
            header = next(o["value"] for o in lines if o["key"] == "header")
            with LOCK:
                if header.get("parentCommit") not in (None, repo.branches[rev][-1][0]):
                    return self.send(
                        412, {"error": "A commit has happened since. Please refresh and try again."}
                    )
                sha = repo.commit(rev, [o for o in lines if o["key"] != "header"], b)
            return self.send(
                200,
                {
                    "success": True,
                    "commitOid": sha,
                    "commitUrl": f"{self.own()}/{rid}/commit/{sha}",
                },
            )
        if c is None:
            return self.missing("Revision")
        sha, files = c
        if a[0] == "tree":
            pre = "/".join(a[2:])
            if pre and not any(k == pre or k.startswith(pre + "/") for k in files):
                return self.send(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
            out = []
            rec = q.get("recursive", ["false"])[0].lower() in ("true", "1")
            seen = set()
            for k, (x, lfs) in sorted(files.items()):
                if pre and not (k == pre or k.startswith(pre + "/")):
                    continue
                parts = (k[len(pre) + 1 :] if pre else k).split("/")
                for n in range(1, len(parts) if rec else min(2, len(parts))):
                    d = "/".join(([pre] if pre else []) + parts[:n])
                    if d not in seen:
                        seen.add(d)
                        out.append(
                            {"type": "directory", "path": d, "size": 0, "oid": git_oid(d.encode())}
                        )
                if rec or len(parts) == 1:
                    out.append(tree_entry(k, x, lfs))
            return self.send(200, out)
        if a[0] == "paths-info":
            want = parse_qs(b.decode()).get("paths") or (
                json.loads(b)["paths"] if b[:1] == b"{" else []
            )
            return self.send(200, [tree_entry(k, files[k][0], False) for k in want if k in files])
        if m == "POST" and a[0] == "tag":
            tag = json.loads(b)["tag"]
            if tag in repo.tags:
                return self.send(409, {"error": f"Tag {tag} already exists"})
            repo.tags[tag] = c[0]
            return self.send(200, {})
        if a[0] == "refs":
            return self.send(200, repo.refs())
        if a[0] in ("", "revision"):
            info = {
                "id": rid,
                "modelId": rid,
                "sha": sha,
                "private": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
            }
            return self.send(200, info | {"siblings": [{"rfilename": k} for k in sorted(files)]})
        return self.missing("Route")

    def resolve(self, kind, rid, rev, path, m):
        # Which repository and commit, and which file of it.
        t = {"datasets/": "dataset", "spaces/": "space"}.get(kind, "model")
        repo = REPOS.get((t, rid))
        c = repo and repo.find(rev)
        if c is None:
            return self.missing("Revision" if repo else "Repo")
        if path not in c[1]:
            return self.send(
                404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=c[0]
            )
        # As the Hub: a file of git by its object's name, a large one by its sha256.
        x, lfs = c[1][path]
        etag = hashlib.sha256(x).hexdigest() if lfs else git_oid(x)
        h = {"ETag": f'"{etag}"', "X-Repo-Commit": c[0], "Accept-Ranges": "bytes"}
        if lfs:
            h |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": len(x)}
        # A part of the file, for a download that continues.
        if (r := re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))) and m == "GET":
            s = int(r[1])
            e = int(r[2] or len(x) - 1)
            h["Content-Range"] = f"bytes {s}-{e}/{len(x)}"
            return self.send(206, x[s : e + 1], "application/octet-stream", **h)
        return self.send(200, x, "application/octet-stream", **h)

    do_GET = do_POST = do_PUT = do_HEAD = route


def put(kind, rid, files):
    """Make a repository with these files: path -> bytes.
    The Hub's own Parquet branch of a dataset is the same."""
    repo = REPOS.setdefault((kind, rid), Repo(rid))
    head = (
        hashlib.sha1(rid.encode()).hexdigest(),
        {name: (data, False) for name, data in files.items()},
    )
    repo.branches = {"main": [head], "converted": [head]}


def start(port=0):
    s = ThreadingHTTPServer(("127.0.0.1", port), H)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
