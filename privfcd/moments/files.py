"""Moments in a file, with the privacy report and the rule of the release that they came from.

The format is NumPy's .npz: plain arrays, and one JSON text; nothing is pickled. A file holds one Moments for each party.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.ledger.privacy_report import PrivacyReport, ReportedPart
from privfcd.moments.noise_law import NoiseTerm
from privfcd.moments.origins import Origin, origin_of
from privfcd.moments.second_moments import Moments, pooled
from privfcd.reading import check_ratio, content_of, parsing
from privfcd.whole_files import write_whole

FORMAT, VERSION = "privfcd moments", 2
READ = (1, 2)
"""Versions that are read. Those of version 1 do not say whose moments have noise: their reports are asked."""

MOST_BYTES = 512 * 2**20

_HEADER, _MOST_HEADER = "header", 16 * 2**20
_NUMBERS = ("epsilon", "delta", "rho", "pure_epsilon")


@dataclass(frozen=True, eq=False)
class StoredMoments:
    """What a file of moments holds.

    Attributes
    ----------
    parts : tuple of Moments
        One for each party.
    privacy_report : list of PrivacyReport
        Of the release; empty where the file has none.
    rule : dict
        What the release chose, and from what.
    """

    parts: tuple[Moments, ...]
    privacy_report: list[PrivacyReport] = field(default_factory=list)
    rule: dict[str, Any] = field(default_factory=dict)

    @property
    def moments(self) -> Moments:
        """The moments of all rows."""
        return pooled(self.parts)


def save_moments(
    path: str | os.PathLike[str],
    moments: Moments | Sequence[Moments],
    *,
    privacy_report: Sequence[PrivacyReport] = (),
    rule: Mapping[str, Any] | None = None,
) -> None:
    """Write moments to a .npz file, replacing it as a whole.

    Parameters
    ----------
    path : path
        Ends in .npz.
    moments : Moments or sequence of Moments
        One for each party, of the same columns.
    privacy_report, rule : optional
        Of the release, see `MomentsRelease`.

    Raises
    ------
    InvalidParameter
        The path has another ending or cannot be written, or there are no moments.
    """
    target = _checked_path(checks.path("path", path))
    parts = [moments] if isinstance(moments, Moments) else list(moments)
    if not parts or not all(isinstance(part, Moments) for part in parts):
        raise checks.refuse("moments", type(moments).__name__, "Moments, or a sequence with at least one")
    if any(part.columns != parts[0].columns for part in parts):
        raise InvalidParameter("moments must have the same columns in one order")
    arrays: dict[str, NDArray[Any]] = {}
    for p, part in enumerate(parts):
        arrays[f"{p}.matrix"] = part.matrix
        if part.mean is not None:
            arrays[f"{p}.mean"] = part.mean
        for t, term in enumerate(part.noise):
            arrays[f"{p}.noise.{t}.sd"] = np.asarray(term.sd, dtype=np.float64)
            if term.carry is not None:
                arrays[f"{p}.noise.{t}.carry"] = term.carry
    header = {
        "format": FORMAT,
        "version": VERSION,
        "columns": list(parts[0].columns),
        "rows": [part.rows for part in parts],
        "terms": [len(part.noise) for part in parts],
        "origins": [[[origin.party, origin.noise] for origin in part.origins] for part in parts],
        "differences": [part.differences for part in parts],
        "privacy_report": [report.as_dict() for report in privacy_report],
        "rule": _plain(dict(rule or {})),
    }
    arrays[_HEADER] = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_whole(target, content.getvalue())


def load_moments(path: str | os.PathLike[str]) -> StoredMoments:
    """Read what `save_moments` wrote.

    Parameters
    ----------
    path : path
        An .npz file.

    Returns
    -------
    StoredMoments
        Each party's moments, and the reports on what was paid for them.

    Raises
    ------
    InvalidParameter
        There is no such file, or it is damaged, of another format, or of a later version.
    """
    target = _checked_path(path)
    what = f"path {str(target)!r}"
    content = content_of(target, what, MOST_BYTES)
    with parsing(f"{what} is not a file of moments, or damaged"):
        arrays = _arrays(content, what)
        if arrays[_HEADER].nbytes > _MOST_HEADER:
            raise ValueError(f"its header has more than {_MOST_HEADER} bytes")
        header = json.loads(arrays[_HEADER].tobytes().decode())
        if header["format"] != FORMAT:
            raise InvalidParameter(f"{what} is not a file of moments: its format is {header['format']!r}")
        if header["version"] not in READ:
            raise InvalidParameter(
                f"{what} is of version {header['version']!r}, and this privfcd reads versions up to {VERSION}"
            )
        if not header["rows"]:
            raise InvalidParameter(f"{what} holds no moments")
        reports = [_report(each) for each in header["privacy_report"]]
        origins = _origins(header, reports)
        parts = tuple(_part(arrays, p, header, origins[p]) for p in range(len(header["rows"])))
        rule = dict(header["rule"])
    return StoredMoments(parts, reports, rule)


def _arrays(content: bytes, what: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file; each is as large as its place in the file says, and no larger."""
    with zipfile.ZipFile(io.BytesIO(content)) as stored:
        check_ratio(sum(member.file_size for member in stored.infolist()), len(content), what)
        return {member.filename.removesuffix(".npy"): _array(stored.read(member)) for member in stored.infolist()}


def _array(content: bytes) -> NDArray[Any]:
    """Return an array in NumPy's format, whose header is looked at before anything is made for it."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "fiu" or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of {len(content)} bytes says that it has shape {shape} and type {dtype}")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or Path(path).suffix != ".npz":
        raise checks.refuse("path", path, "the path of a .npz file")
    return Path(path)


def _origins(header: Mapping[str, Any], reports: Sequence[PrivacyReport]) -> list[tuple[Origin, ...]]:
    """Return whose rows each part is of; `Moments` itself puts right what its noise contradicts.

    A file of version 1 says so by its reports alone: one for each part, or all for the only part, a sum over their tables.
    """
    number = len(header["rows"])
    if header["version"] > 1:
        stored = [tuple(Origin(party, noise) for party, noise in part) for part in header["origins"]]
        if len(stored) != number or not all(stored):
            raise ValueError(f"origins of {len(stored)} parts, expected {number}, each with one at least")
        return stored
    said = [
        origin_of(report.party, noisy=not (math.isinf(report.epsilon) and math.isinf(report.rho)), secure=report.secure)
        for report in reports
    ]
    if len(said) == number:
        return [(origin,) for origin in said]
    return [tuple(said)] if number == 1 else [()] * number


def _part(
    arrays: Mapping[str, NDArray[Any]], p: int, header: Mapping[str, Any], origins: tuple[Origin, ...]
) -> Moments:
    noise = []
    for t in range(header["terms"][p]):
        sd = np.asarray(arrays[f"{p}.noise.{t}.sd"], dtype=np.float64)
        noise.append(NoiseTerm(float(sd) if sd.ndim == 0 else sd, arrays.get(f"{p}.noise.{t}.carry")))
    return Moments(
        np.asarray(arrays[f"{p}.matrix"], dtype=np.float64),
        header["rows"][p],
        tuple(str(name) for name in header["columns"]),
        tuple(noise),
        arrays.get(f"{p}.mean"),
        origins,
        header["differences"][p] if "differences" in header else False,
    )


def _report(stored: Mapping[str, Any]) -> PrivacyReport:
    values = dict(stored)
    values["parts"] = [ReportedPart(**part) for part in values["parts"]]
    for name in _NUMBERS:
        values[name] = float(values[name])  # infinities are text in JSON
    values["assumptions"] = tuple(values["assumptions"])
    return PrivacyReport(**values)


def _plain(value: Any) -> Any:
    """Return `value` as JSON holds it; infinities become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
