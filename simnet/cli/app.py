"""The verbs. Each imports what it needs when it is called, so that ``simnet --help`` stays quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(
    name="simnet",
    help="Step time, scaling and cost of training on GPU clusters, before they are bought.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

_TABLE: Any = {"metavar": "FILE", "exists": True, "dir_okay": False, "readable": True}
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override one value by its dotted path; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback(invoke_without_command=True)
def root(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Step time, scaling and cost of training on GPU clusters, before they are bought."""
    del debug  # taken out of the words before they get here; declared for --help
    if version:
        from simnet.cli.output import say
        from simnet.version import __version__

        say(__version__)
        raise typer.Exit


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Scenarios, topologies, models, parts.")],
) -> None:
    """Validate files; all problems of a file at once."""
    from simnet.cli.files import check_files

    check_files(files)


@app.command()
def show(
    topology: Annotated[str, typer.Argument(help="Name or path of a topology.")],
    *,
    sets: SetOption = None,
    json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it; the ending tells the format.")] = None,
) -> None:
    """Print a cluster's GPUs, switches, cables, power and price."""
    from simnet.cli.machine import show_topology

    show_topology(topology, sets=sets or (), as_json=json, plot=plot)


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="Name or path of a scenario.")],
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder for all artefacts.")] = None,
    sets: SetOption = None,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Worker processes; 0 takes all cores.")] = 0,
    fidelity: Annotated[
        Literal["screen", "simulate"] | None,
        typer.Option(help="By closed forms (no cables), or by the engine; else as the scenario says."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Simulate all cases of a scenario; -o writes data and a report."""
    from simnet.library import is_about_collectives

    if is_about_collectives(scenario):
        from simnet.cli.run_collective import run_collective_question

        code = run_collective_question(scenario, out=out, sets=sets or (), as_json=json)
    else:
        from simnet.cli.run import run_scenario

        code = run_scenario(scenario, out=out, sets=sets or (), jobs=jobs, fidelity=fidelity, as_json=json)
    raise typer.Exit(code)


@app.command()
def validate(
    *,
    runs: Annotated[Path | None, typer.Option(help="Table of training runs.", **_TABLE)] = None,
    collectives: Annotated[Path | None, typer.Option(help="Table of nccl-tests results.", **_TABLE)] = None,
    flows: Annotated[list[Path] | None, typer.Option(help="Flow case; may be repeated.", **_TABLE)] = None,
    fidelity: Annotated[
        Literal["screen", "simulate"], typer.Option(help="Step times by the closed form, or by the engine (minutes).")
    ] = "screen",
    json: JsonOption = False,
) -> None:
    """Compare predictions with published measurements.

    Without a file, with all shipped tables.
    """
    from simnet.cli.validate import validate_tables

    validate_tables(runs=runs, collectives=collectives, flows=flows or (), fidelity=fidelity, as_json=json)


@app.command()
def collective(  # noqa: PLR0913 (as many arguments as the command has options)
    topology: Annotated[str, typer.Argument(help="Name or path of a topology.")],
    *,
    op: Annotated[str, typer.Option(help="Operation, as nccl-tests or NCCL spell it.")] = "all_reduce",
    ranks: Annotated[
        str, typer.Option(metavar="GPUS", help="GPUs that take part: a count, 0-7,16-23, one-per-node or all.")
    ] = "all",
    split: Annotated[
        str, typer.Option(help='Communicators that run together, as NCCL_TESTS_SPLIT says it: "MOD 8", "DIV 8".')
    ] = "",
    sizes: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Whole buffers: FIRST:LAST:xFACTOR or a list; 8 is bytes, 16G is 16 GiB, as in nccl-tests.",
        ),
    ] = "8:16GiB:x2",
    algorithm: Annotated[
        str, typer.Option(help="What runs: ring, tree, nvls_tree, …; auto takes what NCCL's tuner would.")
    ] = "auto",
    launch: Annotated[
        str, typer.Option(help="How the benchmark starts a call: multi_process, single_process, torch.")
    ] = "multi_process",
    parts: Annotated[
        str, typer.Option(help="Parts of an all_to_all_v: equal, zipf:EXPONENT, a number a rank, or a CSV file.")
    ] = "equal",
    buffers: Annotated[
        str, typer.Option(help="How buffers are handed to NCCL: plain, registered or symmetric (-R 0, 1, 2).")
    ] = "plain",
    routing: Annotated[str, typer.Option(help="adaptive, static, static-no-offset or ecmp; else the topology's.")] = "",
    sets: SetOption = None,
    json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it beside every algorithm that can run here.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="Log or CSV table of nccl-tests to draw over it.", **_TABLE)
    ] = None,
) -> None:
    """Print the table of nccl-tests that a machine should give."""
    from simnet.cli.collective import print_collective
    from simnet.spec.collective_question import CollectiveCallSpec

    print_collective(
        topology,
        call=CollectiveCallSpec(
            op=op,
            ranks=ranks,
            split=split,
            sizes=sizes,
            algorithm=algorithm,
            launch=launch,
            parts=parts,
            buffers=buffers,
        ),
        routing=routing,
        sets=sets or (),
        as_json=json,
        plot=plot,
        measured=measured,
    )


@app.command()
def explain(
    topology: Annotated[str, typer.Argument(help="Name or path of a topology, as it should be.")],
    *,
    measured: Annotated[Path, typer.Option(help="Log of nccl-tests, or a CSV table of them.", **_TABLE)],
    op: Annotated[str, typer.Option(help="Operation, if the file does not say it or has several.")] = "",
    ranks: Annotated[
        str, typer.Option(metavar="GPUS", help="GPUs that took part: a count, or 0-7,16-23; else as the file says.")
    ] = "",
    sets: SetOption = None,
    json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it; the ending tells the format.")] = None,
) -> None:
    """Say which single fault, if any, explains a measured table."""
    from simnet.cli.explain import explain_table

    explain_table(topology, measured=measured, op=op, ranks=ranks, sets=sets or (), as_json=json, plot=plot)


@app.command()
def calibrate(
    *,
    runs: Annotated[
        Path | None, typer.Option(help="Table of training runs; the shipped one unless given.", **_TABLE)
    ] = None,
    cross_validate: Annotated[
        bool, typer.Option("--cross-validate", help="Also fit without each fold and each GPU (some ten minutes).")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Fit the constants of the compute model on published runs.

    The shipped ones stay as they are.
    """
    from simnet.cli.calibrate import calibrate_runs

    calibrate_runs(runs=runs, cross_validate=cross_validate, as_json=json)


@app.command(name="list")
def list_command(*, json: JsonOption = False) -> None:
    """Print the shipped topologies, scenarios and models."""
    from simnet.cli.files import list_files

    list_files(as_json=json)


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(help="Shipped scenario, topology, model or question about collectives to start from.")
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File to write; default NAME.yaml.")] = None,
) -> None:
    """Copy a shipped file to start from."""
    from simnet.cli.files import copy_shipped

    copy_shipped(name, out)


@app.command()
def schema(kind: Annotated[str, typer.Argument(help="scenario, topology, model or collective.")]) -> None:
    """Print the JSON schema of a kind of file, for editors."""
    from simnet.cli.files import print_schema

    print_schema(kind)
