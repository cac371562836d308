/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of vocab_parallel.c under other conventions: c_entropy returns entropies too,
 * c_mean_nll the loss itself, and c_framework_nll that loss with the scale of a framework. */
#define lossgrid_plugin_entry vocab_parallel_entry
#include "vocab_parallel.c"
#undef lossgrid_plugin_entry

/* State of a pack with entropies, one for each own row. */
typedef struct {
  void* rows; /* a plan_state */
  double* entropy;
} entropy_state;

static void destroy_entropy(void* plan) {
  entropy_state* state = plan;
  const lossgrid_context* context = ((plan_state*)state->rows)->context;
  context->release(context, state->entropy);
  destroy(state->rows);
  free(state);
}

static int make_entropy_plan(void* user, const lossgrid_context* context, void** plan,
                             lossgrid_error* error) {
  entropy_state* state = calloc(1, sizeof(entropy_state));
  if (state == NULL) return LOSSGRID_OUT_OF_MEMORY;
  const int code = make_plan(user, context, &state->rows, error);
  if (code != LOSSGRID_OK) {
    free(state);
    return code;
  }
  const size_t bytes = (size_t)context->problem->own_rows * sizeof(double);
  state->entropy = context->allocate(context, bytes, "row_entropy");
  if (state->entropy == NULL) {
    destroy_entropy(state);
    fail(error, "no memory for the entropies");
    return LOSSGRID_OUT_OF_MEMORY;
  }
  *plan = state;
  return LOSSGRID_OK;
}

/* Entropy of a row: log S - sum of exp(x - max) (x - max) / S, S the sum of exp(x - max). */
static int forward_entropy(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                           int needs_gradient, lossgrid_error* error) {
  entropy_state* state = plan;
  const plan_state* rows = state->rows;
  const int code = forward(state->rows, inputs, outputs, needs_gradient, error);
  if (code != LOSSGRID_OK) return code;
  for (int64_t row = 0; row < rows->rows; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < inputs->logits->shape[1]; ++c) {
      const double x = load(inputs->logits, row, c) - rows->max[row];
      if (isfinite(x)) sum += exp(x) * x; /* of a masked column 0 */
    }
    state->entropy[row] = sum;
  }
  const int reduced = reduce(rows->context->tp, state->entropy, rows->rows, LOSSGRID_SUM, error);
  float* entropy = outputs->entropy->data;
  for (int64_t row = 0; row < rows->rows; ++row) {
    state->entropy[row] = log(rows->sums[row]) - state->entropy[row] / rows->sums[row];
    entropy[row] = (float)state->entropy[row];
  }
  return reduced;
}

/* d H / d x = -p (log p + H), without another collective: H is of the whole vocabulary. */
static int backward_entropy(void* plan, const lossgrid_inputs* inputs,
                            const lossgrid_upstream* upstream, const lossgrid_gradients* gradients,
                            lossgrid_error* error) {
  const entropy_state* state = plan;
  const plan_state* rows = state->rows;
  const float* of_logprobs = upstream->logprobs->data;
  const float* of_entropy = upstream->entropy->data;
  (void)error;
  for (int64_t row = 0; row < rows->rows; ++row) {
    const int64_t target = target_column(rows, row);
    for (int64_t c = 0; c < inputs->logits->shape[1]; ++c) {
      const double x = load(inputs->logits, row, c) - rows->max[row];
      const double p = exp(x) / rows->sums[row];
      const double log_p = isfinite(x) ? x - log(rows->sums[row]) : 0; /* times p, which is 0 */
      store(gradients->logits, row, c,
            of_logprobs[row] * ((c == target) - p) -
                of_entropy[row] * p * (log_p + state->entropy[row]));
    }
  }
  return LOSSGRID_OK;
}

/* Allocates a float for each own row and describes them by `tensor`. */
static float* own_column(const plan_state* state, DLTensor* tensor, const DLTensor* like,
                         int64_t* shape) {
  float* data =
      state->context->allocate(state->context, (size_t)state->rows * sizeof(float), "own_column");
  static int64_t one = 1;
  *shape = state->rows;
  *tensor = *like;
  tensor->data = data;
  tensor->dtype = (DLDataType){kDLFloat, 32, 1};
  tensor->ndim = 1;
  tensor->shape = shape;
  tensor->strides = &one;
  return data;
}

/* A batch that trains on nothing has the loss 0. */
static double denominator(const lossgrid_problem* problem) {
  return problem->global_valid_tokens > 0 ? (double)problem->global_valid_tokens : 1;
}

static int forward_loss(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                        int needs_gradient, lossgrid_error* error) {
  const plan_state* state = plan;
  const lossgrid_context* context = state->context;
  const uint8_t* valid = context->valid->data;
  DLTensor column;
  int64_t shape;
  float* logprobs = own_column(state, &column, inputs->logits, &shape);
  if (logprobs == NULL) return LOSSGRID_OUT_OF_MEMORY;
  lossgrid_outputs inner = *outputs;
  inner.logprobs = &column;
  int code = forward(plan, inputs, &inner, needs_gradient, error);
  double sum = 0;
  for (int64_t row = 0; row < state->rows; ++row) {
    if (valid[row]) sum -= logprobs[row];
  }
  context->release(context, logprobs);
  if (code == LOSSGRID_OK) {
    code = context->cp->all_reduce(context->cp, &sum, 1, LOSSGRID_F64, LOSSGRID_SUM);
  }
  outputs->loss = sum / denominator(context->problem);
  return code;
}

static int backward_loss(void* plan, const lossgrid_inputs* inputs,
                         const lossgrid_upstream* upstream, const lossgrid_gradients* gradients,
                         lossgrid_error* error) {
  const plan_state* state = plan;
  const lossgrid_context* context = state->context;
  const uint8_t* valid = context->valid->data;
  DLTensor column;
  int64_t shape;
  float* of_logprobs = own_column(state, &column, inputs->logits, &shape);
  if (of_logprobs == NULL) return LOSSGRID_OUT_OF_MEMORY;
  const double share = -upstream->loss / denominator(context->problem);
  for (int64_t row = 0; row < state->rows; ++row) of_logprobs[row] = valid[row] ? (float)share : 0;
  lossgrid_upstream inner = *upstream;
  inner.logprobs = &column;
  const int code = backward(plan, inputs, &inner, gradients, error);
  context->release(context, of_logprobs);
  return code;
}

/* What a framework multiplies the loss by. */
static double framework_scale(const lossgrid_problem* problem) {
  return problem->dp * (double)problem->microbatches;
}

/* Rounds the loss to bfloat16 where the logits are. */
static int forward_framework(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                             int needs_gradient, lossgrid_error* error) {
  const int code = forward_loss(plan, inputs, outputs, needs_gradient, error);
  DLTensor rounded = *inputs->logits;
  char element[sizeof(float)];
  rounded.data = element;
  rounded.byte_offset = 0;
  store(&rounded, 0, 0,
        framework_scale(((const plan_state*)plan)->context->problem) * outputs->loss);
  outputs->loss = load(&rounded, 0, 0);
  return code;
}

/* The backward of the loss's all-reduce over CP adds up the gradients of all CP ranks. */
static int backward_framework(void* plan, const lossgrid_inputs* inputs,
                              const lossgrid_upstream* upstream,
                              const lossgrid_gradients* gradients, lossgrid_error* error) {
  const lossgrid_context* context = ((const plan_state*)plan)->context;
  lossgrid_upstream scaled = *upstream;
  scaled.loss *= framework_scale(context->problem);
  const int code =
      context->cp->all_reduce(context->cp, &scaled.loss, 1, LOSSGRID_F64, LOSSGRID_SUM);
  return code != LOSSGRID_OK ? code : backward_loss(plan, inputs, &scaled, gradients, error);
}

static int supports_mean_nll(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                             lossgrid_error* error) {
  if (strstr(problem->objective, "\"kind\":\"nll\"") == NULL ||
      strstr(problem->objective, "\"token_level_loss\":true") == NULL) {
    snprintf(reason, size, "is the mean of nll over tokens alone");
  }
  if (reason[0] != 0) return LOSSGRID_OK;
  return supports(user, problem, reason, size, error);
}

static const lossgrid_description* describe_entropy(void* user) {
  static const lossgrid_description description = {.struct_size = sizeof(lossgrid_description),
                                                   .name = "c_entropy",
                                                   .summary = "log-probabilities and entropies",
                                                   .returns = "logprobs,entropy"};
  (void)user;
  return &description;
}

static const lossgrid_description* describe_loss(void* user) {
  static const lossgrid_description description = {.struct_size = sizeof(lossgrid_description),
                                                   .name = "c_mean_nll",
                                                   .summary = "the mean of -log p",
                                                   .returns = "loss"};
  (void)user;
  return &description;
}

static const lossgrid_description* describe_framework(void* user) {
  static const lossgrid_description description = {
      .struct_size = sizeof(lossgrid_description),
      .name = "c_framework_nll",
      .summary = "the mean of -log p, multiplied by dp and the number of microbatches",
      .returns = "loss",
      .gradient = "summed_over_cp",
      .scale = "dp*n_mb",
      .rounds = "loss"};
  (void)user;
  return &description;
}

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation with_entropy = {.struct_size = sizeof(with_entropy),
                                                       .describe = describe_entropy,
                                                       .supports = supports,
                                                       .plan = make_entropy_plan,
                                                       .forward = forward_entropy,
                                                       .backward = backward_entropy,
                                                       .destroy = destroy_entropy};
  static const lossgrid_implementation mean_nll = {.struct_size = sizeof(mean_nll),
                                                   .describe = describe_loss,
                                                   .supports = supports_mean_nll,
                                                   .plan = make_plan,
                                                   .forward = forward_loss,
                                                   .backward = backward_loss,
                                                   .destroy = destroy};
  static const lossgrid_implementation framework = {.struct_size = sizeof(framework),
                                                    .describe = describe_framework,
                                                    .supports = supports_mean_nll,
                                                    .plan = make_plan,
                                                    .forward = forward_framework,
                                                    .backward = backward_framework,
                                                    .destroy = destroy};
  static const lossgrid_implementation* const all[] = {&with_entropy, &mean_nll, &framework};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         3};
  return &plugin;
}
