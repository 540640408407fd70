"""Packages of the registries for `explain.py`: what they are called, and how they come into a cache outside of the tree.

Python, JavaScript and TypeScript come from PyPI and npm, Rust from the crates that cargo has unpacked, Go, Java, C and C++ from
Debian. Debian's lists, archives and sources stay in the cache: nothing of the system's own configuration changes."""

import glob
import os
import shutil
import subprocess
import sys

PYTHON = """flask requests click httpx fastapi rich black jinja2 werkzeug starlette pydantic attrs pytest pluggy sqlalchemy
 celery aiohttp tornado marshmallow typer uvicorn anyio trio networkx sympy docutils pygments babel mako dask""".split()
NPM = """express koa fastify axios zod commander chalk yargs debug eslint mocha webpack rollup prettier uuid semver winston
 pino ws socket.io redux immer lodash-es date-fns rxjs mobx ajv marked""".split()
# Packages that carry their sources in TypeScript.
TYPESCRIPT = "@reduxjs/toolkit @tanstack/query-core @tanstack/table-core viem effect prosemirror-view".split()
GO = """spf13-cobra gorilla-mux gin-gonic-gin go-chi-chi labstack-echo pkg-sftp prometheus-client-golang rs-zerolog
 alecthomas-chroma go-git-go-git""".split()
JAVA = "libcommons-codec-java picocli libcommons-lang3-java commons-io jsoup junit4 libslf4j-java jackson-core".split()
C = "zlib lua5.4 jq libuv1 lighttpd tmux hiredis libevent".split()
CPP = "re2 leveldb fmtlib spdlog tinyxml2 libjsoncpp pugixml yaml-cpp".split()

# With these there are more than two hundred. They are drawn and checked, and no peer is asked about them.
MORE_PYTHON = """typing-extensions packaging six urllib3 certifi idna charset-normalizer python-dateutil pytz pyyaml markupsafe
 itsdangerous blinker platformdirs filelock virtualenv distlib tqdm colorama importlib-metadata zipp jsonschema
 referencing cachetools google-auth rsa pyasn1 oauthlib requests-oauthlib cryptography pyparsing tomli wheel
 setuptools psutil greenlet websockets h11 httpcore sniffio multidict yarl frozenlist aiosignal tenacity pyjwt
 docker redis pymongo boto3 botocore s3transfer jmespath prompt-toolkit wcwidth markdown-it-py mdurl typeguard
 loguru structlog arrow pendulum peewee alembic django djangorestframework gunicorn flake8 pycodestyle pyflakes
 mccabe isort pylint astroid mypy bandit coverage hypothesis faker nltk gensim scrapy parsel twisted
 zope.interface paramiko fabric invoke ansible-core sphinx mkdocs poetry-core hatchling""".split()
MORE_NPM = """lodash async bluebird request body-parser cors helmet morgan dotenv jsonwebtoken bcryptjs passport mongoose
 sequelize knex pg mysql2 redis ioredis bull nodemailer handlebars ejs pug mustache highlight.js cheerio
 puppeteer-core jsdom vue-router vuex pinia react-router zustand immutable ramda underscore moment dayjs luxon
 classnames styled-components formik yup joi superagent got node-fetch undici ora inquirer meow execa
 cross-spawn glob minimatch rimraf mkdirp chokidar tape ava jasmine vitest sinon nock supertest esbuild terser
 postcss autoprefixer sass less tailwindcss eslint-plugin-import graphql apollo-server type-graphql fp-ts io-ts""".split()

# Go's own tools, for `go list`.
GO_TOOLS = ("golang-1.19-go", "golang-1.19-src")


def run(command, **options):
    """Output of a command, or None if it fails."""
    options = {"capture_output": True, "text": True, "timeout": 300, **options}
    try:
        done = subprocess.run(command, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def fetch_python(cache, name):
    target = os.path.join(cache, "python", name)
    if not os.path.isdir(target):
        wheels = os.path.join(cache, "wheels", name)
        if run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels, name]) is None:
            return None
        for wheel in glob.glob(os.path.join(wheels, "*.whl")):
            shutil.unpack_archive(wheel, target, "zip")
    return target if os.path.isdir(target) else None


def fetch_npm(cache, name):
    target = os.path.join(cache, "npm", name.replace("/", "+"))
    if not os.path.isdir(target):
        shutil.rmtree(target + ".new", ignore_errors=True)
        os.makedirs(target + ".new")
        if run(["npm", "pack", "--silent", name], cwd=target + ".new") is None:
            return None
        for archive in glob.glob(os.path.join(target + ".new", "*.tgz")):
            shutil.unpack_archive(archive, target + ".new", filter="data")
            os.remove(archive)
        inner = os.path.join(target + ".new", "package")
        os.rename(inner if os.path.isdir(inner) else target + ".new", target)
    return target


def crates(count):
    """Crates that cargo has unpacked on this machine already."""
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = sorted(glob.glob(os.path.join(home, "registry/src/*/*-[0-9]*")))
    sized = [path for path in found if len(glob.glob(os.path.join(path, "src/**/*.rs"), recursive=True)) >= 8]
    return sized[:: max(1, len(sized) // max(count, 1))][:count]


def apt(cache):
    """Options for apt with lists, archives and sources of its own, which are made if they are missing."""
    place = os.path.join(cache, "apt")
    options = [f"Dir::Etc::sourcelist={place}/sources.list", "Dir::Etc::sourceparts=-", f"Dir::State::lists={place}/lists",
               f"Dir::Cache={place}", "APT::Sandbox::User=root"]
    options = [word for option in options for word in ("-o", option)]
    if not os.path.isfile(os.path.join(place, "sources.list")):
        for folder in ("lists/partial", "archives/partial"):
            os.makedirs(os.path.join(place, folder), exist_ok=True)
        with open(os.path.join(place, "sources.list"), "w") as file:
            for kind in ("deb", "deb-src"):
                file.write(f"{kind} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n")
        run(["apt-get", *options, "-qq", "update"])
    return options


def fetch_source(cache, kind, name):
    """A source package of Debian."""
    target = os.path.join(cache, kind, name)
    if not os.path.isdir(target):
        place = os.path.join(cache, "sources", name)
        os.makedirs(place, exist_ok=True)
        if run(["apt-get", *apt(cache), "-qq", "source", name], cwd=place) is None:
            return None
        folders = [path for path in glob.glob(os.path.join(place, "*")) if os.path.isdir(path)]
        if len(folders) != 1:
            return None
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(folders[0], target)
    return target


def unpack_binary(cache, name, target):
    """Unpacks a binary package of Debian without installing it."""
    place = os.path.join(cache, "apt", "binary", name)
    os.makedirs(place, exist_ok=True)
    if run(["apt-get", *apt(cache), "-qq", "download", name], cwd=place) is None:
        return False
    return all(run(["dpkg-deb", "-x", archive, target]) is not None for archive in glob.glob(os.path.join(place, "*.deb")))


def go_root(cache):
    """Go's tools in the cache, or None."""
    place = os.path.join(cache, "go-tools")
    if not os.path.isdir(place):
        if not all(unpack_binary(cache, name, place) for name in GO_TOOLS):
            return None
        # Debian keeps sources and tools in two places and joins them by links into /usr.
        tools = os.path.join(place, "usr/lib/go-1.19")
        for link in glob.glob(os.path.join(tools, "*")):
            if os.path.islink(link):
                os.remove(link)
                os.symlink(os.path.join(place, "usr/share/go-1.19", os.path.basename(link)), link)
    return os.path.join(place, "usr/lib/go-1.19")


def fetch_go(cache, name):
    """A library of Debian's Go packages: its import path, and its folder with the module file that Debian leaves out."""
    place = os.path.join(cache, "go-packages", name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if not os.path.isdir(place) and not unpack_binary(cache, f"golang-github-{name}-dev", place):
        return None
    sources = os.path.join(place, "usr/share/gocode/src")
    libraries = [path for path in sorted(glob.glob(os.path.join(sources, "github.com/*/*"))) if not os.path.islink(path)]
    if not libraries:
        return None
    path = os.path.relpath(libraries[0], sources)
    if not os.path.isfile(os.path.join(libraries[0], "go.mod")):
        with open(os.path.join(libraries[0], "go.mod"), "w") as file:
            file.write(f"module {path}\n")
    return path, libraries[0]


def packages(options, root):
    """(kind, name, folder) of all packages that could be had, and the names of those that no peer is asked about."""
    cache, most = options.cache, options.packages
    found = [("python", name, fetch_python(cache, name)) for name in PYTHON[:most]]
    found += [("javascript", name, fetch_npm(cache, name)) for name in NPM[:most]]
    found += [("typescript", name, fetch_npm(cache, name)) for name in TYPESCRIPT[:most]]
    for kind, names in (("java", JAVA), ("c", C), ("c++", CPP)):
        found += [(kind, name, fetch_source(cache, kind, name)) for name in names[:most]]
    for name in GO[:most]:
        found.append(("go", *(fetch_go(cache, name) or (name, None))))
    found += [("crate", os.path.basename(path), path) for path in crates(min(most, 40))]
    found.append(("workspace", "this project", root))
    alone = set()
    if options.more:
        found += [("python", name, fetch_python(cache, name)) for name in MORE_PYTHON]
        found += [("javascript", name, fetch_npm(cache, name)) for name in MORE_NPM]
        alone = {*MORE_PYTHON, *MORE_NPM}
    for kind, name, folder in found:
        if not folder:
            print(f"not to be had: {kind} {name}")
    return [package for package in found if package[2]], alone
