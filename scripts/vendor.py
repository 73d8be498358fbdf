"""Copies the libraries of the chat page from npm into ``examples/chat-page/vendor``.

    just vendor    # then look at the page, run its tests, commit

A package is pinned by version and hash. ``SHA256SUMS`` lists what was copied; a test compares.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "examples/chat-page/vendor"
PACKAGES = {
    "markdown-it@15.0.3": "98a7453983ab0e268c17dbd5260bf7190ba46b4cca912327fc1c1a2578e4b56d",
    "@highlightjs/cdn-assets@11.12.0": (
        "b8a006d30f45afe783072569f3d69c5b60c0e7b9ca28cd474e12f2584e2a3bd9"
    ),
    "katex@0.19.1": "24da5a599eb2fcede2e270b99a6ff48bca816beecc95feeb84e8cccbd1bb34fd",
}
"""SHA-256 of each package as npm packs it."""
FILES = {
    "markdown-it/dist/browser/markdown-it.esm.min.mjs": "markdown-it.js",
    "markdown-it/LICENSE": "markdown-it.LICENSE",
    "@highlightjs/cdn-assets/es/highlight.min.js": "highlight.js",
    "@highlightjs/cdn-assets/LICENSE": "highlight.LICENSE",
    "katex/dist/katex.min.js": "katex.js",
    "katex/dist/katex.min.css": "katex.css",
    "katex/LICENSE": "katex.LICENSE",
}


def contents(package: str, digest: str) -> dict[str, bytes]:
    """Return the files of a package by their paths; fail if it is not the one that is pinned."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True)
        packed = next(Path(folder).iterdir()).read_bytes()
    if hashlib.sha256(packed).hexdigest() != digest:
        raise SystemExit(f"{package} is not what was pinned.")
    name = package.rpartition("@")[0]
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = ((each.name, archive.extractfile(each)) for each in archive)
        return {path.replace("package", name, 1): file.read() for path, file in files if file}


def main() -> None:
    """Copy the files, and write their hashes."""
    shutil.rmtree(TARGET, ignore_errors=True)
    (TARGET / "fonts").mkdir(parents=True)
    for package, digest in PACKAGES.items():
        for path, data in contents(package, digest).items():
            if path.endswith(".woff2"):
                (TARGET / "fonts" / Path(path).name).write_bytes(data)
            elif path in FILES:
                (TARGET / FILES[path]).write_bytes(data)
    copied = sorted(path for path in TARGET.rglob("*") if path.is_file())
    lines = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(TARGET)}\n"
        for path in copied
    )
    (TARGET / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
