"""Builds sdist and wheel so that equal sources give equal bytes.

Setuptools writes times, owners and permissions as it finds them. Both archives are written
again without those: in order of names, for nobody, at the time that ``SOURCE_DATE_EPOCH``
says, or at the first one that a zip file can hold.
"""

import gzip
import io
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:  # to install needs no wheel
        bdist_wheel = None

FIRST = 315532800
"""1980-01-01, where the calendar of zip files begins."""


def when() -> int:
    """The time that everything in an archive is given."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH") or FIRST), FIRST)


def mode(found: int, folder: bool = False) -> int:
    """Permissions, whatever the umask was: only whether a file can be run is kept."""
    return 0o755 if folder or found & stat.S_IXUSR else 0o644


def repack_tar(path: Path) -> None:
    """Write a ``.tar.gz`` again."""
    with tarfile.open(path) as old:
        members = sorted(old.getmembers(), key=lambda each: each.name)
        contents = [old.extractfile(each).read() if each.isfile() else b"" for each in members]
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=when()) as packed:
        with tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as new:
            for member, content in zip(members, contents):
                plain = tarfile.TarInfo(member.name)
                plain.type, plain.size, plain.mtime = member.type, len(content), when()
                plain.mode = mode(member.mode, member.isdir())
                new.addfile(plain, io.BytesIO(content))


def repack_zip(path: Path) -> None:
    """Write a wheel again, what describes it last, as installers like it."""
    with zipfile.ZipFile(path) as old:
        found = [(each, old.read(each)) for each in old.infolist()]
    found.sort(key=lambda pair: (".dist-info/" in pair[0].filename, pair[0].filename))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for member, content in found:
            plain = zipfile.ZipInfo(member.filename, time.gmtime(when())[:6])
            plain.compress_type = zipfile.ZIP_DEFLATED
            plain.create_system = 3
            plain.external_attr = (stat.S_IFREG | mode(member.external_attr >> 16)) << 16
            new.writestr(plain, content)


class Sdist(sdist):
    """The source archive."""

    def make_archive(self, *args, **options):
        written = super().make_archive(*args, **options)
        repack_tar(Path(written))
        return written


commands = {"sdist": Sdist}

if bdist_wheel is not None:

    class Wheel(bdist_wheel):
        """The wheel."""

        def run(self):
            super().run()
            for command, _, path in self.distribution.dist_files:
                if command == "bdist_wheel":
                    repack_zip(Path(path))

    commands["bdist_wheel"] = Wheel


setup(cmdclass=commands)
