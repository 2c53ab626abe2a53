"""What a kernel's name tells: operation class, library and precision, on names as profilers print them."""

from __future__ import annotations

import time

import pytest

from gputui.analysis.kernel_names import (
    KernelIdentity,
    confirm,
    identify,
    tensor_precision,
    words_of_mangled,
)

CLASSES = {
    *("gemm", "gemv", "conv", "attention", "softmax", "norm", "elementwise", "reduction", "copy", "transpose"),
    *("embedding", "optimizer", "loss", "communication", "sort-scan", "fft", "sparse", "random", "other"),
}

AT = "void at::native::"
ANON = "void at::native::(anonymous namespace)::"
XMMA = "_tn_n_tilesize128x128x32_stage5_warpsize2x2x1_tensor16x8x16_kernel"

KNOWN = [
    # cuBLAS
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coo", "gemm", "cublas", "bf16"),
    ("nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT", "gemm", "cublas", "bf16"),
    ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT", "gemm", "cublas", "fp16"),
    ("ampere_sgemm_128x64_nn", "gemm", "cublas", "fp32"),
    ("volta_sgemm_128x64_nt", "gemm", "cublas", "fp32"),
    ("volta_dgemm_64x64_nn", "gemm", "cublas", "fp64"),
    ("volta_h884gemm_128x128_ldg8_nn", "gemm", "cublas", "fp16"),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "gemm", "cublas", "fp16"),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "gemm", "cublas", "bf16"),
    ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_tn", "gemm", "cublas", "fp16"),
    (f"sm80_xmma_gemm_bf16bf16_bf16f32_f32{XMMA}", "gemm", "cublas", "bf16"),
    (f"sm80_xmma_gemm_f16f16_f16f32_f32{XMMA}", "gemm", "cublas", "fp16"),
    (f"sm90_xmma_gemm_tf32tf32_tf32f32_f32{XMMA}", "gemm", "cublas", "tf32"),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16>(x)", "gemv", "cublas", "bf16"),
    ("void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>(x)", "gemv", "cublas", "fp32"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>(x)", "reduction", "cublas", "fp32"),
    # CUTLASS
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_32x6_nn_align8>(Params)",
        "gemm", "cublas", "bf16",
    ),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)", "gemm", "cublas", "fp32"),
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_i161616gemm_s8_16x16_128x2>(Params)", "gemm", "cublas", "int8"),
    (
        "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<float>>>(Params)",
        "gemm", "cutlass", "fp32",
    ),
    # Attention
    (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>(Params)",
        "attention", "flash-attn", "bf16",
    ),
    (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::half_t>>(Params)",
        "attention", "flash-attn", "fp16",
    ),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Params)", "attention", "flash-attn", None),
    ("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<T>(Params)", "attention", "flash-attn", None),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)", "attention", "cutlass", "bf16"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_128x128x128", "attention", "cudnn", "fp16"),
    ("_attn_fwd", "attention", "user", None),
    # cuDNN
    (f"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32{XMMA}", "conv", "cudnn", "tf32"),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "conv", "cudnn", "fp32"),
    ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>(x)", "transpose", "cudnn", "fp16"),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(x)", "norm", "cudnn", "fp32"),
    # Triton and Inductor
    ("triton_poi_fused_gelu_view_2", "elementwise", "inductor", None),
    ("triton_red_fused_native_layer_norm_0", "norm", "inductor", None),
    ("triton_per_fused__softmax_1", "softmax", "inductor", None),
    ("triton_tem_fused_mm_3", "gemm", "inductor", None),
    ("add_kernel_0d1d2d3de", "other", "triton", None),
    ("_layer_norm_fwd_1pass_kernel", "norm", "user", None),
    # ATen
    (f"{AT}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(x)", "elementwise", "aten", "fp32"),
    (f"{AT}vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda()>(x)", "copy", "aten", "bf16"),
    (f"{AT}elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda()>(x)", "copy", "aten", None),
    (f"{AT}vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(x)", "copy", "aten", "fp32"),
    (f"{AT}reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)", "reduction", "aten", "fp32"),
    (f"{ANON}vectorized_layer_norm_kernel<c10::BFloat16, float>(x)", "norm", "aten", "bf16"),
    (f"{ANON}cunn_SoftMaxForwardReg<c10::BFloat16, float, c10::BFloat16>(x)", "softmax", "aten", "bf16"),
    ("void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 10>(x)", "softmax", "aten", "fp16"),
    (f"{ANON}multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>(x)",
     "optimizer", "aten", "fp32"),
    (f"{ANON}indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(x)", "embedding", "aten", "fp32"),
    (f"{ANON}CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>(x)", "copy", "aten", None),
    (f"{ANON}nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(x)", "loss", "aten", "fp32"),
    (f"{ANON}distribution_elementwise_grid_stride_kernel<float, 4, normal>(x)", "random", "aten", "fp32"),
    # NCCL, CUB, Thrust
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "nccl", "bf16"),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication", "nccl", "fp32"),
    ("void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<unsigned int>>(x)",
     "sort-scan", "cub-thrust", None),
    ("void cub::CUB_200200_800_NS::DeviceScanKernel<cub::DeviceScanPolicy<int>>(x)", "sort-scan", "cub-thrust", None),
    ("void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>, float*>(x)", "reduction", "cub-thrust", "fp32"),
    ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__transform::unary_transform_f<int>>(x)",
     "elementwise", "cub-thrust", None),
    # Others
    ("void vllm::rms_norm_kernel<c10::BFloat16>(x)", "norm", "user", "bf16"),
    ("void vllm::act_and_mul_kernel<c10::Half>(x)", "elementwise", "user", "fp16"),
    ("void vector_fft<512, 16>(x)", "fft", "user", None),
    ("void cusparse::csrmv_v3_kernel<float>(x)", "sparse", "user", "fp32"),
    ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<1u>(x)", "gemm", "user", "fp8"),
    # The author's own
    ("naiveGmem(float *, float *, int, int)", "other", "user", "fp32"),
    ("copyGmem(float *, float *, int, int)", "copy", "user", "fp32"),
    ("transposeSmem(float *, float *, int, int)", "transpose", "user", "fp32"),
    ("matrixTranspose(float *, float *)", "transpose", "user", "fp32"),
    ("gemm(float *, float *, float *, int)", "gemm", "user", "fp32"),
    ("matrixMulCUDA(float *, float *, float *, int, int)", "gemm", "user", "fp32"),
    ("million_kernel(int *)", "other", "user", None),
    ("europe(int *)", "other", "user", None),
    ("kernel_A(double *, int)", "other", "user", "fp64"),
    ("layernorm_forward_kernel(float *)", "norm", "user", "fp32"),
    ("conv2d_kernel(float *)", "conv", "user", "fp32"),
    ("_Z8naiveGmemPfS_ii", "other", "user", None),
    ("_Z13matmul_kernelPKfS0_Pfi", "gemm", "user", None),
]  # fmt: skip


def parse(demangled: str) -> str:
    """The short name, as a report holds it beside the full one."""
    return demangled.removeprefix("void ").split("(x)")[0].split("<")[0].split("::")[-1].split("(")[0]


@pytest.mark.parametrize(("demangled", "op_class", "library", "precision"), KNOWN, ids=[row[0][:60] for row in KNOWN])
def test_names(demangled: str, op_class: str, library: str, precision: str | None) -> None:
    found = identify(parse(demangled), demangled)
    assert (found.op_class, found.library, found.precision) == (op_class, library, precision)


def test_every_class_is_one_of_the_designs() -> None:
    assert {identify(parse(name), name).op_class for name, *_ in KNOWN} <= CLASSES


def test_the_full_name_tells_what_a_short_one_hides() -> None:
    full = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)"
    assert identify("Kernel2", "Kernel2").op_class == "other"
    assert identify("Kernel2", full).op_class == "gemm"


@pytest.mark.parametrize("name", ["demoKernel", "remote", "compose", "relation_kernel", "battle", "smooth", "kernel"])
def test_words_that_hold_others_are_not_taken_for_them(name: str) -> None:
    assert identify(name, name).op_class == "other"


def test_a_name_without_meaning() -> None:
    found = identify("k", "k")
    assert (found.op_class, found.detail, found.library, found.precision) == ("other", "unknown", "user", None)


# ------------------------------
# What the name tells beyond that
# ------------------------------

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, "
    "(bool)0, cutlass::bfloat16_t, Flash_kernel_traits<(int)128, (int)128, (int)64, (int)4, cutlass::bfloat16_t>>, "
    "(bool)0, (bool){causal}, (bool)0, (bool)0>(pytorch_flash::Flash_fwd_params)"
)
SM90 = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, "
    "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, "
    "cute::tuple<cute::C<2>, cute::C<1>, cute::C<1>>, X>, cute::tuple<cute::C<128>, cute::C<256>, cute::C<64>>, "
    "cutlass::half_t"
)


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", "256x128x64"),
        ("ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_32x5_tn", "128x256x32"),
        (f"sm80_xmma_gemm_bf16bf16_bf16f32_f32{XMMA}", "128x128x32"),
        ("ampere_sgemm_128x64_nn", "128x64"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_32x6_nn_align8>(P)", "128x64x32"),
        (SM90, "128x256x64"),
        (FLASH.format(causal=0), "128x64"),
        ("copyGmem_32x32(float*)", None),
        ("matmul", None),
    ],
)
def test_tiles(name: str, tile: str | None) -> None:
    assert identify(parse(name), name).tile == tile


def test_an_element_type_of_cutlass_3() -> None:
    found = identify("device_kernel", SM90)
    assert (found.op_class, found.library, found.precision) == ("gemm", "cutlass", "fp16")


@pytest.mark.parametrize(("causal", "detail"), [(0, "attention_fwd+hdim128"), (1, "attention_fwd+hdim128+causal")])
def test_flash_attention_tells_head_and_mask(causal: int, detail: str) -> None:
    assert identify("flash_fwd_kernel", FLASH.format(causal=causal)).detail == detail


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("nvjet_tst_128x64_64x4_1x2_h_bz_TNT", "bf16"),
        ("nvjet_sm100_hsh_128x64_64x4_1x2_h_bz_TNT", "fp16"),
        ("nvjet_sm90_qqtst_128x128_128x6_1x2_h_bz_NNN", "fp8"),
        ("nvjet_sm100_ootst_128x128_256x6_1x2_h_bz_NNN", "fp4"),
        ("nvjet_sm90_sss_128x64_32x4_1x2_h_bz_NNN", None),  # fp32 in memory: single precision or TF32.
    ],
)
def test_the_letters_of_nvjet(name: str, precision: str | None) -> None:
    assert identify(name, name).precision == precision


@pytest.mark.parametrize(
    ("functor", "detail"),
    [
        ("at::native::CUDAFunctor_add<float>", "add"),
        ("at::native::CUDAFunctorOnSelf_add<float>", "add"),
        ("at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>", "mul"),
        ("at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &)::[lambda() (instance 2)]", "gelu"),
        ("at::native::rsqrt_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 1)]", "rsqrt"),
        ("void at::native::<unnamed>::pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase &, T2)",
         "pow_tensor_scalar"),
        ("at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)", "silu"),
    ],
)  # fmt: skip
def test_the_operation_that_an_aten_functor_hides(functor: str, detail: str) -> None:
    name = f"{AT}vectorized_elementwise_kernel<(int)4, {functor}, std::array<char *, (unsigned long)2>>(int, T2, T3)"
    assert identify("vectorized_elementwise_kernel", name).detail == detail


@pytest.mark.parametrize(
    ("name", "op_class", "operations"),
    [
        ("triton_red_fused_add_native_layer_norm_view_1", "norm", ("add", "native_layer_norm", "view")),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm",
         ("_to_copy", "add", "mean", "mul", "pow", "rsqrt")),
        ("triton_per_fused__softmax_1", "softmax", ("_softmax",)),
        ("triton_per_fused__log_softmax_nll_loss_forward_2", "loss", ("_log_softmax", "nll_loss_forward")),
        ("triton_red_fused_sum_4", "reduction", ("sum",)),
        ("triton_poi_fused_gelu_view_2", "elementwise", ("gelu", "view")),
        ("triton_poi_fused_native_layer_norm_3", "elementwise", ("native_layer_norm",)),
        ("triton_poi_fused__to_copy_transpose_0", "copy", ("_to_copy", "transpose")),
        ("triton_poi_fused_add_embedding_0", "embedding", ("add", "embedding")),
        ("triton_tem_fused_convolution_5", "conv", ("convolution",)),
        ("triton_tem_fused_addmm_relu_5", "gemm", ("addmm", "relu")),
    ],
)  # fmt: skip
def test_the_operations_that_inductor_fused(name: str, op_class: str, operations: tuple[str, ...]) -> None:
    found = identify(name, name)
    assert (found.op_class, found.operations) == (op_class, operations)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_Z13matmul_kernelPKfS0_Pfi", "matmul_kernel"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEvi",
         "at native vectorized_elementwise_kernel CUDAFunctor_add"),
        ("matmul", ""),
        ("_Z99short", "short"),
    ],
)  # fmt: skip
def test_the_words_of_a_mangled_name(name: str, words: str) -> None:
    assert words_of_mangled(name) == words


def test_a_mangled_name_is_understood() -> None:
    name = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
    found = identify(name, name)
    assert (found.op_class, found.detail) == ("elementwise", "add")


@pytest.mark.parametrize(
    ("functor", "detail"),
    [("at::native::UnaryOpFunctor<float, 1, 1, 0>, at::native::Sqrt<float>", "foreach"),
     ("at::native::FusedAdamMathFunctor<float, 4, 0>", "optimizer")],
)  # fmt: skip
def test_a_fused_optimizer_is_told_from_foreach(functor: str, detail: str) -> None:
    assert identify("multi_tensor_apply_kernel", f"{ANON}multi_tensor_apply_kernel<{functor}>(x)").detail == detail


# ----------------------------
# What the instructions confirm
# ----------------------------

PLAIN = {"LDG": 100.0, "FADD": 100.0, "STG": 100.0}


def confirmed(name: str, opcodes: dict[str, float], tensor: float | None = None, **modified: float) -> KernelIdentity:
    return confirm(identify(name, name), opcodes, {key.replace("_", "."): n for key, n in modified.items()}, tensor)


def test_a_product_by_name_that_does_not_multiply_is_none() -> None:
    assert confirmed("matmul_check", PLAIN).op_class == "other"
    assert confirmed("matmul", {**PLAIN, "FFMA": 10.0}).op_class == "gemm"
    assert confirmed("matmul", {**PLAIN, "FFMA": 3.0}).op_class == "other"
    assert confirmed("matmul", {**PLAIN, "HMMA": 1.0}).op_class == "gemm"
    assert confirmed("matmul", {}).op_class == "gemm"


@pytest.mark.parametrize(
    ("tensor", "exponentials", "op_class"), [(30.0, 0.0, "gemm"), (29.0, 0.0, "other"), (60.0, 40.0, "other")]
)
def test_a_kernel_that_keeps_the_tensor_cores_busy_is_a_product(
    tensor: float, exponentials: float, op_class: str
) -> None:
    assert confirmed("foo", {**PLAIN, "HMMA": 50.0, "MUFU": exponentials}, tensor).op_class == op_class


@pytest.mark.parametrize(
    ("opcode", "precision"),
    [
        ("HMMA.16816.F32.BF16", "bf16"), ("HMMA.16816.F32", "fp16"), ("HMMA.1688.F32.TF32", "tf32"),
        ("HGMMA.64x128x16.F32.BF16", "bf16"), ("HGMMA.64x256x16.F32", "fp16"), ("IMMA.16832.S8.S8", "int8"),
        ("IMMA.16864.S4.S4", "int4"), ("DMMA.884", "fp64"), ("QGMMA.64x128x32.F32.E4M3.E4M3", "fp8"),
        ("UTCQMMA", "fp8"), ("OMMA.SF.16864.F32.E2M1.E2M1", "fp4"), ("HMMA", None), ("HFMA2.MMA", None), ("FFMA", None),
    ],
)  # fmt: skip
def test_the_precision_of_tensor_instructions(opcode: str, precision: str | None) -> None:
    assert tensor_precision({opcode: 8.0}) == precision


def test_most_tensor_instructions_decide_and_win_over_the_name() -> None:
    assert tensor_precision({"HMMA.16816.F32": 1.0, "HMMA.16816.F32.BF16": 2.0}) == "bf16"
    found = confirmed("ampere_sgemm_128x64_nn", {"HMMA": 9.0, "LDG": 9.0}, 50.0, HMMA_1688_F32_TF32=9.0)
    assert found.precision == "tf32"


@pytest.mark.parametrize(
    "hostile",
    [
        "cutlass gemm_" + "gemm_" * 1000,
        "cutlass_80_tensorop_sgemm_" + "_1x1" * 1000,
        "triton_poi_fused_" + "a_" * 2000,
        "vectorized_elementwise_kernel at::native::" + "kernelcuda" * 400,
        "volta_" * 700,
        "double " * 600,
        "s1688gemm_" * 400,
        "_Z" + "1a" * 2000,
    ],
)
def test_hostile_names_take_no_time(hostile: str) -> None:
    identify("compiles", "the patterns")
    begin = time.perf_counter()
    for number in range(20):
        identify(f"{number} {hostile}", f"{hostile}{number}")
        identify(hostile, f"{hostile} {number}")
    assert time.perf_counter() - begin < 1
