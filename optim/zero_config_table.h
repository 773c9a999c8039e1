/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of DeepSpeed's configuration that are understood: X(block, key, KIND, field, text). `block` is the path of the object that
 * the key stands in, "" for the root. `field` is one of struct wr_zero_raw; a key without effect has none. `text` is its line in
 * doc/zero-config.md, which a test compares. Kinds:
 *   COUNT whole number >= 0    REAL number    FLAG true or false    WORD text    PATH a path    PAIR two numbers    BLOCK object    ANY without effect
 */
#ifndef WR_ZERO_CONFIG_TABLE_H
#define WR_ZERO_CONFIG_TABLE_H

/* clang-format off */
#define WR_ZERO_CONFIG_KEYS(X) \
    X("", "train_batch_size", COUNT, train, "samples of a step on all ranks; must be micro-batch x accumulation x ranks") \
    X("", "train_micro_batch_size_per_gpu", COUNT, micro, "samples of a rank in a pass") \
    X("", "gradient_accumulation_steps", COUNT, accumulate, "`accumulate`") \
    X("", "gradient_clipping", REAL, clip, "`clip_norm`") \
    X("", "communication_data_type", WORD, wire, "`reduce_type`: fp32, bf16 or fp16") \
    X("", "prescale_gradients", FLAG, prescale, "false only: gradients are divided after they were reduced") \
    X("", "gradient_predivide_factor", REAL, predivide, "1 only") \
    X("", "sparse_gradients", FLAG, sparse, "false only") \
    X("", "seed", COUNT, seed, "`seed`") \
    X("", "bf16", BLOCK, none, "see below") \
    X("", "bfloat16", BLOCK, none, "as `bf16`") \
    X("", "fp16", BLOCK, none, "see below") \
    X("", "amp", BLOCK, none, "see below") \
    X("", "data_types", BLOCK, none, "see below") \
    X("", "optimizer", BLOCK, none, "see below; without it the program's own groups are used") \
    X("", "scheduler", BLOCK, none, "see below; without it the learning rate is constant") \
    X("", "zero_optimization", BLOCK, none, "see below") \
    X("", "steps_per_print", ANY, none, "without effect") \
    X("", "wall_clock_breakdown", ANY, none, "without effect: weir_zero_step() reports times") \
    X("", "memory_breakdown", ANY, none, "without effect: weir_zero_step() reports memory") \
    X("", "dump_state", ANY, none, "without effect") \
    X("", "zero_allow_untested_optimizer", ANY, none, "without effect: every rule works with every stage") \
    X("", "zero_force_ds_cpu_optimizer", ANY, none, "without effect") \
    X("", "tensorboard", ANY, none, "without effect") \
    X("", "wandb", ANY, none, "without effect") \
    X("", "csv_monitor", ANY, none, "without effect") \
    X("bf16", "enabled", FLAG, bf16, "`param_type` and `grad_type` bf16, with fp32 masters") \
    X("bfloat16", "enabled", FLAG, bf16, "the same") \
    X("fp16", "enabled", FLAG, fp16, "`param_type` and `grad_type` fp16, with fp32 masters and a loss scale") \
    X("fp16", "auto_cast", FLAG, auto_cast, "false only: the program computes in the types that it likes") \
    X("fp16", "loss_scale", REAL, loss_scale, "`loss_scale`, which stays; 0: it changes") \
    X("fp16", "initial_scale_power", COUNT, scale_power, "`loss_scale` = 2 to this power at first (16)") \
    X("fp16", "loss_scale_window", COUNT, scale_window, "`scale_window` (1000)") \
    X("fp16", "hysteresis", COUNT, hysteresis, "1 only, also when not given: each bad step halves the loss scale") \
    X("fp16", "consecutive_hysteresis", FLAG, consecutive, "without effect") \
    X("fp16", "min_loss_scale", REAL, min_scale, "1 only, also when not given") \
    X("amp", "enabled", FLAG, amp, "false only") \
    X("amp", "opt_level", ANY, none, "without effect") \
    X("data_types", "grad_accum_dtype", WORD, grad_accum, "`grad_type`: fp32, bf16 or fp16") \
    X("optimizer", "type", WORD, optimizer, "Adam, AdamW, Lamb, Lion, SGD, Adagrad, Muon, or a name of weir_rule_kind_find()") \
    X("optimizer", "params", BLOCK, none, "see below") \
    X("optimizer", "legacy_fusion", ANY, none, "without effect") \
    X("optimizer.params", "lr", REAL, lr, "learning rate, `lr` of the schedule") \
    X("optimizer.params", "betas", PAIR, betas, "`beta1` and `beta2` of the rule") \
    X("optimizer.params", "eps", REAL, eps, "`eps` of the rule") \
    X("optimizer.params", "weight_decay", REAL, weight_decay, "`weight_decay` of the group") \
    X("optimizer.params", "momentum", REAL, momentum, "`momentum` of the rule") \
    X("optimizer.params", "nesterov", FLAG, nesterov, "Nesterov's form of momentum") \
    X("optimizer.params", "dampening", REAL, dampening, "`dampening` of the rule") \
    X("optimizer.params", "adam_w_mode", FLAG, adam_w, "with Adam: true (also when not given) is AdamW") \
    X("optimizer.params", "bias_correction", FLAG, bias_correction, "true only") \
    X("optimizer.params", "amsgrad", FLAG, amsgrad, "with Adam and AdamW: AMSGrad") \
    X("optimizer.params", "torch_adam", ANY, none, "without effect") \
    X("optimizer.params", "fused", ANY, none, "without effect") \
    X("scheduler", "type", WORD, scheduler, "WarmupLR (constant), WarmupDecayLR (linear), WarmupCosineLR (cosine)") \
    X("scheduler", "params", BLOCK, none, "see below") \
    X("scheduler.params", "warmup_min_lr", REAL, warmup_min_lr, "`warmup_lr` (0)") \
    X("scheduler.params", "warmup_max_lr", REAL, warmup_max_lr, "`lr` (that of the optimizer)") \
    X("scheduler.params", "warmup_num_steps", COUNT, warmup_steps, "`warmup` (1000)") \
    X("scheduler.params", "warmup_type", WORD, warmup_type, "linear only; log, which DeepSpeed takes when it is not given, does not exist here") \
    X("scheduler.params", "total_num_steps", COUNT, total_steps, "`total`") \
    X("scheduler.params", "warmup_min_ratio", REAL, warmup_ratio, "WarmupCosineLR: `warmup_lr` as a part of `lr` (0)") \
    X("scheduler.params", "cos_min_ratio", REAL, cos_ratio, "WarmupCosineLR: `final_lr` as a part of `lr` (0.0001)") \
    X("scheduler.params", "last_batch_iteration", ANY, none, "without effect: the step is part of the state") \
    X("zero_optimization", "stage", COUNT, stage, "`stage`") \
    X("zero_optimization", "reduce_bucket_size", COUNT, bucket, "`bucket_bytes`, elements of `reduce_type`") \
    X("zero_optimization", "stage3_prefetch_bucket_size", COUNT, prefetch, "`prefetch_bytes`, elements of `param_type`") \
    X("zero_optimization", "stage3_max_live_parameters", COUNT, live, "`max_live_bytes`, elements of `param_type`") \
    X("zero_optimization", "stage3_max_reuse_distance", COUNT, reuse, "`reuse_bytes`, elements of `param_type`") \
    X("zero_optimization", "stage3_param_persistence_threshold", COUNT, persistent, "`persistent_bytes`, elements of `param_type`; of a unit instead of a tensor") \
    X("zero_optimization", "mics_shard_size", COUNT, shard_group, "`shard_group`; -1: all ranks") \
    X("zero_optimization", "zero_hpz_partition_size", COUNT, hpz, "`secondary_group`; 1: none") \
    X("zero_optimization", "zero_quantized_weights", FLAG, quantized_weights, "`WEIR_ZERO_QUANTIZED_PARAMS` in `flags`") \
    X("zero_optimization", "zero_quantized_nontrainable_weights", FLAG, quantized_frozen, "true only with `zero_quantized_weights`, which is for all parameters") \
    X("zero_optimization", "zero_quantized_gradients", FLAG, quantized_gradients, "`WEIR_ZERO_QUANTIZED_GRADS` in `flags`") \
    X("zero_optimization", "mics_hierarchical_params_gather", ANY, none, "without effect: gathers follow the topology") \
    X("zero_optimization", "offload_optimizer", BLOCK, none, "see below") \
    X("zero_optimization", "offload_param", BLOCK, none, "see below") \
    X("zero_optimization", "cpu_offload", FLAG, cpu_offload, "without effect: everything that is not on disk is in this machine's memory") \
    X("zero_optimization", "overlap_comm", ANY, none, "without effect: always") \
    X("zero_optimization", "contiguous_gradients", ANY, none, "without effect: always") \
    X("zero_optimization", "reduce_scatter", ANY, none, "without effect: always") \
    X("zero_optimization", "round_robin_gradients", ANY, none, "without effect") \
    X("zero_optimization", "allgather_partitions", ANY, none, "without effect: always") \
    X("zero_optimization", "allgather_bucket_size", ANY, none, "without effect: parameters travel unit by unit") \
    X("zero_optimization", "sub_group_size", COUNT, sub_group, "`offload_bytes`, elements of fp32") \
    X("zero_optimization", "elastic_checkpoint", ANY, none, "without effect: every checkpoint is") \
    X("zero_optimization", "load_from_fp32_weights", ANY, none, "without effect") \
    X("zero_optimization", "ignore_unused_parameters", ANY, none, "without effect: an absent gradient is zero") \
    X("zero_optimization", "stage3_gather_16bit_weights_on_model_save", ANY, none, "without effect: weir-ckpt merge makes a model") \
    X("zero_optimization", "stage3_gather_fp16_weights_on_model_save", ANY, none, "without effect: the same") \
    X("zero_optimization.offload_optimizer", "device", WORD, offload_optimizer, "nvme: `offload`; none and cpu: states stay in memory") \
    X("zero_optimization.offload_optimizer", "nvme_path", PATH, offload_path, "`offload_path`; needed for nvme") \
    X("zero_optimization.offload_optimizer", "pin_memory", ANY, none, "without effect: buffers are registered with io_uring") \
    X("zero_optimization.offload_optimizer", "buffer_count", COUNT, offload_buffers, "`offload_buffers`, 2 to 64") \
    X("zero_optimization.offload_optimizer", "ratio", REAL, offload_ratio, "1 only") \
    X("zero_optimization.offload_param", "device", WORD, offload_param, "nvme, stage 3: `offload`; none and cpu: parameters stay in memory") \
    X("zero_optimization.offload_param", "nvme_path", PATH, offload_path, "`offload_path`; the same as for offload_optimizer, the last one counts") \
    X("zero_optimization.offload_param", "pin_memory", ANY, none, "without effect") \
    X("zero_optimization.offload_param", "buffer_count", ANY, none, "without effect") \
    X("zero_optimization.offload_param", "buffer_size", ANY, none, "without effect") \
    X("zero_optimization.offload_param", "max_in_cpu", ANY, none, "without effect")
/* clang-format on */

#endif
