"""Tables of any width, readers that go away, streams that are closed or narrow, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simnet.cli import run_command, table

SIMNET = [sys.executable, "-m", "simnet"]
SCENARIO = """\
name: quick
question: Is one node enough?
topology: {from: hgx-h100, nodes: 1}
workload:
  model: llama-3.1-8b
  sequence_length: 4096
  parallelism: {tp: 2}
  batch: {global_batch_size: 8}
"""
HEADS = ("case", "GPUs", "step\ns", "tok/s\n/GPU", "MFU\n%", "exposed\ns", "minutes", "hottest\nlink")
ROWS = (
    ("topology.join.taper=180", "16,384", "12.345", "12,345", "45.6", "10.987", "12345.6", "leaf-spine 100 %"),
    ("modular", "8", "0.001", "7", "0.1", "0.000", "1.0", "nvlink 3 %"),
)
ARE_NUMBERS = (False, *[True] * 6, False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.yaml").write_text(SCENARIO)
    return tmp_path


def printed(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(table, "_screen_width", lambda: width)
    table.print_table(HEADS, ARE_NUMBERS, ROWS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [1, 10, 20, 30, 40, 60, 79, 80, 100, 200])
def test_no_width_cuts_a_number(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(width, capsys, monkeypatch)
    words = " ".join(lines).split()
    for row in ROWS:
        for cell in row[1:]:
            assert set(cell.split()) <= set(words)
    if width >= 26:  # the first column and the widest number
        assert max(map(len, lines)) <= width


def test_80_columns_hold_the_main_table_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(80, capsys, monkeypatch)
    assert "" not in lines
    assert sum(line.startswith("case") for line in lines) == 1


def test_a_narrow_table_comes_in_parts_that_all_name_the_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(40, capsys, monkeypatch)
    num_parts = lines.count("") + 1
    assert num_parts > 1
    assert sum(line.startswith("modular") for line in lines) == num_parts


def test_a_bug_in_a_case_is_told_once_and_the_others_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simnet.runner import cases
    from simnet.runner.case import Prepared, Simulated, simulate

    def buggy(prepared: Prepared, *, with_timeline: bool = True) -> Simulated:
        if prepared.case.workload.parallelism.tp != 2:
            raise ZeroDivisionError("oh")
        return simulate(prepared, with_timeline=with_timeline)

    monkeypatch.setattr(cases, "simulate", buggy)
    (folder / "quick.yaml").write_text(SCENARIO + "vary: {workload.parallelism.tp: [2, 4, 8]}\n")
    words = ["run", "quick.yaml", "-o", "results", "--jobs", "1"]
    assert run_command(words) == 3
    out, err = capsys.readouterr()
    assert "tp=2 " in out
    assert err.splitlines()[3:] == [
        "error: tp=4: ZeroDivisionError: oh",
        "error: tp=8: ZeroDivisionError: oh",
        "error: bug in simnet: CaseBugError: it ended 2 of 3 cases; --debug shows where",
    ]
    text = (folder / "results" / "results.json").read_text()
    assert "ZeroDivisionError" in text
    assert "raceback" not in text
    assert (folder / "results" / "report.html").is_file()
    with pytest.raises(Exception, match="2 of 3") as caught:
        run_command([*words, "--debug"])
    assert "in buggy" in caught.value.__notes__[0]


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which ``simnet`` is this one; the status is that of the first command of a pipe."""
    root = str(Path(__file__).parents[3])
    script = f'simnet() {{ "{sys.executable}" -m simnet "$@"; }}; {command}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
def test_a_run_whose_reader_goes_away_writes_everything(folder: Path) -> None:
    done = shell("simnet run quick.yaml -o results 2>&1 | true", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"results.json", "results.csv", "report.html"} <= {path.name for path in (folder / "results").iterdir()}


@pytest.mark.parametrize("command", ["simnet list | true", "simnet schema scenario | true", "simnet --help | true"])
def test_a_reader_that_goes_away_is_exit_0(folder: Path, command: str) -> None:
    done = shell(command, folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_stdout_is_one_clear_line(folder: Path) -> None:
    done = shell("simnet list > /dev/full", folder)
    assert done.returncode == 2
    assert done.stderr == "error: stdout: cannot be written; found No space left on device\n"


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&- <&-", "2>/dev/full"])
def test_closed_streams_are_no_bug(folder: Path, closed: str) -> None:
    assert shell(f"simnet list {closed}", folder).returncode == 0
    assert shell(f"simnet check nothing.yaml {closed}", folder).returncode == 2


@pytest.mark.slow
def test_a_narrow_locale_takes_every_name(folder: Path) -> None:
    (folder / "quick.yaml").write_text(SCENARIO + "variants: {ä…: {}}\n", encoding="utf-8")
    done = shell(
        "simnet run quick.yaml -o results", folder, PYTHONUTF8="0", LC_ALL="C", LANG="C", PYTHONCOERCECLOCALE="0"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "results" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_says_in_one_line_what_is_kept(folder: Path, jobs: str) -> None:
    (folder / "quick.yaml").write_text(
        SCENARIO.replace("nodes: 1", "nodes: 2").replace("tp: 2", "tp: 2, pp: 8, virtual_stages: 4")
        + "vary: {workload.batch.global_batch_size: [8, 4096]}\n"
    )
    command = [*SIMNET, "run", "quick.yaml", "-o", "results", "--jobs", jobs]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        start_new_session=True,
    ) as run:
        end_s = time.monotonic() + 60
        while not list(folder.glob("results/cases/*/result.json")) and time.monotonic() < end_s:
            time.sleep(0.01)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out == ""
    last = err.splitlines()[-1]
    assert last == "interrupted: 1 of 2 cases are kept in results; the same command goes on from there"
    assert "Traceback" not in err
    assert not [path for path in folder.glob("results/**/.*") if path.is_file()]


def test_folded_text_keeps_a_number_beside_its_unit(monkeypatch, capsys):
    monkeypatch.setattr(table, "WIDTH_ELSEWHERE", 20)
    table.print_text("it loses about 12 % of a\n\nstep of some 400 ms and moves 5 GB/s")
    assert capsys.readouterr().out == "it loses about 12 %\nof a\n\nstep of some 400 ms\nand moves 5 GB/s\n"


def test_labelled_lines_fold_beside_their_label_in_a_terminal_and_stay_whole_in_a_pipe(monkeypatch, capsys):
    rows = [("price", "from a list of the vendor that is long"), ("power", "1 MW")]
    table.print_pairs(rows)
    assert capsys.readouterr().out == "price  from a list of the vendor that is long\npower  1 MW\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(table, "_screen_width", lambda: 32)
    table.print_pairs(rows)
    assert capsys.readouterr().out == "price  from a list of the vendor\n       that is long\npower  1 MW\n"


HALF_SENT = """\
import sys, time
from pathlib import Path
from simnet.processes import WorkerPool

def send_half(mark):
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["result_queue"]._writer._send((1000).to_bytes(4, "big"))  # the length of a message, and no message
    Path(mark).touch()
    time.sleep(60)

if __name__ == "__main__":
    mark = Path("half-sent")
    try:
        with WorkerPool(1) as pool:
            pool.submit(send_half, str(mark))
            while not mark.exists():
                time.sleep(0.01)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_a_run_whose_worker_has_sent_half_a_result(folder):
    (folder / "half.py").write_text(HALF_SENT)
    done = subprocess.run(
        [sys.executable, "half.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_columns_of_text_that_do_not_fit_fold_about_alike_and_no_narrower_than_needed(monkeypatch, capsys):
    monkeypatch.setattr(table, "WIDTH_ELSEWHERE", 52)  # 30 are needed, 58 wanted, 6 stand between: 16 to give
    rows = [("runs", "gpu, precision, stack", "A100-40GB, bf16, llm-foundry", "19")]
    table.print_table(("table", "by", "key", "rows"), (False, False, False, True), rows)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "runs   gpu, precision,  A100-40GB, bf16,          19",
        "       stack            llm-foundry",
    ]
