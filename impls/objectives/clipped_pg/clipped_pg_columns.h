// SPDX-License-Identifier: Apache-2.0
// ClippedPgColumns: the columns of the tables by sequence of `clipped_pg`; -1 where the options
// need none. nvcc compiles this header.
#pragma once

namespace lossgrid {

struct ClippedPgOptions;

struct ClippedPgColumns {
  explicit ClippedPgColumns(const ClippedPgOptions& options);

  // Sums over the valid tokens of a sequence.
  int tokens = -1;
  int log_ratio = -1;            // x - prev, clipped in geo_mean
  int positive_advantages = -1;  // the loss is linear in advantages of one sign
  int negative_advantages = -1;
  int log_weight = -1;  // prev - generation
  int kept = -1;        // tokens that are not rejected one by one
  int rejection = -1;   // numbers by which the sequence is rejected
  int vetoes = -1;      // tokens that take their sequence with them
  int behaviour = -1;   // generation - x
  int sums = 0;

  // Coefficients.
  int share = -1;           // of a token in the loss, where it differs by sequence
  int ratio = -1;           // the one ratio of the sequence
  int ratio_slope = -1;     // its slope by the token's own logprob
  int ratio_gradient = -1;  // d (policy loss) / d logprob of every token, by that ratio
  int mean_advantage = -1;  // of geo_mean
  int gate = -1;            // of vespo, for tokens with advantages of at least 0
  int negative_gate = -1;   // for others
  int weight = -1;          // importance weight; seq-mask-tis: 1 kept, 0 masked
  int out_of_bounds = -1;   // of that weight: 1, else 0
  int positive = -1;        // reward above 0: 1, else 0
  int keep = -1;            // policy terms of its tokens: 1 kept, 0 dropped
  int keep_negative = -1;   // the same, of tokens that off-policy masking may drop
  int coefficients = 0;
};

}  // namespace lossgrid
