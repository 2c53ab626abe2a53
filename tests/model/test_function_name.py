"""The function's own name in a demangled one."""

from __future__ import annotations

import pytest

from gputui.model.kernel import function_name


@pytest.mark.parametrize(
    ("demangled", "short"),
    [
        ("volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("void at::native::(anonymous namespace)::cast<4, float>(int)", "cast"),
        ("void gemv2T_kernel_val<int, cublasGemvParamsEx<int, cublasGemvTensor<float const>, float> >(T13)",
         "gemv2T_kernel_val"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("void f<&g<int>::operator()>(int) const", "f"),
        ("a name of words", "a name of words"),
        ("", ""),
        ("<<<<", "<<<<"),
    ],
)  # fmt: skip
def test_the_short_name_of_a_function(demangled: str, short: str) -> None:
    assert function_name(demangled) == short


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        ("void Kernel2<cutlass_80<int>>(Params)", "Kernel2"),
        ("enable_if<!T7, void>::type kernel<int, 0, (bool)1, f<float>>(T13)", "kernel"),
        ("void at::native::<unnamed>::cat<int>(at::Tensor, (lambda)#1)", "cat"),
        ("void at::native::(anonymous namespace)::copy_kernel<T1>(int)", "copy_kernel"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("", ""),
    ],
)
def test_the_name_of_the_function_alone(demangled: str, name: str) -> None:
    assert function_name(demangled) == name
