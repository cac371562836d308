// SPDX-License-Identifier: Apache-2.0
// Benchmarks of the parts of a trial: row kernels, Highway against plain loops, and collectives
// between ranks that are threads.
#pragma once

namespace lossgrid {

/// Registers "statistics/highway/f32/32768": also all_statistics (with entropy and smallest logit),
/// gradient and sweep, also plain, also bf16; term_statistics and term_gradient, of terms beside
/// the log-probability, and the same of logits below a temperature (scaled_) and a soft-cap
/// (capped_); and "values/REGIME/f32/32768". On one thread.
void register_kernels();

/// Registers "exp/highway/f32/32768" and "exp/plain/f32/32768": exp alone, of [-10, 0). On one
/// thread.
void register_exponentials();

/// Registers "all_reduce/threads/2/256": RANKS, FLOATS; also all_gather and reduce_scatter.
void register_collectives();

}  // namespace lossgrid
