/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong twins of sampled.c: each makes one mistake with the mask. */
#define lossgrid_plugin_entry right_entry
#include "../sampled.c"
#undef lossgrid_plugin_entry

#define FORWARD_ARGUMENTS                                                                   \
  void *plan, const lossgrid_inputs *inputs, lossgrid_outputs *outputs, int needs_gradient, \
      lossgrid_error *error
#define BACKWARD_ARGUMENTS                                                      \
  void *plan, const lossgrid_inputs *inputs, const lossgrid_upstream *upstream, \
      const lossgrid_gradients *gradients, lossgrid_error *error

static int over_all_ids(FORWARD_ARGUMENTS) {
  lossgrid_inputs all = *inputs;
  all.sampling_mask = NULL;
  return forward(plan, &all, outputs, needs_gradient, error);
}

static int gradient_over_all_ids(BACKWARD_ARGUMENTS) {
  lossgrid_inputs all = *inputs;
  all.sampling_mask = NULL;
  return backward(plan, &all, upstream, gradients, error);
}

/* Column c has the bit of column c + 1. */
static DLTensor next_column(const lossgrid_inputs* inputs) {
  DLTensor mask = *inputs->sampling_mask;
  mask.byte_offset += 1;
  return mask;
}
static int mask_of_next_column(FORWARD_ARGUMENTS) {
  lossgrid_inputs moved = *inputs;
  const DLTensor mask = next_column(inputs);
  moved.sampling_mask = &mask;
  return forward(plan, &moved, outputs, needs_gradient, error);
}

/* Targets that are left out have the log-probability -inf. */
static int keeps_filtered_targets(FORWARD_ARGUMENTS) {
  const sampled_state* state = plan;
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  for (int64_t row = 0; row < state->rows; ++row) {
    if (is_filtered(state, row)) ((float*)outputs->logprobs->data)[row] = -INFINITY;
  }
  return code;
}

static int changes_mask(FORWARD_ARGUMENTS) {
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  const DLTensor* mask = inputs->sampling_mask;
  if (mask->shape[0] * mask->shape[1] > 0) *(uint8_t*)mask->data ^= 1;
  return code;
}

#define TWIN(twin, ...)                                                                \
  static const lossgrid_description* describe_##twin(void* user) {                     \
    static lossgrid_description description;                                           \
    (void)user;                                                                        \
    description.struct_size = sizeof(description);                                     \
    description.name = "twin_" #twin;                                                  \
    description.takes = "transforms,sampling_mask";                                    \
    return &description;                                                               \
  }                                                                                    \
  static const lossgrid_implementation twin_##twin = {sizeof(lossgrid_implementation), \
                                                      NULL,                            \
                                                      describe_##twin,                 \
                                                      supports,                        \
                                                      NULL,                            \
                                                      make_plan,                       \
                                                      __VA_ARGS__,                     \
                                                      destroy}

TWIN(over_all_ids, over_all_ids, backward);
TWIN(gradient_over_all_ids, forward, gradient_over_all_ids);
TWIN(mask_of_next_column, mask_of_next_column, backward);
TWIN(keeps_filtered_targets, keeps_filtered_targets, backward);
TWIN(changes_mask, changes_mask, backward);

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation* const all[] = {
      &twin_over_all_ids, &twin_gradient_over_all_ids, &twin_mask_of_next_column,
      &twin_keeps_filtered_targets, &twin_changes_mask};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         sizeof(all) / sizeof(*all)};
  return &plugin;
}
