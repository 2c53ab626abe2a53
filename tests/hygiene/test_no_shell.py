"""Nothing that runs a program goes through a shell: arguments stay what they were."""

from __future__ import annotations

import ast
from importlib import resources
from pathlib import Path

import pytest

PACKAGE = Path(str(resources.files("gputui")))
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn"}
RUNS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"}


def faults(source: str) -> list[str]:
    """The calls that use a shell, or that start a program from a string."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in SHELLS or called.endswith("create_subprocess_shell"):
            found.append(called)
        for keyword in node.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                found.append(f"{called}(shell=…)")
        is_run = (
            called.rpartition(".")[2] in RUNS and called.startswith(("subprocess.", "asyncio."))
        ) or called == "Popen"
        if is_run and node.args and not called.endswith("_exec") and _is_text(node.args[0]):
            found.append(f"{called}(text)")
    return found


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a string for sure: written so, put together, or joined."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith((".join", ".format", "quote"))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_shell(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "os.system('x')", "subprocess.run(argv, shell=True)", "subprocess.run('ls x')", "subprocess.run(f'ls {x}')",
        "subprocess.Popen(' '.join(argv))", "subprocess.check_output(shlex.join(argv))", "os.popen(x)",
        "asyncio.create_subprocess_shell(x)", "subprocess.Popen(argv, shell=flag)", "subprocess.run('ls ' + x)",
    ],
)  # fmt: skip
def test_a_shell_is_found(source: str) -> None:
    assert faults(source)


def test_argument_lists_are_left_alone() -> None:
    assert not faults("subprocess.run(argv, shell=False); subprocess.run(['ls', x]); Popen(command); run('text')")
