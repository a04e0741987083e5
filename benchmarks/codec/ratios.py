"""Print a line per row of a pytest-benchmark report: our time, and others with their ratio.

python -m benchmarks.codec.ratios build/bench-codec.json [-o json]
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

OURS = "polylog"


def rates_of(report: Path) -> dict[tuple[str, str], str]:
    """Return MB/s as text by group and name, of the benchmarks that have it."""
    return {
        (each["group"], each["name"]): f", {each['extra_info']['megabytes_per_second']:,.0f} MB/s"
        for each in json.loads(report.read_text())["benchmarks"]
        if "megabytes_per_second" in each["extra_info"]
    }


def rows_of(report: Path) -> dict[str, dict[str, float]]:
    """Return ns per record or per call of each benchmark, by group and name."""
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for each in json.loads(report.read_text())["benchmarks"]:
        seconds = each["stats"]["min"]
        extra = each["extra_info"]
        cost = extra.get("ns_per_record") or extra.get("ns_per_row") or seconds * 1e9
        rows[each["group"]][each["name"]] = cost
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    rows = rows_of(arguments.report)
    if arguments.output == "json":
        print(json.dumps(rows, indent=2))
        return
    rates = rates_of(arguments.report)
    for group, costs in sorted(rows.items()):
        ours = min(cost for name, cost in costs.items() if name.startswith(OURS))
        texts = [
            f"{name} {cost:,.1f} ns{rates.get((group, name), '')}"
            + ("" if name.startswith(OURS) else f" ({cost / ours:.2f}x)")
            for name, cost in sorted(costs.items(), key=lambda pair: pair[1])
        ]
        print(f"{group:<40} {', '.join(texts)}")


if __name__ == "__main__":
    main()
