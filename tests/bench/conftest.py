"""Peak memory beneath the table of times: ``benchmark.extra_info["peak_mib"]`` of each benchmark."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    found = [(bench.name, bench.extra_info) for bench in session.benchmarks] if session else []
    lines = [f"{info['peak_mib']:>10,.1f}  {name}" for name, info in found if "peak_mib" in info]
    if lines:
        terminalreporter.write_sep("-", "peak memory beyond the input [MiB]")
        terminalreporter.write_line("\n".join(lines))
    for bench in session.benchmarks if session else []:
        if "simgrid_seconds" in bench.extra_info:
            peer, own = bench.extra_info["simgrid_seconds"], bench.stats.mean
            terminalreporter.write_line(f"{bench.name}, CPU s: SimGrid {peer:.3f}, simnet {own:.3f}")
