"""A copy of the installed package that precedes it on the path, with one file changed."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.mutations.mutant import Mutant


class Overlay:
    """The copy, and the folder where Cython files are compiled for it."""

    def __init__(self, root: Path, build: Path) -> None:
        """Copy the package to `build`/package; `root` has the sources that it was built from."""
        self.folder = build / "package"
        self._root = root
        self._source = build / "source"
        self._native = build / "native"
        self._installed = Path(sysconfig.get_path("platlib"))
        for folder in (self.folder, self._source):
            shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self._installed / "broker", self.folder / "broker", ignore=ignored)

    def change(self, mutant: Mutant) -> Path | None:
        """Put the changed file into the copy; return the replaced one, or None.

        None: it does not compile.
        """
        file, original = Path(mutant.file), (self._root / mutant.file).read_bytes()
        changed = mutant.applied(original)
        if file.suffix == ".py":
            target = file.relative_to("src")
            (self.folder / target).write_bytes(changed)
            return target
        if not self._source.exists():
            self._configure()
        (self._source / file).write_bytes(changed)
        module = file.relative_to("src/_native").with_suffix("")
        built = self._compiled(module)
        (self._source / file).write_bytes(original)
        if built is None:
            return None
        target = Path("broker/_native") / module.parent / built.name
        shutil.copyfile(built, self.folder / target)
        return target

    def restore(self, target: Path) -> None:
        """Restore the installed files."""
        shutil.copyfile(self._installed / target, self.folder / target)

    def _configure(self) -> None:
        shutil.copytree(self._root / "src/_native", self._source / "src/_native")
        shutil.copyfile(self._root / "CMakeLists.txt", self._source / "CMakeLists.txt")
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"]
        options += [f"-DCMAKE_MAKE_PROGRAM={_program('ninja')}"]
        options += ["-DCMAKE_C_FLAGS_RELEASE=-O1"]  # compiled once, run for seconds
        folders = ["-S", str(self._source), "-B", str(self._native), "-G", "Ninja"]
        command = [_program("cmake"), *folders, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _compiled(self, module: Path) -> Path | None:
        command = [_program("ninja"), "-C", str(self._native), "_".join(module.parts)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            return None
        return next((self._native / "modules" / module.parent).glob(f"{module.name}.*.so"))


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)
