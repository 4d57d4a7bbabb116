"""How long the package and its command take to start, what they load, and how much room an installation takes.

Times are medians over fresh interpreters: on the wall's clock, which a busy machine lengthens, and of processors. Sizes are
of the files that each distribution put on disk, compiled bytecode included, as its metadata lists them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median

import privfcd

IMPORT_AIM, HELP_AIM = 0.5, 0.7
"""Seconds, from the start of the interpreter."""
HEAVY = (
    *("numpy", "scipy", "pandas", "networkx", "dp_accounting", "matplotlib", "opendp", "numba", "polars", "pyarrow"),
    *("jinja2", "rich", "click", "flwr", "sklearn"),
)
LEARN = """
import numpy, privfcd
noise = privfcd.SimulatedNoise(0)
rows = [numpy.random.default_rng(seed).normal(size=(2000, 6)) for seed in range(3)]
privfcd.learn(rows, epsilon=5, noise=noise, rounds=5)
"""
HELP = "import sys; sys.argv = ['privfcd', '--help']; from privfcd.cli import main; main()"
STARTS = {
    "Python itself": "",
    "import privfcd": "import privfcd",
    "privfcd --help": HELP,
    "first private graph (3 parties, 6 columns)": LEARN,
}


def seconds(code: str, repeats: int) -> tuple[float, float]:
    """Return the median seconds of a fresh interpreter that runs `code`: on the wall's clock, and of processors."""
    times = []
    for _ in range(repeats + 1):
        began, before = time.perf_counter(), os.times()
        _run(code)
        after = os.times()
        spent = after.children_user - before.children_user + after.children_system - before.children_system
        times.append((time.perf_counter() - began, spent))
    wall, processor = zip(*times[1:], strict=True)  # the first one may compile and read files
    return median(wall), median(processor)


def loaded(code: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after `code`."""
    tail = "\nimport atexit, sys\natexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n"
    return set(_run(tail + code).splitlines()[-1].split())


def _run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(privfcd.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


@dataclass(frozen=True)
class Installed:
    """A distribution in this environment.

    Attributes
    ----------
    name : str
    size : int
        Bytes of its files.
    needs : tuple of (str, frozenset of str)
        What it requires here: names, and the extras that are asked for.
    """

    name: str
    size: int
    needs: tuple[tuple[str, frozenset[str]], ...]


def installed(name: str, extras: frozenset[str] = frozenset()) -> Installed | None:
    """Return a distribution with what it needs for some of its extras, or None where it is not installed."""
    from packaging.requirements import Requirement

    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    needs = []
    for text in found.requires or ():
        requirement = Requirement(text)
        asked = ("", *sorted(extras))
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in asked):
            needs.append((canonical(requirement.name), frozenset(requirement.extras)))
    size = sum(path.stat().st_size for file in found.files or () if (path := Path(str(file.locate()))).is_file())
    return Installed(canonical(name), size, tuple(needs))


def canonical(name: str) -> str:
    """Return a distribution's name as all spellings of it are compared."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def closure(name: str, extras: Iterable[str] = ()) -> tuple[dict[str, int], set[str]]:
    """Return the sizes of a distribution and all that it needs, by name; and the names of what is not installed."""
    sizes: dict[str, int] = {}
    absent: set[str] = set()
    done: set[tuple[str, frozenset[str]]] = set()
    todo = [(canonical(name), frozenset(extras))]
    while todo:
        if (item := todo.pop()) in done:
            continue
        done.add(item)
        found = installed(*item)
        if found is None:
            absent.add(item[0])
            continue
        sizes[found.name] = found.size
        todo.extend(found.needs)
    return sizes, absent


def extras_of(name: str) -> list[str]:
    """Return the extras that a distribution offers, in the order of its metadata."""
    return metadata.metadata(name).get_all("Provides-Extra") or []


def _megabytes(sizes: Mapping[str, int]) -> str:
    return f"{sum(sizes.values()) / 1e6:,.0f} MB"


def print_sizes(name: str = "privfcd") -> None:
    """Print the minimal installation by distribution, and what each extra adds to it."""
    extras = extras_of(name)
    base, absent = closure(name)
    print(
        f"\nminimal installation: {_megabytes(base)}"
        + (f"; not installed: {', '.join(sorted(absent))}" if absent else "")
    )
    small = {key: size for key, size in base.items() if size < 1e6}
    for key, size in sorted(base.items(), key=lambda item: -item[1]):
        if key not in small:
            print(f"  {key:24} {size / 1e6:>6.1f} MB")
    if small:
        print(f"  {len(small)} smaller ones{'':11} {sum(small.values()) / 1e6:>6.1f} MB: {', '.join(sorted(small))}")
    print("\nwhat each extra adds to it")
    for extra in extras:
        sizes, absent = closure(name, (extra,))
        added = {key: size for key, size in sizes.items() if key not in base}
        if absent:
            print(f"  {extra:12} not all of it is installed here: {', '.join(sorted(absent))}")
            continue
        largest = sorted(added, key=lambda key: -added[key])[:4]
        print(
            f"  {extra:12} {_megabytes(added):>9}, {len(added):>3} distributions: {', '.join(largest)}"
            + (", ..." if len(added) > 4 else "")
        )


def main(quick: bool = False) -> bool:
    """Measure and print; return whether every aim holds."""
    repeats = 3 if quick else 11
    times = {name: seconds(code, repeats) for name, code in STARTS.items()}
    plain = loaded("")
    print(f"median of {repeats} fresh interpreters, Python {sys.version.split()[0]}")
    print(f"{'':44} {'seconds':>8} {'processor':>10} {'modules':>8}  large ones among them")
    for name, code in STARTS.items():
        new = loaded(code) - plain
        wall, processor = times[name]
        large = ", ".join(each for each in HEAVY if each in new) or "none"
        print(f"{name:44} {wall:>8.3f} {processor:>10.3f} {len(new):>8}  {large}")
    fine = []
    for name, aim in (("import privfcd", IMPORT_AIM), ("privfcd --help", HELP_AIM)):
        fine.append(times[name][0] < aim)
        print(f"  {name}: below {aim} s: {'yes' if fine[-1] else 'NO'}")
    try:
        print_sizes()
    except metadata.PackageNotFoundError:
        print("\nsizes: privfcd is not installed in this environment, so its distributions are not known")
    except ModuleNotFoundError as error:
        print(f"\nsizes: {error.name} is needed to read the distributions' requirements: pip install {error.name}")
    return all(fine)
