"""Searches a whole sandbox from inside for two secrets that it knows by their hashes only, so that it never finds itself.

usage: search_for_secrets.py SHA256_OF_KEY SHA256_OF_CONTROL     prints where they were found, and how much was searched
"""
import collections, hashlib, json, os, re, stat, sys

NAMES = dict(zip(sys.argv[1:3], ("key", "control")))
SECRET = re.compile(rb"canary-[0-9a-f]{32}")
PIECE, OVERLAP = 1 << 20, 64
found = {name: collections.Counter() for name in NAMES.values()}
places = {name: [] for name in NAMES.values()}
searched = collections.Counter()
remembered = []


def look(data, kind, place):
    for match in SECRET.finditer(data):
        name = NAMES.get(hashlib.sha256(match.group()).hexdigest())
        if name:
            found[name][kind] += 1
            places[name].append(place) if len(places[name]) < 20 else None


def read(descriptor, start, length, kind, place):
    """A piece overlaps with the next, so that no secret lies between two."""
    seen = 0
    while seen < length:
        try:
            data = os.pread(descriptor, min(PIECE, length - seen) + OVERLAP, start + seen)
        except (OSError, OverflowError):
            break
        if not data:
            break
        look(data, kind, place)
        seen += PIECE
    return seen > 0


def read_file(path, kind):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        searched[kind] += read(descriptor, 0, 1 << 40, kind, path)
    finally:
        os.close(descriptor)


def read_memory(pid):
    kind = "own memory" if int(pid) == os.getpid() else "memory"
    try:
        with open(f"/proc/{pid}/maps") as maps:
            areas = [line.split()[:2] for line in maps]
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return
    readable = [area for area, mode in areas if mode.startswith("r")]
    for area in readable:
        start, end = (int(edge, 16) for edge in area.split("-"))
        read(descriptor, start, end - start, kind, f"/proc/{pid}/mem {area}")
    os.close(descriptor)
    searched[kind] += bool(readable)
    with open(f"/proc/{pid}/cmdline") as arguments:
        remembered.append(arguments.read().split("\0")[0])


def read_open_files(pid):
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for number in numbers:
        path = f"/proc/{pid}/fd/{number}"
        try:
            regular = stat.S_ISREG(os.stat(path).st_mode)
        except OSError:
            continue
        if regular:
            read_file(path, "open file")


for pid in filter(str.isdigit, os.listdir("/proc")):
    searched["process"] += 1
    read_file(f"/proc/{pid}/environ", "environ")
    read_file(f"/proc/{pid}/cmdline", "cmdline")
    read_open_files(pid)
    read_memory(pid)
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys")]
    for name in files:
        path = os.path.join(folder, name)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                read_file(path, "file")
        except OSError:
            pass
print(json.dumps({"found": found, "places": places, "searched": searched, "memory_of": remembered}))
