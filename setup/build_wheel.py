# SPDX-License-Identifier: MIT
"""What pip calls to make the Python package: builds with make, and zips what is installed (PEP 517).

    pip install .                                   # for this machine, in build/wheel
    pip install . --config-settings build=DIR       # take the finished build in DIR
    pip wheel . --config-settings portable=yes      # for every Linux with glibc 2.28 or newer (setup/portable.sh)

It needs no package but pip itself. A wheel holds no links: the names by which programs open the simulated driver are
tiny libraries that need libsimgpu.so.
"""

import base64
import hashlib
import os
import platform
import subprocess
import tarfile
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10 and older
    import tomli as tomllib

TREE = Path(__file__).resolve().parents[1]
TIME = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is built
PORTABLE_TAG = "manylinux_2_28"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Returns the file name of the wheel that it has put into wheel_directory."""
    settings = config_settings or {}
    is_portable = settings.get("portable") == "yes"
    built = Path(settings["build"]).absolute() if "build" in settings else make(is_portable)
    tag = f"py3-none-{PORTABLE_TAG if is_portable else 'linux'}_{platform.machine()}"
    project = read_project()
    name = f"vramtrace-{project['version']}-{tag}.whl"
    with Wheel(Path(wheel_directory, name), f"vramtrace-{project['version']}.dist-info") as wheel:
        for path in sorted(path for path in (TREE / "python").rglob("*") if path.suffix in (".py", ".md")):
            wheel.add(path.relative_to(TREE / "python"), path)
        for path in native_files(built):
            wheel.add(Path("vramtrace/native") / path, built / "package" / path)
        licenses = [TREE / "LICENSE", *sorted((built / "package-licenses").iterdir())]
        for path in licenses:
            wheel.add(f"{wheel.info}/licenses/{path.name}", path)
        wheel.write(f"{wheel.info}/METADATA", metadata(project, licenses))
        wheel.write(f"{wheel.info}/entry_points.txt", entry_points(project))
        wheel.write(
            f"{wheel.info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: vramtrace\nRoot-Is-Purelib: false\nTag: {tag}\n",
        )
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Returns the file name of the source archive: what git tracks, with the metadata."""
    project = read_project()
    base = f"vramtrace-{project['version']}"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, check=True, stdout=subprocess.PIPE, text=True).stdout
    info = Path(sdist_directory, "PKG-INFO")
    info.write_text(metadata(project, [TREE / "LICENSE"]))
    with tarfile.open(Path(sdist_directory, f"{base}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(info, f"{base}/PKG-INFO")
        for path in filter(None, tracked.split("\0")):
            archive.add(TREE / path, f"{base}/{path}", recursive=False)
    info.unlink()
    return f"{base}.tar.gz"


def make(is_portable):
    """Build what the wheel holds; returns the build folder."""
    built = TREE / "build" / ("portable" if is_portable else "wheel")
    command = ["setup/portable.sh", built] if is_portable else ["make", f"O={built}", "package"]
    subprocess.run(command, cwd=TREE, check=True)
    return built


def native_files(built):
    """The files of `make package`, as paths below its folder."""
    package = built / "package"
    files = sorted(path.relative_to(package) for path in package.rglob("*") if path.is_file())
    if not files:
        raise FileNotFoundError(f"'{package}' is empty: run `make package O={built}`")
    return files


def read_project():
    """The table [project] of pyproject.toml."""
    return tomllib.loads((TREE / "pyproject.toml").read_text())["project"]


def metadata(project, licenses):
    """METADATA, as core metadata 2.4 has it."""
    extras = project["optional-dependencies"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {path.name}" for path in licenses),
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {need}; extra == '{extra}'" for extra, needs in extras.items() for need in needs),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (TREE / project["readme"]).read_text()


def entry_points(project):
    """entry_points.txt: the commands and the plugin."""
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return "\n".join(f"[{name}]\n" + "".join(f"{n} = {v}\n" for n, v in rows.items()) for name, rows in groups.items())


class Wheel:
    """A wheel being written; its RECORD is written last."""

    def __init__(self, path, info):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.info = info
        self.record = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.record.append(f"{self.info}/RECORD,,\n")
        self.put(f"{self.info}/RECORD", "".join(self.record).encode(), 0o644)
        self.archive.close()

    def add(self, name, path):
        """A file of the tree or of the build, executable if it is there."""
        self.write(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def write(self, name, content, mode=0o644):
        content = content if isinstance(content, bytes) else content.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}\n")
        self.put(str(name), content, mode)

    def put(self, name, content, mode):
        member = zipfile.ZipInfo(name, TIME)
        member.external_attr = (0o100000 | mode) << 16
        member.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(member, content)
