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
REPOS = {}  # (kind, name) -> Repo
LFS_SUFFIX = (".safetensors", ".bin", ".pt", ".npy", ".parquet", ".onnx")


def git_oid(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def tree_entry(path, content, is_lfs):
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
    lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry | ({"lfs": lfs} if is_lfs else {})


def upload_mode(path, files):
    mode = "lfs" if path.endswith(LFS_SUFFIX) else "regular"
    oid = git_oid(files[path][0]) if path in files else None
    return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}


class Repo:
    """`branches[name]` is a list of commits (sha, {path: (bytes, is_lfs)}),
    the last one is the head."""

    def __init__(self, name):
        self.branches = {
            "main": [(hashlib.sha1(name.encode()).hexdigest(), {".gitattributes": (b"", False)})]
        }
        self.tags = {}

    def find(self, rev):
        """The commit of a branch, tag or sha; None where there is none."""
        rev = rev.removeprefix("refs/heads/") if rev not in (None, "HEAD") else "main"
        if rev in self.branches:
            return self.branches[rev][-1]
        sha = self.tags.get(rev, rev)
        for commits in self.branches.values():
            for commit in commits:
                if commit[0] == sha:
                    return commit
        return None

    def commit(self, branch, changes, salt):
        """A commit on a branch, with what a request changes; returns its sha."""
        commits = self.branches[branch]
        head, files = commits[-1]
        files = dict(files)
        for change in changes:
            value = change["value"]
            if change["key"] == "file":
                files[value["path"]] = (base64.b64decode(value["content"]), False)
            elif change["key"] == "lfsFile":
                files[value["path"]] = (LFS[value["oid"]], True)
            elif change["key"] == "deletedFile":
                files.pop(value["path"], None)
        sha = hashlib.sha1(salt + head.encode()).hexdigest()
        commits.append((sha, files))
        return sha

    def refs(self):
        heads = {name: commits[-1][0] for name, commits in self.branches.items()}
        return {
            "branches": refs_of("heads", heads),
            "tags": refs_of("tags", self.tags),
            "pullRequests": [],
            "converts": [],
        }


def refs_of(kind, shas):
    refs = []
    for name, sha in shas.items():
        refs.append({"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": sha})
    return refs


def card_errors(content):
    """Errors that the Hub's validator reports for the metadata of a README.md."""
    parts = content.split("---\n", 2)
    data = (yaml.safe_load(parts[1]) or {}) if len(parts) == 3 else {}
    languages = data.get("language") or []
    if isinstance(languages, str):
        languages = [languages]
    errors = []
    for number, code in enumerate(languages):
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code", str(code)):
            errors.append(f'"language[{number}]" must only contain lowercase characters')
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


def tree(files, folder, recursive):
    """The files below a folder, and the folders on their way; of the first level alone if not
    recursive."""
    entries = []
    seen = set()
    beginning = f"{folder}/" if folder else ""
    for path, (content, is_lfs) in sorted(files.items()):
        if path != folder and not path.startswith(beginning):
            continue
        parts = path.removeprefix(beginning).split("/")
        shown_folders = len(parts) - 1 if recursive else min(1, len(parts) - 1)
        for depth in range(1, shown_folders + 1):
            name = beginning + "/".join(parts[:depth])
            if name not in seen:
                seen.add(name)
                oid = git_oid(name.encode())
                entries.append({"type": "directory", "path": name, "size": 0, "oid": oid})
        if recursive or len(parts) == 1:
            entries.append(tree_entry(path, content, is_lfs))
    return entries


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # Chunks: a line with the size, then the bytes; an empty one is the last.
        body = b""
        while True:
            size = int(self.rfile.readline().strip() or b"0", 16)
            if not size:
                self.rfile.readline()
                return body
            body += self.rfile.read(size)
            self.rfile.readline()

    def send(self, code, data=b"", ctype="application/json", **headers):
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        # A client that is killed: the connection ends in place of the answer.
        if FAIL_AFTER[0] is not None:
            FAIL_AFTER[0] -= 1
            if FAIL_AFTER[0] < 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Type", ctype)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def address(self):
        return f"http://{self.headers['Host']}"

    def missing(self, kind="Repo"):
        # X-Error-Code drives the exception class in the client.
        self.send(404, {"error": f"{kind} not found"}, X_Error_Code=f"{kind}NotFound")

    def no_entry(self, **headers):
        self.send(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", **headers)

    def route(self):
        """Answer a request by its path."""
        url = urlsplit(self.path.replace("refs%2Fconvert%2Fparquet", "converted"))
        path = unquote(url.path)
        body = self.read_body()

        failing = re.fullmatch(r"/_fail/(-?\d+)", path)
        if failing:
            return self.fail_after(int(failing[1]))
        if path == "/api/whoami-v2":
            return self.send(200, {"name": "tester", "type": "user", "orgs": [], "auth": {}})
        if path == "/api/validate-yaml":
            errors = [{"message": error} for error in card_errors(json.loads(body)["content"])]
            return self.send(400 if errors else 200, {"errors": errors, "warnings": []})
        if self.command == "POST" and path == "/api/repos/create":
            return self.create(json.loads(body))

        # Large files: the client asks where to put them, and puts them there.
        if re.fullmatch(r"/(datasets/|spaces/)?(.+)\.git/info/lfs/objects/batch", path):
            return self.places_of_large_files(json.loads(body)["objects"])
        upload = re.fullmatch(r"/_lfs/(\w+)", path)
        if upload and self.command == "PUT":
            return self.store_large_file(upload[1], body)

        # A repository, or a file of one.
        of_repo = re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/(.*))?", path)
        if of_repo:
            kind = of_repo[1].removesuffix("s")
            return self.of_repo(kind, of_repo[2], url, body)
        file = re.fullmatch(r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if file and self.command in ("GET", "HEAD"):
            return self.resolve(*file.groups())
        return self.missing("Route")

    def fail_after(self, requests):
        """Let requests fail after so many; a negative number ends that. This answer arrives."""
        FAIL_AFTER[0] = None
        self.send(200, {})
        FAIL_AFTER[0] = None if requests < 0 else requests

    def create(self, settings):
        kind = settings.get("type", "model")
        name = f"{settings.get('organization') or 'tester'}/{settings['name']}"
        folder = "" if kind == "model" else f"{kind}s/"
        url = f"{self.address()}/{folder}{name}"
        with LOCK:
            if (kind, name) in REPOS:
                return self.send(409, {"error": "exists", "url": url})
            REPOS[kind, name] = Repo(name)
        return self.send(200, {"url": url, "name": name, "id": name})

    def places_of_large_files(self, objects):
        answers = []
        for entry in objects:
            answer = {"oid": entry["oid"], "size": entry["size"]}
            if entry["oid"] not in LFS:
                place = f"{self.address()}/_lfs/{entry['oid']}"
                answer["actions"] = {"upload": {"href": place, "header": {}}}
            answers.append(answer)
        return self.send(200, {"transfer": "basic", "objects": answers})

    def store_large_file(self, sha256, content):
        if hashlib.sha256(content).hexdigest() != sha256:
            return self.send(400, {"error": "sha256"})
        LFS[sha256] = content
        return self.send(200, {})

    def of_repo(self, kind, name, url, body):
        """A request about a repository: /api/models/org/name/ACTION/REVISION/..."""
        repo = REPOS.get((kind, name))
        if repo is None:
            return self.missing("Repo")
        # Parts are cut before they are decoded: refs%2Fpr%2F1 is one part.
        _, _, _, _, _, *rest = url.path.split("/", 5)
        action, *arguments = [unquote(part) for part in (rest[0] if rest else "").split("/")]
        revision = arguments[0] if arguments else "main"
        commit = repo.find(revision)
        if self.command == "POST" and action == "commit":
            return self.commit(repo, name, revision, body)
        if commit is None:
            return self.missing("Revision")
        sha, files = commit
        if self.command == "POST" and action == "preupload":
            paths = [file["path"] for file in json.loads(body)["files"]]
            return self.send(200, {"files": [upload_mode(path, files) for path in paths]})
        if action == "tree":
            return self.list_files(files, "/".join(arguments[1:]), parse_qs(url.query))
        if action == "paths-info":
            paths = parse_qs(body.decode()).get("paths", [])
            if body[:1] == b"{":
                paths = json.loads(body)["paths"]
            present = [path for path in paths if path in files]
            return self.send(200, [tree_entry(path, files[path][0], False) for path in present])
        if self.command == "POST" and action == "tag":
            return self.tag(repo, sha, json.loads(body)["tag"])
        if action == "refs":
            return self.send(200, repo.refs())
        if action in ("", "revision"):
            return self.describe(name, sha, files)
        return self.missing("Route")

    def commit(self, repo, name, branch, body):
        lines = [json.loads(line) for line in body.splitlines()]
        (header,) = [line["value"] for line in lines if line["key"] == "header"]
        changes = [line for line in lines if line["key"] != "header"]
        with LOCK:
            if header.get("parentCommit") not in (None, repo.branches[branch][-1][0]):
                error = "A commit has happened since. Please refresh and try again."
                return self.send(412, {"error": error})
            sha = repo.commit(branch, changes, body)
        url = f"{self.address()}/{name}/commit/{sha}"
        return self.send(200, {"success": True, "commitOid": sha, "commitUrl": url})

    def list_files(self, files, folder, query):
        recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
        entries = tree(files, folder, recursive)
        if folder and not entries:
            return self.no_entry()
        return self.send(200, entries)

    def tag(self, repo, sha, tag):
        if tag in repo.tags:
            return self.send(409, {"error": f"Tag {tag} already exists"})
        repo.tags[tag] = sha
        return self.send(200, {})

    def describe(self, name, sha, files):
        info = {
            "id": name,
            "modelId": name,
            "sha": sha,
            "private": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": path} for path in sorted(files)],
        }
        return self.send(200, info)

    def resolve(self, folder, name, revision, path):
        """The content of a file."""
        kind = {"datasets/": "dataset", "spaces/": "space"}.get(folder, "model")
        repo = REPOS.get((kind, name))
        commit = repo and repo.find(revision)
        if commit is None:
            return self.missing("Revision" if repo else "Repo")
        sha, files = commit
        if path not in files:
            return self.no_entry(X_Repo_Commit=sha)
        # As the Hub: a file of git by its object's name, a large one by its sha256.
        content, is_lfs = files[path]
        etag = hashlib.sha256(content).hexdigest() if is_lfs else git_oid(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if is_lfs:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": len(content)}
        # A part of the file, for a download that continues.
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and self.command == "GET":
            first = int(asked[1])
            last = int(asked[2] or len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            part = content[first : last + 1]
            return self.send(206, part, "application/octet-stream", **headers)
        return self.send(200, content, "application/octet-stream", **headers)

    do_GET = do_POST = do_PUT = do_HEAD = route


def put(kind, name, files):
    """Make a repository with these files: path -> bytes.
    The Hub's own Parquet branch of a dataset is the same."""
    repo = REPOS.setdefault((kind, name), Repo(name))
    sha = hashlib.sha1(name.encode()).hexdigest()
    head = (sha, {path: (content, False) for path, content in files.items()})
    repo.branches = {"main": [head], "converted": [head]}


def start(port=0):
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
