"""Lists the packages of a cache with version and licence, for `packages.txt`: only permissive ones, and none on which results are measured.

    python3 packages.py CACHE > packages.txt
"""

import json
import os
import re
import sys
import tomllib
import zipfile

PERMISSIVE = re.compile(r"\b(MIT|BSD|Apache|ISC|0BSD|Unlicense|Zlib|HPND|PSF|Unicode|CC0)", re.I)
RESTRICTED = re.compile(r"GPL|MPL|EPL|SSPL|proprietary", re.I)
# Measured on: the sets of bench/memory.py, and repositories of the comparison with semble. `setuptools`, `pip` and `gevent` carry copies of the
# standard library.
MEASURED = {
    "pypi": "aiohttp fastapi flask httpx pydantic requests starlette click model2vec semble wordllama setuptools pip gevent",
    "crates": "tokio regex-automata rustix clap_builder time bytes url axum axum-core serde serde_core serde_json",
    "npm": "mathjs lodash luxon rxjs mongoose matter-js axios express redux zod trpc vitest commander graphql",
}


def metadata(kind, path):
    """Version and licence."""
    if kind == "pypi":
        archive = zipfile.ZipFile(path)
        text = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode("utf-8", "replace").split("\n\n")[0]
        version = re.search(r"^Version: (.*)$", text, re.M).group(1)
        found = re.findall(r"^License-Expression: (.*)$", text, re.M) or re.findall(r"^Classifier: License :: (?:OSI Approved :: )?(.*)$", text, re.M) \
            or re.findall(r"^License: (.*)$", text, re.M)
        return version, ", ".join(found)
    if kind == "crates":
        package = tomllib.load(open(os.path.join(path, "Cargo.toml"), "rb"))["package"]
        return package["version"], package.get("license", "")
    package = json.load(open(os.path.join(path, "package", "package.json")))
    licence = package.get("license", "")
    return package["version"], licence if isinstance(licence, str) else licence.get("type", "")


def main():
    cache = sys.argv[1]
    print("# registry, package, version, licence: what the embedding was trained on. Made by packages.py.")
    for kind, folder in (("pypi", "wheels"), ("crates", "crates"), ("npm", "npm")):
        for entry in sorted(os.listdir(os.path.join(cache, folder))):
            name = entry.split("-")[0].lower() if kind == "pypi" else entry
            try:
                version, licence = metadata(kind, os.path.join(cache, folder, entry))
            except (OSError, KeyError, StopIteration, ValueError) as error:
                print(f"{kind}/{entry}: {error}", file=sys.stderr)
                continue
            first = licence.split(" WITH ")[0]
            alternatives = [part for part in re.split(r"\bOR\b|/", first) if PERMISSIVE.search(part) and not RESTRICTED.search(part)]
            if alternatives and name not in MEASURED[kind].split():
                print(kind, name, version, re.sub(r"\s+", " ", licence)[:80])
            else:
                print(f"{kind}/{name}: not used ({licence[:60]})", file=sys.stderr)


if __name__ == "__main__":
    main()
