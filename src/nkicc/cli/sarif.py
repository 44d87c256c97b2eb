"""Findings as SARIF 2.1.0 (OASIS), which code-scanning services and editors read."""

from __future__ import annotations

import hashlib
import linecache
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nkicc.ir.base import show_ranks
from nkicc.ir.errors import CATALOGUE
from nkicc.ir.findings import Finding
from nkicc.ir.types import Loc

from .report import mark, source_line

__all__ = ["document"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def document(findings: list[Finding], file: str) -> dict[str, Any]:
    """The log of one run. `file` is what was checked; it stands in where a finding has no line of its own."""
    index = {code: i for i, code in enumerate(CATALOGUE)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "nkicc", "version": version("nkicc"), "rules": _rules()}},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}},
                "results": [_result(finding, file, index) for finding in findings],
            }
        ],
    }


def _rules() -> list[dict[str, Any]]:
    return [
        {
            "id": code,
            "shortDescription": {"text": entry.title},
            "help": {"text": f"nkicc explain {code}"},
            "properties": {"source": entry.source},
        }
        for code, entry in CATALOGUE.items()
    ]


def _result(finding: Finding, file: str, index: dict[str, int]) -> dict[str, Any]:
    text = finding.message + (f" {finding.hint}" if finding.hint else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": finding.severity.value,
        "message": {"text": text},
        "locations": [_location(finding.loc or Loc(file, 1), finding.operand)],
        "partialFingerprints": {"nkicc/v1": _fingerprint(finding)},
    }
    related = [
        {"id": i, "message": {"text": other.message}, **(_location(other.loc, finding.operand) if other.loc else {})}
        for i, other in enumerate(finding.related)
    ]
    if related:
        result["relatedLocations"] = related
    properties = {
        "operand": finding.operand,
        "ranks": show_ranks(sorted(finding.ranks)) if finding.ranks else "",
        "cores": show_ranks(sorted(finding.cores)) if finding.cores else "",
    }
    if any(properties.values()):
        result["properties"] = {name: value for name, value in properties.items() if value}
    return result


def _location(loc: Loc, operand: str) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(loc.line, 1)}
    line = source_line(loc)
    if line:
        start, length = mark(line, operand)
        indent = _indent(loc)
        region |= {"startColumn": indent + start + 1, "endColumn": indent + start + length + 1}
        region["snippet"] = {"text": line}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(loc.file), "region": region}}
    if loc.function:
        location["logicalLocations"] = [{"name": loc.function, "kind": "function"}]
    return location


def _artifact(file: str) -> dict[str, str]:
    """Relative to the working directory where that holds the file: services match it against their checkout."""
    path = Path(os.path.abspath(file))
    if path.is_relative_to(Path.cwd()):
        # `as_uri` quotes what a URI cannot hold; the base goes off the front again.
        return {"uri": path.as_uri().removeprefix(Path.cwd().as_uri()).lstrip("/"), "uriBaseId": "SRCROOT"}
    return {"uri": path.as_uri()}


def _indent(loc: Loc) -> int:
    line = linecache.getline(loc.file, loc.line)
    return len(line) - len(line.lstrip())


def _fingerprint(finding: Finding) -> str:
    """Stays when lines are inserted above."""
    text = f"{finding.code}\n{source_line(finding.loc)}\n{finding.operand}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
