/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong twins of vocab_parallel.c: each has one fault, and its own status. They are what tests of
 * the host hold it to; nothing here is an example. */
#define _POSIX_C_SOURCE 200809L
#define lossgrid_plugin_entry right_entry
#include "../vocab_parallel.c"
#undef lossgrid_plugin_entry

#include <unistd.h>

#define BACKWARD_ARGUMENTS                                                      \
  void *plan, const lossgrid_inputs *inputs, const lossgrid_upstream *upstream, \
      const lossgrid_gradients *gradients, lossgrid_error *error
#define FORWARD_ARGUMENTS                                                                   \
  void *plan, const lossgrid_inputs *inputs, lossgrid_outputs *outputs, int needs_gradient, \
      lossgrid_error *error

static const lossgrid_problem* problem_of(void* plan) {
  return ((plan_state*)plan)->context->problem;
}

static int is_last_tp(void* plan) {
  return problem_of(plan)->tp_rank == problem_of(plan)->tp - 1;
}

static int half_gradient(BACKWARD_ARGUMENTS) {
  const int code = backward(plan, inputs, upstream, gradients, error);
  for (int64_t row = 0; row < gradients->logits->shape[0]; ++row) {
    for (int64_t c = 0; c < gradients->logits->shape[1]; ++c) {
      store(gradients->logits, row, c, load(gradients->logits, row, c) / 2);
    }
  }
  return code;
}

/* The sums of this rank stand for those of all ranks. */
static int left_out(const lossgrid_communicator* self, void* data, size_t count, int dtype,
                    int op) {
  (void)self, (void)data, (void)count, (void)dtype, (void)op;
  return LOSSGRID_OK;
}
static int sums_not_reduced(FORWARD_ARGUMENTS) {
  plan_state* state = plan;
  const lossgrid_context* right = state->context;
  lossgrid_communicator tp = *right->tp;
  lossgrid_context context = *right;
  tp.all_reduce = left_out;
  context.tp = &tp;
  state->context = &context;
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  state->context = right;
  return code;
}

static int segfaults(FORWARD_ARGUMENTS) {
  (void)inputs, (void)outputs, (void)needs_gradient, (void)error;
  if (is_last_tp(plan)) {
    printf("about to crash\n");
    fflush(stdout);
    volatile int* volatile nowhere = NULL;
    *nowhere = 1;
  }
  return forward(plan, inputs, outputs, needs_gradient, error);
}

static int hangs(FORWARD_ARGUMENTS) {
  while (is_last_tp(plan)) sleep(1);
  return forward(plan, inputs, outputs, needs_gradient, error);
}

/* A collective that the other ranks do not make. */
static int waits_alone(FORWARD_ARGUMENTS) {
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  const lossgrid_communicator* tp = ((plan_state*)plan)->context->tp;
  return is_last_tp(plan) ? tp->barrier(tp) : code;
}

static int returns_error(FORWARD_ARGUMENTS) {
  (void)plan, (void)inputs, (void)outputs, (void)needs_gradient;
  return fail(error, "no such column");
}

static int returns_no_text(FORWARD_ARGUMENTS) {
  (void)plan, (void)inputs, (void)outputs, (void)needs_gradient, (void)error;
  return 42;
}

static int has_no_memory(FORWARD_ARGUMENTS) {
  (void)plan, (void)inputs, (void)outputs, (void)needs_gradient;
  fail(error, "no workspace of 1 TiB");
  return LOSSGRID_OUT_OF_MEMORY;
}

static int fails_on_one_rank(FORWARD_ARGUMENTS) {
  if (is_last_tp(plan)) return fail(error, "only here");
  return forward(plan, inputs, outputs, needs_gradient, error);
}

/* Fails, and reports success all the same. */
static int ignores_failure(FORWARD_ARGUMENTS) {
  const lossgrid_communicator* tp = ((plan_state*)plan)->context->tp;
  float number = 0;
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  tp->all_reduce(tp, &number, 1, LOSSGRID_BF16, LOSSGRID_SUM);
  return code;
}

static int writes_beyond(BACKWARD_ARGUMENTS) {
  const int code = backward(plan, inputs, upstream, gradients, error);
  const DLTensor* logits = gradients->logits;
  store(logits, logits->shape[0], 0, 0); /* a row too many */
  return code;
}

static int writes_padding(BACKWARD_ARGUMENTS) {
  const int code = backward(plan, inputs, upstream, gradients, error);
  const DLTensor* logits = gradients->logits;
  for (int64_t row = 0; row < logits->shape[0]; ++row) {
    for (int64_t c = logits->shape[1]; c < logits->strides[0]; ++c) store(logits, row, c, 0);
  }
  return code;
}

static int leaves_unwritten(BACKWARD_ARGUMENTS) {
  lossgrid_gradients other = *gradients;
  DLTensor nothing = *gradients->logits;
  nothing.data = calloc((size_t)(nothing.shape[0] * nothing.strides[0]) + 1, sizeof(float));
  other.logits = &nothing;
  const int code = backward(plan, inputs, upstream, &other, error);
  for (int64_t c = 0; c + 1 < nothing.shape[1]; ++c) { /* all columns but the last */
    for (int64_t row = 0; row < nothing.shape[0]; ++row) {
      store(gradients->logits, row, c, load(&nothing, row, c));
    }
  }
  free(nothing.data);
  return code;
}

static int changes_input(FORWARD_ARGUMENTS) {
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  if (inputs->logits->shape[1] > 0) store(inputs->logits, 0, 0, 1);
  return code;
}

static int changes_labels(FORWARD_ARGUMENTS) {
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  ((int64_t*)((plan_state*)plan)->context->labels->data)[0] += 1;
  return code;
}

static void leaks(void* plan) {
  plan_state* state = plan;
  state->context->release(state->context, state->max);
  free(state);
}

static void releases_twice(void* plan) {
  plan_state* state = plan;
  const lossgrid_context* context = state->context;
  void* max = state->max;
  destroy(plan);
  context->release(context, max);
}

static int plan_fails(void* user, const lossgrid_context* context, void** plan,
                      lossgrid_error* error) {
  (void)user, (void)context, (void)plan;
  return fail(error, "no plan for this");
}

static int wrong_cost(void* user, const lossgrid_problem* problem, lossgrid_cost* out,
                      lossgrid_error* error) {
  const int code = cost(user, problem, out, error);
  out->forward.calls[0].calls = 1;
  return code;
}

static int no_cost_known(void* user, const lossgrid_problem* problem, lossgrid_cost* out,
                         lossgrid_error* error) {
  (void)user, (void)problem, (void)out, (void)error;
  return LOSSGRID_OK;
}

static int supports_nothing(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                            lossgrid_error* error) {
  (void)user, (void)problem, (void)error;
  snprintf(reason, size, "takes nothing");
  return LOSSGRID_OK;
}

/* Gathers over CP in the order of ranks, which is that of the pack in some layouts only. */
static int forward_in_rank_order(FORWARD_ARGUMENTS) {
  plan_state* state = plan;
  const lossgrid_context* context = state->context;
  const size_t rows = (size_t)state->rows;
  float* own = calloc(rows + 1, sizeof(float));
  DLTensor own_rows = *outputs->logprobs;
  own_rows.data = own;
  lossgrid_outputs inner = *outputs;
  inner.logprobs = &own_rows;
  int code = forward(plan, inputs, &inner, needs_gradient, error);
  if (code == LOSSGRID_OK) {
    code = context->cp->all_gather(context->cp, own, outputs->logprobs->data, rows, LOSSGRID_F32);
  }
  free(own);
  return code;
}
static int backward_in_rank_order(BACKWARD_ARGUMENTS) {
  const plan_state* state = plan;
  DLTensor own_rows = *upstream->logprobs;
  lossgrid_upstream inner = *upstream;
  own_rows.data = (float*)own_rows.data + problem_of(plan)->cp_rank * state->rows;
  inner.logprobs = &own_rows;
  return backward(plan, inputs, &inner, gradients, error);
}
static const lossgrid_description* describe_in_rank_order(void* user) {
  static const lossgrid_description description = {.struct_size = sizeof(description),
                                                   .name = "twin_in_rank_order",
                                                   .rows = "pack",
                                                   .takes = "layouts"};
  (void)user;
  return &description;
}

/* A twin: the right functions but for those that are given. */
#define TWIN(twin, ...)                                                                      \
  static const lossgrid_description* describe_##twin(void* user) {                           \
    static lossgrid_description description;                                                 \
    (void)user;                                                                              \
    description.struct_size = sizeof(description);                                           \
    description.name = "twin_" #twin;                                                        \
    return &description;                                                                     \
  }                                                                                          \
  static const lossgrid_implementation twin_##twin = {sizeof(lossgrid_implementation), NULL, \
                                                      describe_##twin, __VA_ARGS__}

TWIN(right, supports, cost, make_plan, forward, backward, destroy);
TWIN(half_gradient, supports, cost, make_plan, forward, half_gradient, destroy);
TWIN(sums_not_reduced, supports, NULL, make_plan, sums_not_reduced, backward, destroy);
TWIN(segfaults, supports, cost, make_plan, segfaults, backward, destroy);
TWIN(hangs, supports, cost, make_plan, hangs, backward, destroy);
TWIN(waits_alone, supports, NULL, make_plan, waits_alone, backward, destroy);
TWIN(returns_error, supports, cost, make_plan, returns_error, backward, destroy);
TWIN(returns_no_text, supports, cost, make_plan, returns_no_text, backward, destroy);
TWIN(has_no_memory, supports, cost, make_plan, has_no_memory, backward, destroy);
TWIN(fails_on_one_rank, supports, cost, make_plan, fails_on_one_rank, backward, destroy);
TWIN(ignores_failure, supports, NULL, make_plan, ignores_failure, backward, destroy);
TWIN(writes_beyond, supports, cost, make_plan, forward, writes_beyond, destroy);
TWIN(writes_padding, supports, cost, make_plan, forward, writes_padding, destroy);
TWIN(leaves_unwritten, supports, cost, make_plan, forward, leaves_unwritten, destroy);
TWIN(changes_input, supports, cost, make_plan, changes_input, backward, destroy);
TWIN(changes_labels, supports, cost, make_plan, changes_labels, backward, destroy);
TWIN(leaks, supports, cost, make_plan, forward, backward, leaks);
TWIN(releases_twice, supports, cost, make_plan, forward, backward, releases_twice);
TWIN(plan_fails, supports, cost, plan_fails, forward, backward, destroy);
TWIN(wrong_cost, supports, wrong_cost, make_plan, forward, backward, destroy);
TWIN(no_cost_known, supports, no_cost_known, make_plan, forward, backward, destroy);
TWIN(supports_nothing, supports_nothing, cost, make_plan, forward, backward, destroy);

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation in_rank_order = {sizeof(in_rank_order),
                                                        NULL,
                                                        describe_in_rank_order,
                                                        supports,
                                                        NULL,
                                                        make_plan,
                                                        forward_in_rank_order,
                                                        backward_in_rank_order,
                                                        destroy};
  static const lossgrid_implementation* const all[] = {
      &in_rank_order,        &twin_right,          &twin_half_gradient,     &twin_sums_not_reduced,
      &twin_segfaults,       &twin_hangs,          &twin_waits_alone,       &twin_returns_error,
      &twin_returns_no_text, &twin_has_no_memory,  &twin_fails_on_one_rank, &twin_ignores_failure,
      &twin_writes_beyond,   &twin_writes_padding, &twin_leaves_unwritten,  &twin_changes_input,
      &twin_changes_labels,  &twin_leaks,          &twin_releases_twice,    &twin_plan_fails,
      &twin_wrong_cost,      &twin_no_cost_known,  &twin_supports_nothing,
  };
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         sizeof(all) / sizeof(*all)};
  return &plugin;
}
