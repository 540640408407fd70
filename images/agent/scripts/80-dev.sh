#!/bin/bash
# Settings of the development tools.
. "$RECIPE/scripts/env.sh"

# Debian's name is taken by another program there, which the image does not have.
ln -sf /usr/bin/fdfind /usr/local/bin/fd

# Both Playwrights look for browsers of their own, by the number of a release. They find the image's Chromium instead.
browsers=/usr/local/share/ms-playwright
python3 - "$browsers" <<'LINKS'
import json, os, pathlib, sys
import playwright
packages = [pathlib.Path(playwright.__file__).parent / "driver/package", pathlib.Path("/usr/local/lib/node_modules/playwright-core")]
names = {"chromium": "chrome", "chromium-headless-shell": "headless_shell"}
for package in packages:
    for browser in json.loads((package / "browsers.json").read_text())["browsers"]:
        program = names.get(browser["name"])
        if program is None:
            continue
        folder = pathlib.Path(sys.argv[1]) / f"{browser['name'].replace('-', '_')}-{browser['revision']}"
        # The name of the folder inside differs between releases and architectures.
        shell = "chrome-headless-shell"
        for inner, program in [("chrome-linux", program), ("chrome-linux64", program), (f"{shell}-linux64", shell), (f"{shell}-linux", shell)]:
            link = folder / inner / program
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to("/usr/bin/chromium")
        (folder / "INSTALLATION_COMPLETE").touch()
LINKS

# Variables that every process of a sandbox gets.
mkdir -p /usr/local/etc/sandyard
printf 'PLAYWRIGHT_BROWSERS_PATH=%s\nGOTOOLCHAIN=local\n' "$browsers" >/usr/local/etc/sandyard/environment

cmake --version | head -1
rustc --version
cargo --version
go version
java --version | head -1
pnpm --version
