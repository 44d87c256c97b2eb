"""The names that the public releases of NKI have, module by module: NKI documentation, SDK 2.28 to 2.33.

What a module here lacks of them is "not implemented"; a name of neither does not exist. `INSTEAD` says what to do
about those that kernels are likely to ask for, `REMOVED` about those of the releases before 2.28.
"""

from __future__ import annotations

__all__ = ["INSTEAD", "PUBLIC", "REMOVED"]

PUBLIC: dict[str, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in {
        "nki": "jit simulate collectives dtype isa language typing",
        "nki.language": """
            MemoryRegion NKIObject NkiTensor abs abs_max abs_min add affine_range all arctan average bfloat16
            bitwise_and bitwise_or bitwise_xor bool_ broadcast_to bypass ceil copy cos device_print divide dropout ds
            dynamic_range empty_like equal erf erf_dx exp expand_dims float16 float32 float4_e2m1fn_x4 float8_e4m3
            float8_e4m3fn float8_e4m3fn_x4 float8_e5m2 float8_e5m2_x4 float8_e8m0fnu floor fmod fori_loop full
            gather_flattened gelu gelu_apprx_sigmoid gelu_apprx_sigmoid_dx gelu_apprx_tanh gelu_dx greater
            greater_equal hbm int16 int32 int64 int8 invert is_hbm is_on_chip is_psum is_sbuf left_shift less
            less_equal load load_transpose2d log logical_and logical_not logical_or logical_xor matmul max maximum
            mean min minimum mish mod multiply ndarray negative no_reorder not_equal num_programs ones power prelu
            private_hbm prod program_id program_ndim psum rand random_seed reciprocal relu right_shift rms_norm rsqrt
            sbuf sequential_range shared_constant shared_hbm shared_identity_matrix sigmoid sign silu silu_dx sin
            softmax softplus sqrt square static_range store subtract sum tan tanh tfloat32 tile_size transpose trunc
            uint16 uint32 uint8 var where while_loop zeros zeros_like
        """,
        "nki.isa": """
            NkiInstruction NkiScalar NkiValidationError VirtualRegister activate2 activation activation_reduce
            affine_select bn_aggr bn_stats core_barrier dependency dge_mode dma_compute dma_copy dma_engine
            dma_transpose dropout engine exponential get_nc_sub_version get_nc_version gpsimd_engine iota local_gather
            matmul_perf_mode max8 memset nc_find_index8 nc_match_replace8 nc_matmul nc_matmul_mx nc_n_gather
            nc_stream_shuffle nc_transpose nc_version nonzero_with_count oob_mode quantize_mx rand2 rand_get_state
            rand_set_state range_select reciprocal reduce_cmd register_alloc register_load register_move
            register_store rng scalar_engine scalar_load scalar_store scalar_tensor_tensor select_reduce sendrecv
            sequence_bounds set_rng_seed tensor_copy tensor_copy_predicated tensor_engine tensor_partition_reduce
            tensor_reduce tensor_scalar tensor_scalar_cumulative tensor_scalar_reduce tensor_tensor tensor_tensor_scan
            topk unknown_engine vector_engine
        """,
        "nki.collectives": """
            ReplicaGroup all_gather all_gather_v all_gather_v_prepare all_gather_v_trigger all_reduce all_to_all
            all_to_all_v all_to_all_v_prepare all_to_all_v_trigger collective_permute collective_permute_implicit
            collective_permute_implicit_current_processing_rank_id collective_permute_implicit_reduce rank_id
            reduce_scatter rg_partition_op
        """,
    }.items()
}

_ELEMENTWISE = "Compute it with nki.isa.activation or nki.isa.tensor_scalar."
_MX = "MX matrix products are not simulated yet; use nki.isa.nc_matmul."
INSTEAD: dict[str, str] = {
    "nki.language.ceil": _ELEMENTWISE,
    "nki.language.cos": "Use nl.sin of x + pi/2 within its range.",
    "nki.language.dropout": "Use nki.isa.dropout.",
    "nki.language.floor": _ELEMENTWISE,
    "nki.language.fmod": _ELEMENTWISE,
    "nki.language.gather_flattened": "Use nki.isa.local_gather or nki.isa.nc_n_gather.",
    "nki.language.rand": "Use nki.isa.rand2.",
    "nki.language.random_seed": "Use nki.isa.set_rng_seed.",
    "nki.language.tan": _ELEMENTWISE,
    "nki.language.trunc": _ELEMENTWISE,
    "nki.isa.NkiValidationError": "Everything that nkicc refuses is an nkicc.NkiccError.",
    "nki.isa.get_nc_sub_version": "Use nki.isa.get_nc_version.",
    "nki.isa.nc_matmul_mx": _MX,
    "nki.isa.quantize_mx": _MX,
}

_DST = "nki.isa calls take their destination as the first argument now."
REMOVED: dict[str, str] = {
    "nki.simulate_kernel": "Call nki.simulate(kernel)(*args).",
    "nki.profile": "nkicc simulates results, not time.",
    "nki.language.arange": "Index with slices, or build an access pattern with tensor.ap([[stride, count], ...]).",
    "nki.language.mgrid": "Index with slices, or build an access pattern with tensor.ap([[stride, count], ...]).",
    "nki.language.par_dim": "The first dimension of an on-chip tensor is its partition dimension; write the number.",
    "nki.language.static_cast": "Pass dtype= to the instruction, or copy to a tensor of the other type.",
    "nki.language.loop_reduce": "Accumulate with nki.isa.tensor_tensor in the loop.",
    "nki.language.all_reduce": "Use nki.collectives.all_reduce.",
    "nki.language.atomic_rmw": "Use nki.isa.dma_compute.",
    "nki.language.spmd_dim": "Launch on kernel[lnc].",
    "nki.language.nc": "Launch on kernel[lnc].",
    "nki.language.fp32": "Use nl.float32.",
    "nki.isa.tensor_copy_dynamic_src": f"Use nki.isa.tensor_copy with a view by nl.ds(register, size). {_DST}",
    "nki.isa.tensor_copy_dynamic_dst": f"Use nki.isa.tensor_copy with a view by nl.ds(register, size). {_DST}",
}
