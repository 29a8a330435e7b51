"""Peak memory beneath the table of times: ``benchmark.extra_info["peak_mib"]`` of each benchmark."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    found = [(bench.name, bench.extra_info) for bench in session.benchmarks] if session else []
    lines = [f"{info['peak_mib']:>10,.1f}  {name}" for name, info in found if "peak_mib" in info]
    if lines:
        terminalreporter.write_sep("-", "peak memory beyond the input [MiB]")
        terminalreporter.write_line("\n".join(lines))
