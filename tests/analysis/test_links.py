"""Which launch of an Nsight Compute report belongs to which kernel of a timeline."""

from __future__ import annotations

import pytest

from gputui.analysis.links import Link, link, normalised
from gputui.model.device import Device
from gputui.model.kernel import Dim3, Kernel
from gputui.model.metrics import Metric
from gputui.model.report import NoMetrics

GPU = Device("GPU")


def kernel(
    demangled: str,
    grid: Dim3 | None = (8, 1, 1),
    block: Dim3 | None = (256, 1, 1),
    *,
    name: str = "",
    ns: float = 100.0,
) -> Kernel:
    duration = Metric("gpu__time_duration.sum", ns, "ns")
    return Kernel(0, name or demangled, demangled, GPU, NoMetrics(), grid=grid, block=block, metrics=[duration])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void gemm<float>(float*, float*)", "void gemm<float>(float *, float *)"),
        # Return type, casts and literals as cu++filt (ncu, nsys) and c++filt (PyTorch) print them.
        (
            "void at::native::elementwise<(int)128, (bool)1, float>(int, T3)",
            "void at::native::elementwise<128, true, float>(int, float)",
        ),
        ("void f<(unsigned int)4>(T1 *)", "void f<4u>(int*)"),
        ("void <unnamed>::f<const float *>(T1)", "void (anonymous namespace)::f<float const*>(float const*)"),
        ("reduce(const int *, int *, unsigned long)", "reduce(int const*, int*, unsigned long)"),
        ("std::enable_if<true, void>::type f<int>(int)", "void f<int>(int)"),
    ],
)
def test_one_function_has_one_name(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void gemm<float>(float*)", "void gemm<double>(double*)"),
        ("void f<(int)4>(int)", "void f<(int)8>(int)"),
        ("add(int*)", "add(float*)"),
        ("void a::f<int>(int)", "void b::f<int>(int)"),
        ("void f<(bool)1>()", "void f<(bool)0>()"),
    ],
)
def test_other_functions_have_other_names(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_a_function_object_keeps_its_parameters() -> None:
    lambda_in_args = "void run<f()::[lambda(int) (instance 1)]>(T1)"
    assert normalised(lambda_in_args) == "run<f()::{lambda(int)#1}>"
    assert normalised("void run<f()::{lambda(int)#1}>(T1)") == normalised(lambda_in_args)
    assert normalised("A::operator()(int)") == "A::operator()(int)"


def test_the_shape_decides_between_launches_of_one_name() -> None:
    launches = [
        kernel("void f<int>(int)", (8, 1, 1), (128, 1, 1), ns=900),
        kernel("void f<int>(int)", (64, 1, 1), (256, 1, 1), ns=500),
        kernel("void f<int>(int)", (8, 1, 1), (256, 1, 1), ns=10),
        kernel("void f<int>(int)", (8, 1, 1), (256, 1, 1), ns=20),
    ]
    assert link([kernel("void f<int>(int)")], launches) == {0: Link(3, same_shape=True)}
    # The block alone is still more alike than nothing.
    assert link([kernel("void f<int>(int)", (9, 1, 1))], launches) == {0: Link(1, same_shape=False)}
    # Nothing alike: the longest.
    assert link([kernel("void f<int>(int)", (9, 1, 1), (32, 1, 1))], launches) == {0: Link(0, same_shape=False)}


def test_what_has_no_counterpart_is_not_linked() -> None:
    assert link([kernel("f(int)"), kernel("g(int)")], [kernel("g(int)")]) == {1: Link(0, same_shape=True)}
    assert link([kernel("f(int)")], []) == {}


def test_an_unknown_shape_is_not_a_different_one() -> None:
    assert link([kernel("f(int)", None, None)], [kernel("f(int)")]) == {0: Link(0, same_shape=None)}


def test_bare_names_are_compared_where_a_report_knows_no_others() -> None:
    timed = [kernel("void ns::gemm<float>(float*)", name="gemm"), kernel("copy(int*)", name="copy")]
    assert set(link(timed, [kernel("gemm"), kernel("copy")])) == {0, 1}
    # A report that knows full names means what it says.
    assert set(link(timed, [kernel("gemm"), kernel("void other<int>(int)")])) == set()


def test_a_hostile_name_costs_no_time() -> None:
    assert normalised("<" * 100_000) == "<" * 20_000
    assert normalised("(") == "("
    assert normalised("") == ""
